"""SQLite shared by processes: forked, started at once, racing, and refused by the disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from pathlib import Path

import pytest

from locus.storage.base import ABSENT, Put, Span
from locus.storage.sqlite import SQLiteStorage
from locus.storage.sync import SyncStorage
from tests.backends.sqlite_files import (
    PART,
    execute,
    finish,
    key,
    start,
)

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locus.db"


class TestProcesses:
    def test_after_a_fork_parent_and_child_both_write(self, path: Path) -> None:
        storage = SQLiteStorage(path)
        sync = SyncStorage(storage)

        def write(name: str) -> None:
            for n in range(25):
                sync.commit([Put(key(n, (name,)), {}, ABSENT, text=name)])
            asyncio.run(_write_async(storage, name))

        asyncio.run(_write_async(storage, "before"))  # the thread that writes for coroutines is running now
        stop = threading.Event()
        reader = threading.Thread(target=lambda: _read_until(stop, sync))
        reader.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what this is about
            child = os.fork()
        if child == 0:
            try:
                write("child")
                sync.close()
                os._exit(0)
            finally:
                os._exit(1)
        write("parent")
        stop.set()
        reader.join()
        assert os.waitpid(child, 0)[1] == 0
        found = sync.scan([Span("notes", (name,)) for name in ("before", "parent", "child")])
        assert [len(records) for records in found] == [25, 50, 50]
        sync.close()
        assert execute(path, "PRAGMA integrity_check") == [("ok",)]

    def test_a_child_goes_on_after_its_parent_closed(self, path: Path) -> None:
        sync = SyncStorage(SQLiteStorage(path))
        sync.commit([Put(key(0), {})])
        ready, go = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                sync.commit([Put(key(1), {})])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                sync.commit([Put(key(2), {})])
                os._exit(0)  # as if killed: nothing is closed
            finally:
                os._exit(1)
        os.read(ready[0], 1)
        sync.commit([Put(key(3), {})])
        sync.close()  # the log must not be taken away from under the child
        os.write(go[1], b".")
        assert os.waitpid(child, 0)[1] == 0
        for end in (*ready, *go):
            os.close(end)
        assert [record.key.sort for record in sync.scan([Span("notes", PART)])[0]] == [
            "000000", "000001", "000002", "000003",
        ]  # fmt: skip
        sync.close()

    def test_eight_processes_may_start_on_a_new_file_at_once(self, path: Path) -> None:
        code = """
            time.sleep(max(0.0, float(sys.argv[3]) - time.time()))
            with SyncStorage(SQLiteStorage(sys.argv[1])) as sync:
                sync.setup(Space("notes"), Space("logs", log=True))
                sync.commit([Put(Key("notes", ("t",), sys.argv[2]), {}, ABSENT)])
        """
        begin = time.time() + 2.0
        finish([start(code, path, n, begin) for n in range(8)])
        with SyncStorage(SQLiteStorage(path)) as sync:
            assert len(sync.scan([Span("notes", ("t",))])[0]) == 8
            assert sync.verify() == []
        assert execute(path, "PRAGMA auto_vacuum") == [(2,)]

    def test_each_position_of_a_log_is_won_by_one_process(self, path: Path) -> None:
        code = """
            with SyncStorage(SQLiteStorage(sys.argv[1])) as sync:
                won, position = [], 1
                while position <= 100:
                    try:
                        sync.commit([Put(Key("notes", ("t",), f"{position:06d}"), {"by": sys.argv[2]}, ABSENT)])
                        won.append(position)
                    except ConflictError:
                        pass
                    position += 1
                print(*won)
        """
        won = [[int(n) for n in out.split()] for out in finish([start(code, path, n) for n in range(4)])]
        assert sorted(n for some in won for n in some) == list(range(1, 101))
        with SyncStorage(SQLiteStorage(path)) as sync:
            records = sync.scan([Span("notes", ("t",))])[0]
        assert all(int(record.key.sort) in won[int(record.body["by"])] for record in records)

    def test_an_unclosed_storage_does_not_keep_a_process_alive(self, path: Path) -> None:
        code = """
            import asyncio
            storage = SQLiteStorage(sys.argv[1])
            asyncio.run(storage.commit([Put(Key("notes", ("t",), "1"), {})]))
            SyncStorage(storage).get([Key("notes", ("t",), "1")])
        """
        begun = time.monotonic()
        finish([start(code, path)])
        assert time.monotonic() - begun < 10
        assert execute(path, "SELECT count(*) FROM notes") == [(1,)]

    def test_a_write_the_disk_refuses_is_told_and_the_next_one_works(self, path: Path) -> None:
        code = """
            import resource
            sync = SyncStorage(SQLiteStorage(sys.argv[1]))
            sync.commit([Put(Key("notes", ("t",), "1"), {})])
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            try:
                sync.commit([Put(Key("notes", ("t",), "2"), {"long": "x" * 1_000_000})])
            except UnavailableError as error:
                print(type(error.__cause__).__name__)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            sync.commit([Put(Key("notes", ("t",), "3"), {"long": "x" * 1_000_000})])
            print([record.key.sort for record in sync.scan([Span("notes", ("t",))])[0]])
            sync.close()
        """
        (out,) = finish([start(code, path)])
        assert out.splitlines() == ["OperationalError", "['1', '3']"]
        assert execute(path, "PRAGMA integrity_check") == [("ok",)]


async def _write_async(storage: SQLiteStorage, name: str) -> None:
    await asyncio.gather(*(storage.commit([Put(key(n, (name,)), {}, ABSENT, text=name)]) for n in range(25, 50)))


def _read_until(stop: threading.Event, sync: SyncStorage) -> None:
    while not stop.is_set():
        sync.scan([Span("notes", ("before",))])
