"""What is particular to files: the layout, kills in the middle, damage, full disks, and other processes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locus.errors import CorruptRecordError, SetupError, UnavailableError
from locus.storage import ABSENT, Delete, Key, Op, Put, Query, Record, Space, Span, SyncStorage
from locus.storage.file import FileStorage
from locus.storage.testing import FakeClock

PART = ("thread",)

WRITER = """
import sys
from locus.errors import ConflictError, StorageError
from locus.storage import ABSENT, Delete, Key, Put, Space, SyncStorage
from locus.storage.file import FileStorage

storage = SyncStorage(FileStorage(sys.argv[1]))
for sort in sys.argv[3:]:
    try:
        storage.commit([Put(Key("notes", ("thread",), sort), {"who": sys.argv[2], "fill": "x" * 5000}, ABSENT)])
    except ConflictError:
        continue
    except StorageError as error:
        print("error", type(error).__name__, error, flush=True)
        continue
    print("done", sort, flush=True)
"""


def start(*args: str, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    # The interpreter itself, not a wrapper of it: faults are injected into the process that is started.
    python = str(Path(sys.executable).resolve())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([*under, python, "-c", WRITER, *args], stdout=subprocess.PIPE, text=True, env=environment)


def lines(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=60)
    return out.splitlines()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def storage(base: Path) -> SyncStorage:
    return SyncStorage(FileStorage(base))


def put(storage: SyncStorage, sort: str, part: tuple[str, ...] = PART, **fields: float) -> None:
    storage.commit([Put(Key("notes", part, sort), {"at": sort}, **fields)])  # type: ignore[arg-type]


def records(storage: SyncStorage, part: tuple[str, ...] = PART) -> list[Record]:
    return storage.scan([Span("notes", part)])[0]


def test_a_record_is_one_readable_file(base: Path) -> None:
    files = FileStorage(base)
    files.clock = FakeClock(1000.5)
    op = Put(
        Key("notes", ("User:A", "b"), "1"), {"é": [1]}, token="t", tags={"a": 1}, text="words", vector=[0.5], blob=b"\0"
    )
    (rev,) = SyncStorage(files).commit([op])
    path = base / "notes" / "%55ser%3a%41+b" / "1.json"
    assert files.part_path("notes", ("User:A", "b")) == path.parent
    assert json.loads(path.read_text()) == {
        "space": "notes", "part": ["User:A", "b"], "sort": "1", "rev": rev, "token": "t", "created_at": 1000.5,
        "updated_at": 1000.5, "tags": {"a": 1}, "text": "words", "vector": [0.5], "blob": "AA==", "body": {"é": [1]},
    }  # fmt: skip
    assert '\n  "body": {\n    "é": [' in path.read_text()
    assert json.loads((base / "locus.json").read_text()) == {"format": 1}
    assert sorted(os.listdir(path.parent)) == ["+lock", "1.json"]


def test_a_relative_directory_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    storage = SyncStorage(FileStorage("files"))
    put(storage, "1")
    monkeypatch.chdir("elsewhere")
    assert [record.key.sort for record in records(storage)] == ["1"]
    put(storage, "2")
    assert sorted(os.listdir(tmp_path / "elsewhere")) == []


def test_names_too_long_for_a_directory_are_kept_beside_the_records(base: Path, storage: SyncStorage) -> None:
    part = ("é" * 60,) * 12
    put(storage, "1", part)
    (directory,) = (base / "notes").iterdir()
    assert len(directory.name) <= 255
    assert SyncStorage(FileStorage(base)).parts("notes").parts == [part]
    (directory / "+part.json").unlink()
    assert SyncStorage(FileStorage(base)).parts("notes").parts == [part]


def test_the_directory_of_an_emptied_part_goes(base: Path, storage: SyncStorage) -> None:
    put(storage, "1")
    put(storage, "2", expires_at=1.0)
    storage.commit([Delete(Key("notes", PART, "1"))])
    assert (base / "notes" / "thread").exists()
    storage.purge()
    assert list((base / "notes").iterdir()) == []
    put(storage, "1")
    assert len(records(storage)) == 1


DAMAGES: dict[str, bytes] = {
    "empty": b"", "zeroes": bytes(100), "half": b'{"space": "notes", "part"', "list": b"[1]", "two": b"{},{}",
    "other": b'{"space":"notes","part":["x"],"sort":"2","rev":"r","token":"t","created_at":1,"updated_at":1,"body":{}}',
    "body": b'{"space":"notes","part":["thread"],"sort":"2","rev":"r","token":"t","created_at":1,"updated_at":1,"body":1}',
    "binary": b"\xff\xfe\x00", "fields": b'{"space":"notes","part":["thread"],"sort":"2","body":{}}',
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_never_read_as_nothing(base: Path, storage: SyncStorage, damage: str) -> None:
    for sort in "123":
        put(storage, sort)
    path = base / "notes" / "thread" / "2.json"
    path.write_bytes(DAMAGES[damage])
    calls: list[Callable[[], object]] = [
        lambda: storage.get([Key("notes", PART, "2")]),
        lambda: records(storage),
        lambda: storage.search(Query("notes")),
        lambda: storage.commit([Put(Key("notes", PART, "2"), {}, ABSENT)]),
    ]
    for call in calls:
        with pytest.raises(CorruptRecordError, match=str(path)):
            call()
    assert [record.key.sort for record in storage.scan([Span("notes", PART, end="2")])[0]] == ["1"]


def test_a_damaged_note_of_a_part_is_named(base: Path) -> None:
    files = FileStorage(base)
    storage = SyncStorage(files)
    storage.setup(Space("notes", log=True))
    storage.commit([Put(Key("notes", PART, "1"), {}, expires_at=4e9)])
    (base / "notes" / "thread" / "+part.json").write_text("{")
    with pytest.raises(CorruptRecordError, match="part.json"):
        records(storage)


def test_reading_the_new_end_does_not_read_the_rest(base: Path, storage: SyncStorage) -> None:
    storage.commit([Put(Key("notes", PART, f"{n:03d}"), {"n": n}) for n in range(30)])
    for n in range(25):
        (base / "notes" / "thread" / f"{n:03d}.json").write_text("damaged")
    (newest,) = storage.scan([Span("notes", PART, reverse=True, limit=5)])
    assert [record.body["n"] for record in newest] == [29, 28, 27, 26, 25]


def test_what_a_killed_writer_left_is_ignored_and_swept_when_old(base: Path, storage: SyncStorage) -> None:
    put(storage, "1")
    old, new = base / "notes" / "thread" / "+tmp-old", base / "notes" / "thread" / "+tmp-new"
    for path in (old, new, base / "+tmp-old"):
        path.write_bytes(b'{"half')
    for path in (old, base / "+tmp-old"):
        os.utime(path, (1.0, 1.0))
    assert len(records(storage)) == 1
    assert storage.purge() == 0
    assert (old.exists(), new.exists()) == (False, True)
    SyncStorage(FileStorage(base)).setup(Space("notes"))
    assert not (base / "+tmp-old").exists()


def test_a_file_in_the_place_of_the_directory_is_a_setup_error(base: Path, storage: SyncStorage) -> None:
    base.write_text("a file")
    with pytest.raises(SetupError, match="base_dir"):
        put(storage, "1")
    with pytest.raises(SetupError):
        SyncStorage(FileStorage(base / "below")).setup()


def test_a_newer_format_asks_for_an_upgrade(base: Path, storage: SyncStorage) -> None:
    base.mkdir()
    (base / "locus.json").write_text('{"format": 2}')
    with pytest.raises(SetupError, match="upgrade locus"):
        put(storage, "1")
    assert "upgrade locus" in storage.verify()[0]
    (base / "locus.json").write_text("other")
    with pytest.raises(SetupError, match=r"locus\.json"):
        put(storage, "1")


def test_verify_finds_what_is_missing_and_makes_nothing(base: Path, storage: SyncStorage) -> None:
    assert "does not exist" in storage.verify()[0]
    assert not base.exists()
    storage.setup()
    assert storage.verify() == []
    (base / "locus.json").unlink()
    assert "is missing" in storage.verify()[0]
    assert list(base.iterdir()) == []


def test_directories_removed_behind_our_back_are_made_again(base: Path, storage: SyncStorage) -> None:
    put(storage, "1")
    for path in (*(base / "notes" / "thread").iterdir(), base / "notes" / "thread", base / "notes"):
        path.rmdir() if path.is_dir() else path.unlink()
    assert records(storage) == []
    assert storage.commit([Delete(Key("notes", PART, "1"))]) == [None]
    put(storage, "1")
    assert len(records(storage)) == 1


async def test_disk_usage_counts_bytes_of_all_or_of_a_part(base: Path) -> None:
    storage = FileStorage(base)
    assert await storage.disk_usage() == 0
    ops: list[Op] = [Put(Key(space, (part,), "1"), {"x": "y" * 1000}) for space in ("notes", "logs") for part in "ab"]
    await storage.commit(ops)
    whole, one = await storage.disk_usage(), await storage.disk_usage(("a",))
    assert 2000 < one < whole / 2 + 50
    assert whole == storage.do_disk_usage()
    assert await storage.disk_usage(("none",)) == 0


def test_processes_that_race_for_positions_each_win_or_are_refused(base: Path) -> None:
    sorts = [f"{n:03d}" for n in range(25)]
    writers = [start(str(base), str(n), *sorts) for n in range(4)]
    done = [line.split()[1] for writer in writers for line in lines(writer)]
    assert sorted(done) == sorts
    assert [record.key.sort for record in records(SyncStorage(FileStorage(base)))] == sorts


def test_eight_processes_set_up_at_once(base: Path) -> None:
    writers = [start(str(base), str(n), f"own-{n}") for n in range(8)]
    assert [lines(writer) for writer in writers] == [[f"done own-{n}"] for n in range(8)]
    assert len(records(SyncStorage(FileStorage(base)))) == 8


def test_an_append_is_two_syncs(base: Path, tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    trace = tmp_path / "trace"
    under = (require_tool("strace"), "-f", "-e", "trace=fsync,fdatasync", "-o", str(trace))
    counts = []
    for sorts in (["1", "2"], ["3", "4", "5", "6", "7"]):
        assert len(lines(start(str(base), "me", *sorts, under=under))) == len(sorts)
        counts.append(trace.read_text().count("sync("))
    # Both begin with the same set-up; the first also makes the directories.
    assert counts[1] - 2 * 5 <= 3
    assert counts[0] >= 2 * 2 + 2


@pytest.mark.parametrize("when", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_a_kill_at_any_sync_loses_nothing_that_was_acknowledged(
    base: Path, require_tool: Callable[[str], str], when: int
) -> None:
    under = (require_tool("strace"), "-f", "-e", f"inject=fsync:signal=SIGKILL:when={when}", "-o", os.devnull)
    killed = start(str(base), "killed", *"abcdefgh", under=under)
    done = [line.split()[1] for line in lines(killed)]
    assert killed.returncode != 0
    storage = SyncStorage(FileStorage(base))
    found = [record.key.sort for record in records(storage)]
    assert found in (done, [*done, "abcdefgh"[len(done)]])
    assert all(record.body["fill"] == "x" * 5000 for record in records(storage))
    assert lines(start(str(base), "next", "z")) == ["done z"]


def test_a_failing_disk_is_unavailable_and_what_was_there_stays(base: Path, require_tool: Callable[[str], str]) -> None:
    assert lines(start(str(base), "first", "a")) == ["done a"]
    under = (require_tool("strace"), "-f", "-e", "inject=fsync:error=EIO:when=2+", "-o", os.devnull)
    (answer,) = lines(start(str(base), "second", "b", under=under))
    assert answer.startswith("error UnavailableError")
    assert answer.endswith("check the disk")
    assert [record.key.sort for record in records(SyncStorage(FileStorage(base)))] == ["a"]
    assert sorted(os.listdir(base / "notes" / "thread")) == ["+lock", "a.json"]


@pytest.fixture
def small_disk(tmp_path: Path, require_root: Callable[[str], None]) -> Iterator[Path]:
    require_root("a full disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_unavailable_and_works_again_when_there_is_room(small_disk: Path) -> None:
    storage = SyncStorage(FileStorage(small_disk / "records"))
    put(storage, "1")
    large = Put(Key("notes", PART, "2"), {"fill": "x" * 200_000}, ABSENT)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="free some space"):
            storage.commit([large])
    assert [record.key.sort for record in records(storage)] == ["1"]
    assert sorted(os.listdir(small_disk / "records" / "notes" / "thread")) == ["+lock", "1.json"]
    put(storage, "2")
    assert len(records(storage)) == 2


def test_a_short_write_is_no_record(base: Path, storage: SyncStorage) -> None:
    put(storage, "1")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(UnavailableError, match="limit of file size"):
            storage.commit([Put(Key("notes", PART, "2"), {"fill": "x" * 20_000})])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [record.key.sort for record in records(storage)] == ["1"]
    assert sorted(os.listdir(base / "notes" / "thread")) == ["+lock", "1.json"]
