"""Damage: what cannot have been written is reported, never read as nothing, and other threads do not suffer."""

from __future__ import annotations

from typing import Any

import pytest

from locus.errors import CorruptRecordError, SetupError, UnavailableError
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.log.record import log_sort
from locus.memory.testing.rules import DAY, Open, assert_holds, bodies, damage, save_each
from locus.storage.base import Delete, Key, Storage
from locus.storage.testing.faulty import FaultyStorage
from locus.storage.testing.simulation import FakeClock

RUBBISH: list[dict[str, Any]] = [
    {},
    {"v": 1},
    {"v": 1, "kind": "state"},
    {"v": 1, "kind": "nonsense", "at": 1.0},
    {"v": 1, "kind": "state", "at": "yesterday", "id": "x", "chain": "1 0 1 1 1", "small": {}},
    {"v": 1, "kind": "state", "at": 1.0, "id": "x", "chain": "1", "small": {}},
    {"v": 1, "kind": "state", "at": 1.0, "id": "x", "chain": [1], "small": {}},
    {"v": 1, "kind": "mark", "at": 1.0, "head": [1], "chain": "1 0 1 1 1"},
    {"hello": "world"},
]


class DamageRules:
    async def test_a_damaged_newest_record_is_reported(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        other = await save_each(checkpointer, "other", 3)
        for n, body in enumerate(RUBBISH):
            await save_each(checkpointer, f"thread {n}", 3)
            await damage(storage, f"thread {n}", 3, body)
            for one in (checkpointer, another()):
                with pytest.raises(CorruptRecordError):
                    await one.load(f"thread {n}")
                await assert_holds(one, "other", other)

    async def test_a_damaged_older_record_is_reported_for_what_depends_on_it(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        for n, body in enumerate(RUBBISH):
            thread = f"thread {n}"
            saved = await save_each(checkpointer, thread, 4)
            first, _, third, _ = saved
            await damage(storage, thread, 2, body)
            cold = another()
            assert await cold.load(thread, first) == saved[first]
            for checkpoint_id in (third, None):
                with pytest.raises(CorruptRecordError):
                    await another().load(thread, checkpoint_id)

    async def test_a_missing_record_is_reported_for_what_depends_on_it(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        saved = await save_each(checkpointer, "thread", 4)
        await storage.commit([Delete(Key(DEFAULT_TABLE, ("thread",), log_sort(2)))])
        with pytest.raises(CorruptRecordError, match="position 2"):
            await another().load("thread")
        first = next(iter(saved))
        assert await another().load("thread", first) == saved[first]

    async def test_damaged_content_is_reported(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        await save_each(checkpointer, "thread", 2)
        record = (await bodies(storage, "thread"))[1]
        changes: list[dict[str, Any]] = [
            {"+": {"messages": [{"role": "nobody"}]}},
            {"+": {"messages": "text"}},
            {"+": {"nonsense": [1]}},
            {"+": 3},
            {"=": {"messages": [[0, 99]]}},
            {"=": {"messages": [{"x": 1}]}},
            {"=": {"messages": 7}},
            {"=": []},
            {"small": {}},
            {"small": None},
            {"small": {"run_id": 3, "started_at": "never", "updated_at": 1}},
            {"prev": "1 another"},
            {"prev": 5},
            {"prev": "2 " + record.body["id"]},
        ]
        for change in changes:
            await damage(storage, "thread", 2, {**record.body, **change})
            with pytest.raises(CorruptRecordError):
                await another().load("thread")

    async def test_a_thread_of_a_newer_version_says_so(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        await save_each(checkpointer, "thread", 1)
        (record,) = await bodies(storage, "thread")
        await damage(storage, "thread", 1, {**record.body, "v": 99})
        with pytest.raises(SetupError, match="newer"):
            await another().load("thread")

    async def test_a_damaged_thread_can_be_deleted_and_begun_again(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        await save_each(checkpointer, "thread", 3)
        record = (await bodies(storage, "thread"))[1]
        for n, (position, body) in enumerate(
            ((2, {**record.body, "prev": "1 another"}), *((3, one) for one in RUBBISH))
        ):
            thread = f"thread {n}"
            await save_each(checkpointer, thread, 3)
            await damage(storage, thread, position, body)
            assert await another().delete(thread)
            new = await save_each(another(), thread, 2)
            await assert_holds(another(), thread, new)

    async def test_a_damaged_thread_does_not_stand_in_the_way_of_the_others(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage, clock: FakeClock
    ) -> None:
        for thread in ("a", "b", "c"):
            await save_each(checkpointer, thread, 2)
        await damage(storage, "b", 2, {"hello": "world"})
        assert sorted(await another().list_threads()) == ["a", "b", "c"]
        clock.advance(40 * DAY)
        with pytest.raises(CorruptRecordError, match="'b'"):
            await another().vacuum()
        assert await another().list_threads() == ["b"]
        assert await another().delete("b")
        assert await another().vacuum() == 0

    async def test_an_outage_is_an_error_and_never_an_empty_answer(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        faulty = FaultyStorage(storage)
        cold = another(faulty, owns_storage=False)
        await assert_holds(cold, "thread", saved)
        faulty.outage = True
        for ask in (
            cold.load("thread"),
            cold.load("nobody"),
            cold.list_checkpoints("thread"),
            cold.exists("thread"),
            cold.list_threads(),
            cold.list_with_metadata(),
            cold.search("thing1"),
            cold.query_by_metadata("a", 1),
            cold.get_metadata("thread"),
            cold.delete("thread"),
            cold.vacuum(),
            cold.copy_thread("thread", "copy"),
            cold.save(next(iter(saved.values())), "thread"),
        ):
            with pytest.raises(UnavailableError):
                await ask
        faulty.outage = False
        await assert_holds(cold, "thread", saved)
