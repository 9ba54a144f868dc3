"""What is particular to SQLite; the contract that every storage keeps is tested elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from locus.errors import (
    ConflictError,
    StorageError,
)
from locus.storage._sqlite_connection import Database
from locus.storage.base import ABSENT, Delete, Put, Query, Space, Span
from locus.storage.sqlite import SQLiteStorage
from locus.storage.sync import SyncStorage
from tests.backends.sqlite_files import (
    PART,
    WORDS,
    execute,
    key,
    message,
    transactions,
    wal_of,
)

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locus.db"


@pytest.fixture
async def storage(path: Path) -> AsyncIterator[SQLiteStorage]:
    storage = SQLiteStorage(path)
    yield storage
    await storage.close()


@pytest.fixture
def sync(path: Path) -> Iterator[SyncStorage]:
    with SyncStorage(SQLiteStorage(path)) as sync:
        yield sync


class TestSize:
    def test_two_thousand_messages_one_commit_each_stay_small_on_disk(self, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path, durability="process")) as sync:
            sync.setup(Space("notes", log=True))
            for number in range(2_000):
                sync.commit([message(number)])
            assert os.path.getsize(f"{path}-wal") < 2_500_000
        assert os.path.getsize(path) < 3_200_000
        assert not os.path.exists(f"{path}-wal")

    def test_the_file_shrinks_when_nine_tenths_are_deleted(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([message(number) for number in range(1_000)])
        sync.close()
        before = os.path.getsize(path)
        for first in range(0, 900, 100):
            sync.commit([Delete(key(number)) for number in range(first, first + 100)])
        sync.close()
        assert os.path.getsize(path) < before / 4
        assert execute(path, "PRAGMA integrity_check") == [("ok",)]
        assert len(sync.scan([Span("notes", PART)])[0]) == 100

    def test_purge_gives_back_the_space_of_what_expired(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([replace(message(number), expires_at=time.time() + 0.5) for number in range(500)])
        sync.close()
        before = os.path.getsize(path)
        time.sleep(0.5)
        assert sync.purge() == 500
        sync.close()
        assert os.path.getsize(path) < before / 4

    def test_nothing_of_a_deleted_record_can_be_read_in_the_file(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([message(number) for number in range(100)])
        secret = Put(
            key("secret", ("vaultowner",)), {"pin": "swordfish77"}, tags={"tagname": "tagvalue9"}, text="openbarleyword"
        )
        sync.commit([secret])
        sync.commit([Delete(secret.key)])
        sync.close()
        stored = path.read_bytes()
        for word in (b"vaultowner", b"swordfish77", b"tagname", b"tagvalue9", b"openbarley"):
            assert word not in stored


class TestGroupCommit:
    async def test_one_commit_is_one_transaction(self, path: Path, storage: SQLiteStorage) -> None:
        await storage.setup(Space("notes"), Space("other"))
        before = transactions(path)
        await storage.commit([Put(key(1), {}), Put(key(1, space="other"), {}), Put(key(2, ("b",)), {}, text="x")])
        assert transactions(path) == before + 1

    async def test_coroutines_that_commit_at_once_share_transactions(self, path: Path, storage: SQLiteStorage) -> None:
        await storage.setup(Space("notes"))
        before = transactions(path)
        revs = await asyncio.gather(*(storage.commit([Put(key(n), {"n": n}, ABSENT)]) for n in range(50)))
        assert transactions(path) - before <= 10
        assert len({rev for (rev,) in revs}) == 50
        assert [record.body["n"] for record in (await storage.scan([Span("notes", PART)]))[0]] == list(range(50))

    async def test_a_conflict_undoes_its_own_caller_only(self, path: Path, storage: SQLiteStorage) -> None:
        await storage.commit([Put(key("taken"), {})])
        before = transactions(path)
        lost = [[Put(key(n, ("lost",)), {}), Put(key("taken"), {}, ABSENT)] for n in range(20)]
        kept = [[Put(key(n), {}, ABSENT)] for n in range(20)]
        mixed = [ops for pair in zip(lost, kept, strict=True) for ops in pair]
        answers = await asyncio.gather(*map(storage.commit, mixed), return_exceptions=True)
        assert all(isinstance(answer, ConflictError) and answer.op_index == 1 for answer in answers[::2])
        assert all(isinstance(answer, list) for answer in answers[1::2])
        assert (await storage.parts("notes")).parts == [PART]
        assert transactions(path) - before <= 10

    async def test_of_many_who_append_at_one_position_one_wins(self, storage: SQLiteStorage) -> None:
        tries = [storage.commit([Put(key("same"), {"n": n}, ABSENT)]) for n in range(30)]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        winners = [n for n, answer in enumerate(answers) if isinstance(answer, list)]
        (record,) = await storage.get([key("same")])
        assert record is not None
        assert winners == [record.body["n"]]

    def test_an_interrupt_ends_its_own_commit_and_leaves_the_storage_sound(self, path: Path) -> None:
        def interrupt() -> float:
            raise KeyboardInterrupt

        storage = SQLiteStorage(path)
        sync = SyncStorage(storage)
        sync.commit([Put(key(1), {})])
        storage.clock = interrupt  # it is asked within the transaction
        with pytest.raises(KeyboardInterrupt):
            sync.commit([Put(key(2), {})])
        storage.clock = time.time
        sync.commit([Put(key(3), {})])
        assert [record.key.sort for record in sync.scan([Span("notes", PART)])[0]] == ["000001", "000003"]
        sync.close()

    def test_threads_and_an_event_loop_use_one_storage_at_once(self, path: Path) -> None:
        storage = SQLiteStorage(path)
        sync = SyncStorage(storage)
        sync.setup(Space("notes"))
        failures: list[Exception] = []

        def work(name: str) -> None:
            try:
                for n in range(25):
                    sync.commit([Put(key(n, (name,)), {"n": n}, ABSENT)])
                    assert len(sync.scan([Span("notes", (name,))])[0]) == n + 1
            except (StorageError, AssertionError) as error:
                failures.append(error)

        async def loop() -> None:
            await asyncio.gather(*(storage.commit([Put(key(n, ("loop",)), {}, ABSENT)]) for n in range(100)))
            await asyncio.gather(*(storage.scan([Span("notes", ("loop",))]) for _ in range(20)))

        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        asyncio.run(loop())
        for thread in threads:
            thread.join()
        assert failures == []
        assert [len(some) for some in sync.scan([Span("notes", (f"t{n}",)) for n in range(8)])] == [25] * 8
        assert len(sync.scan([Span("notes", ("loop",))])[0]) == 100
        sync.close()


class TestEventLoop:
    async def test_the_loop_goes_on_while_the_file_is_locked(self, path: Path, storage: SQLiteStorage) -> None:
        await storage.commit([Put(key(1), {})])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [asyncio.ensure_future(storage.commit([Put(key(n), {})])) for n in range(2, 5)]
            for _ in range(20):
                await asyncio.sleep(0.005)
                assert len((await storage.scan([Span("notes", PART)]))[0]) == 1
            assert not any(task.done() for task in waiting)
            other.execute("COMMIT")
        await asyncio.gather(*waiting)
        assert len((await storage.scan([Span("notes", PART)]))[0]) == 4

    @pytest.mark.alone
    async def test_no_step_of_a_call_holds_up_the_loop(self, storage: SQLiteStorage) -> None:
        await storage.commit([message(number) for number in range(500)])
        steps: list[float] = []
        for number in range(500, 700):
            await Timed(storage.commit([message(number)]), steps)
            if number % 10 == 0:
                await Timed(storage.scan([Span("notes", PART)]), steps)
                await Timed(storage.search(Query("notes", text=WORDS[number])), steps)
        await Timed(storage.close(), steps)
        assert len(steps) > 400
        # The machine may stop us now and then, so a few steps may be long.
        assert sum(step > 0.005 for step in steps) <= 3


class Timed:
    """An awaitable that notes how long each step of a coroutine keeps the loop's thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], steps: list[float]) -> None:
        self._coroutine, self._steps = coroutine, steps

    def __await__(self) -> Generator[Any, Any, object]:
        while True:
            begun = time.perf_counter()
            try:
                waiting = self._coroutine.send(None)
            except StopIteration as stop:
                return stop.value
            finally:
                self._steps.append(time.perf_counter() - begun)
            yield waiting


class TestValues:
    def test_anything_python_calls_a_string_is_kept(self, sync: SyncStorage) -> None:
        odd = ("nul\0", "\ud800", "\udfff\ud800", "é" * 60, "'; DROP TABLE notes; --", "\u2028")
        put = Put(
            key(1, odd), {name: name for name in odd}, token="\ud800\0", tags={name: name for name in odd},
            text="\0 \ud800 word", blob=b"\0\xff" * 1_000,
        )  # fmt: skip
        sync.commit([put])
        (record,) = sync.get([put.key])
        assert record is not None
        assert (record.body, record.tags, record.token, record.blob) == (put.body, put.tags, put.token, put.blob)
        assert sync.parts("notes").parts == [odd]
        assert sync.search(Query("notes", text="word", prefix=odd[:2], where={"\ud800": "\ud800"}))[0].record == record
        assert sync.commit([Put(put.key, {}, ABSENT, token=put.token)]) == [record.rev]

    def test_users_can_query_their_own_data(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {"user": {"name": "ada"}})])
        assert execute(path, "SELECT json_extract(body, '$.user.name') FROM notes") == [("ada",)]

    def test_an_expired_part_of_a_log_begins_anew(self, sync: SyncStorage) -> None:
        sync.setup(Space("logs", log=True))
        past = time.time() - 1
        (old,) = sync.commit([Put(key(1, space="logs"), {}, expires_at=past, text="apple", tags={"a": 1})])
        assert sync.parts("logs").parts == []
        assert sync.search(Query("logs", where={"a": 1})) == sync.search(Query("logs", text="apple")) == []
        (new,) = sync.commit([Put(key(2, space="logs"), {}, ABSENT, text="pear")])
        assert [record.key.sort for record in sync.scan([Span("logs", PART)])[0]] == ["000002"]
        assert new != old
        assert sync.purge() == 0


class TestClose:
    async def test_it_ends_threads_and_connections_and_the_storage_goes_on(self, path: Path) -> None:
        storage = SQLiteStorage(path)
        for n in range(3):
            await storage.commit([Put(key(n), {})])
            await storage.scan([Span("notes", PART)])
            await storage.close()
            assert not any(thread.name == "locus-sqlite-writer" for thread in threading.enumerate())
            assert not wal_of(path).exists()
        assert json.loads(execute(path, "SELECT json_group_array(sort) FROM notes")[0][0]) == [
            "000000", "000001", "000002",
        ]  # fmt: skip

    async def test_after_removals_nothing_is_opened_in_the_thread_of_the_loop(
        self, storage: SQLiteStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await storage.commit([message(1)])
        await storage.commit([Delete(key(1))])
        opening: list[str] = []
        open_writer = Database.open_writer

        def watched(database: Database) -> sqlite3.Connection:
            opening.append(threading.current_thread().name)
            return open_writer(database)

        monkeypatch.setattr(Database, "open_writer", watched)
        await storage.close()
        await storage.close()
        assert opening == []

    async def test_it_ends_its_threads_when_another_process_is_in_the_way(self, path: Path) -> None:
        storage = SQLiteStorage(path, busy_timeout=0.05)
        await storage.commit([message(1)])
        await storage.commit([Delete(key(1))])
        await storage.commit([message(2)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await storage.close()
            assert storage._pool is None
