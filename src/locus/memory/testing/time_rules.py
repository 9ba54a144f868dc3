"""Time: what vacuum removes and leaves, and when a whole thread expires."""

from __future__ import annotations

from typing import Any

import pytest

from locus.errors import ConfigError, InputError
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.run import Turn
from locus.memory.testing.rules import DAY, Open, assert_holds, bodies, every_id, kinds, said, save_each
from locus.storage.base import Storage
from locus.storage.testing.faulty import FaultyStorage, Stopped
from locus.storage.testing.simulation import FakeClock


async def leave_turn(checkpointer: DurableCheckpointer, thread: str, phase: Any) -> None:
    """A run that came as far as `phase` and was not heard of again."""
    real = DurableCheckpointer(checkpointer.storage, owns_storage=False)
    run = await real.begin(thread)
    await run.append(said("a turn"), Turn("turn", phase))
    await run.release()


class TimeRules:
    async def test_vacuum_removes_what_is_old_and_keeps_the_rest(
        self, checkpointer: DurableCheckpointer, another: Open, clock: FakeClock
    ) -> None:
        old = await save_each(checkpointer, "thread", 4)
        clock.advance(31 * DAY)
        new = await save_each(checkpointer, "thread", 2)
        assert await checkpointer.vacuum(32) == 0
        await assert_holds(another(), "thread", {**old, **new})
        assert await checkpointer.vacuum() == 4
        assert await checkpointer.vacuum() == 0
        await assert_holds(checkpointer, "thread", {**old, **new}, without=old)
        await assert_holds(another(), "thread", {**old, **new}, without=old)

    async def test_vacuum_removes_an_idle_thread_whole(
        self, checkpointer: DurableCheckpointer, another: Open, clock: FakeClock
    ) -> None:
        await save_each(checkpointer, "idle", 3)
        clock.advance(2 * DAY)
        active = await save_each(checkpointer, "active", 2)
        assert await another().vacuum(1) == 3
        assert await checkpointer.list_threads() == ["active"]
        assert await checkpointer.load("idle") is None
        await assert_holds(checkpointer, "active", active)
        assert await checkpointer.vacuum(0) == 0
        clock.advance(1)
        assert await checkpointer.vacuum(0) == 2
        assert await checkpointer.list_threads() == []

    async def test_vacuum_leaves_a_thread_with_an_unfinished_turn(
        self, checkpointer: DurableCheckpointer, clock: FakeClock
    ) -> None:
        for phase in ("asked", "replied", "ran", "interrupted", "done"):
            await checkpointer.save(said("before"), phase)
            await leave_turn(checkpointer, phase, phase)
        clock.advance(40 * DAY)
        assert await checkpointer.vacuum() == 2
        assert sorted(await checkpointer.list_threads()) == ["asked", "interrupted", "ran", "replied"]
        for thread in await checkpointer.list_threads():
            assert len(await every_id(checkpointer, thread)) == 2

    async def test_vacuum_drops_what_holds_the_place_of_the_removed_after_a_day(
        self, checkpointer: DurableCheckpointer, storage: Storage, clock: FakeClock
    ) -> None:
        saved = await save_each(checkpointer, "thread", 4)
        removed = list(saved)[:2]
        for checkpoint_id in removed:
            await checkpointer.delete("thread", checkpoint_id)
        assert kinds(await bodies(storage, "thread")) == ["stub", "stub", "state", "state", "mark", "mark"]
        clock.advance(2 * 3600)
        assert await checkpointer.vacuum() == 0
        assert kinds(await bodies(storage, "thread"))[:4] == ["stub", "stub", "state", "state"]
        clock.advance(DAY)
        assert await checkpointer.vacuum() == 0
        assert kinds(await bodies(storage, "thread")) == ["state", "state", "mark"]
        await assert_holds(checkpointer, "thread", saved, without=removed)

    async def test_vacuum_leaves_nothing_of_a_thread_that_ended_a_day_ago(
        self, checkpointer: DurableCheckpointer, storage: Storage, clock: FakeClock
    ) -> None:
        await save_each(checkpointer, "thread", 3)
        await leave_turn(checkpointer, "thread", "done")
        await checkpointer.delete("thread")
        clock.advance(2 * 3600)
        await checkpointer.vacuum()
        clock.advance(2 * DAY)
        await checkpointer.vacuum()
        assert await bodies(storage, "thread") == []
        assert (await storage.parts(DEFAULT_TABLE)).parts == []

    async def test_vacuum_finishes_what_a_killed_delete_began(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage, clock: FakeClock
    ) -> None:
        saved = await save_each(checkpointer, "thread", 4)
        doomed = list(saved)[1]
        killed = FaultyStorage(storage)
        killed.at(2, "stop")
        with pytest.raises(Stopped):
            await another(killed, owns_storage=False).delete("thread", doomed)
        await assert_holds(another(), "thread", saved, without=[doomed])
        assert "stub" not in kinds(await bodies(storage, "thread"))
        clock.advance(600)
        await checkpointer.vacuum()
        assert "stub" not in kinds(await bodies(storage, "thread"))
        clock.advance(3600)
        await checkpointer.vacuum()
        assert kinds(await bodies(storage, "thread"))[1] == "stub"
        await assert_holds(another(), "thread", saved, without=[doomed])

    async def test_days_are_a_number_of_at_least_0(self, checkpointer: DurableCheckpointer) -> None:
        saved = await save_each(checkpointer, "thread", 1)
        bad: list[Any] = [-1, -0.5, "30", None, True, float("nan")]
        for days in bad:
            with pytest.raises(InputError, match="older_than_days"):
                await checkpointer.vacuum(days)
        await assert_holds(checkpointer, "thread", saved)

    async def test_a_thread_expires_as_a_whole_after_its_last_save(self, another: Open, clock: FakeClock) -> None:
        checkpointer = another(ttl_seconds=100)
        await save_each(checkpointer, "thread", 2)
        clock.advance(90)
        saved = await save_each(checkpointer, "thread", 1)
        await save_each(another(), "for good", 1)
        clock.advance(90)
        assert len(await every_id(another(), "thread")) == 3
        clock.advance(10)
        for one in (checkpointer, another()):
            assert await one.load("thread") is None
            assert await one.list_threads() == ["for good"]
            assert await one.search("thing1") != []
            assert [hit["thread_id"] for hit in await one.search("thing1")] == ["for good"]
            assert await one.load("thread", next(iter(saved))) is None

    async def test_a_load_is_a_use(self, another: Open, clock: FakeClock) -> None:
        checkpointer = another(ttl_seconds=100)
        saved = await save_each(checkpointer, "thread", 2)
        for _ in range(5):
            clock.advance(60)
            assert await another(ttl_seconds=100).load("thread") is not None
        await assert_holds(another(), "thread", saved)
        clock.advance(101)
        assert await checkpointer.load("thread") is None

    async def test_an_expired_thread_can_begin_anew(self, another: Open, clock: FakeClock) -> None:
        checkpointer = another(ttl_seconds=100)
        old = await save_each(checkpointer, "thread", 3)
        clock.advance(101)
        new = await save_each(checkpointer, "thread", 2)
        for one in (checkpointer, another()):
            await assert_holds(one, "thread", {**old, **new}, without=old)

    async def test_vacuum_removes_what_has_expired(self, another: Open, storage: Storage, clock: FakeClock) -> None:
        checkpointer = another(ttl_seconds=100)
        await save_each(checkpointer, "thread", 3)
        clock.advance(101)
        await checkpointer.vacuum()
        assert (await storage.parts(DEFAULT_TABLE)).parts == []

    async def test_a_time_to_live_is_more_than_0(self, another: Open) -> None:
        bad: list[Any] = [0, -1, float("nan")]
        for ttl in bad:
            with pytest.raises(ConfigError, match="ttl_seconds"):
                another(ttl_seconds=ttl)
