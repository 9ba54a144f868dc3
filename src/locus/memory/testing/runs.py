"""What an agent's run is promised by its thread, as tests: one holder at a time, and whoever lost it is told.

See `locus.memory.testing.checkpointer` for how to run them. A run is awaited by an agent's loop, so there is no sync twin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from locus.errors import CorruptRecordError, ThreadBusyError
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.log import lease as leases
from locus.memory.log.run import LogRun
from locus.memory.run import Phase, Turn
from locus.memory.testing.medium import Medium
from locus.memory.testing.rules import bodies, every_id, kinds, said, save_each, texts
from locus.storage.base import Key, Put, Storage
from locus.storage.testing.rules import MakeStorage
from locus.storage.testing.simulation import FakeClock

__all__ = ["RunContract"]

OpenRuns = Callable[..., DurableCheckpointer]


async def step(run: LogRun, text: str, phase: Phase, turn_id: str = "turn", **options: Any) -> str:
    """Record one more thing that was said."""
    state = said(text, after=run.state)
    return await run.append(state, Turn(turn_id, phase), **options)


async def sorts(storage: Storage, initial: str) -> list[str]:
    """The records beside the log of the usual thread: results (`r`), the lease (`l`)."""
    return [record.key.sort for record in await bodies(storage, "thread") if record.key.sort.startswith(initial)]


async def told(work: Awaitable[object]) -> None:
    """The writer is told that the thread is not its own."""
    with pytest.raises(ThreadBusyError):
        await work


def as_if_of_another_machine(checkpointer: DurableCheckpointer, clock: FakeClock) -> DurableCheckpointer:
    """A checkpointer with a clock of its own."""
    checkpointer._log.monotonic = clock  # there is no public way to tell the time
    return checkpointer


class RunContract(Medium):
    """Every rule of a run's hold on a thread, once."""

    @pytest.fixture
    async def another(self, storage: Storage, make_storage: MakeStorage) -> AsyncIterator[OpenRuns]:
        """Makes a checkpointer, as another process would have it where the medium can be shared."""
        made: list[DurableCheckpointer] = []

        def open_one(**options: Any) -> DurableCheckpointer:
            on = make_storage() if storage.capabilities.shared else storage
            on.clock = storage.clock
            made.append(DurableCheckpointer(on, **options))
            return made[-1]

        yield open_one
        for checkpointer in made:
            await checkpointer.close()

    @pytest.fixture
    def elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether a holder lives cannot be seen, as when it is on another machine."""
        monkeypatch.setattr(leases, "_is_dead", lambda *_: False)

    async def test_a_new_thread_has_no_state_and_no_turn(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        assert (run.thread_id, run.state, run.turn) == ("thread", None, None)
        assert await run.settled() == {}
        assert await run.find_turn("turn") is None
        run.check()
        await run.release()

    async def test_a_turn_is_on_record_step_by_step(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        for n, phase in enumerate(("asked", "replied", "ran", "done"), 1):
            checkpoint_id = await step(run, phase, phase)  # type: ignore[arg-type]  # a phase
            cold = another()
            assert texts(await cold.load("thread")) == ["asked", "replied", "ran", "done"][:n]
            assert (await every_id(cold, "thread"))[0] == checkpoint_id
        await run.release()
        later = await another().begin("thread")
        assert later.turn == Turn("turn", "done")
        assert texts(later.state) == ["asked", "replied", "ran", "done"]
        await later.release()

    async def test_everything_a_turn_says_comes_back(self, another: OpenRuns) -> None:
        turn = Turn(
            "t", "interrupted", 3, ({"call_id": "c", "payload": {"q": [1]}},), {"c": {"a": None}}, "interrupted"
        )
        run = await another().begin("thread")
        await run.append(said("x"), turn, metadata={"who": "ada"})
        await run.release()
        later = await another().begin("thread")
        assert later.turn == turn
        [found] = await another().query_by_metadata("who", "ada")
        assert found["thread_id"] == "thread"
        await later.release()

    async def test_what_is_not_listed_is_durable_all_the_same(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        hidden = await step(run, "one", "asked", listed=False)
        shown = await step(run, "two", "done")
        await step(run, "three", "asked", listed=False)
        await run.release()
        cold = another()
        assert await every_id(cold, "thread") == [shown]
        assert texts(await cold.load("thread")) == ["one", "two", "three"]
        assert texts(await cold.load("thread", hidden)) == ["one"]

    async def test_a_thread_has_one_run_at_a_time(self, another: OpenRuns) -> None:
        one, two = another(), another()
        run = await one.begin("thread")
        for checkpointer in (one, two):
            with pytest.raises(ThreadBusyError, match="'thread'"):
                await checkpointer.begin("thread")
        other = await two.begin("other")
        await other.release()
        await step(run, "mine", "done")
        await run.release()
        after = await two.begin("thread")
        assert texts(after.state) == ["mine"]
        await after.release()

    async def test_a_run_can_be_waited_for(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        waiting = asyncio.ensure_future(another().begin("thread", wait_seconds=20))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await step(run, "first", "done")
        await run.release()
        second = await waiting
        assert texts(second.state) == ["first"]
        await step(second, "second", "done")
        await second.release()
        held = await another().begin("thread")
        await told(another().begin("thread", wait_seconds=0.1))
        await held.release()

    async def test_of_many_runs_on_one_thread_none_is_interleaved(self, another: OpenRuns) -> None:
        async def whole_turn(number: int) -> None:
            run = await another().begin("thread", wait_seconds=30)
            for phase in ("asked", "replied", "done"):
                await step(run, f"{number}", phase)
            await run.release()

        await asyncio.gather(*(whole_turn(number) for number in range(5)))
        said_by = texts(await another().load("thread"))
        assert sorted(said_by) == sorted(str(number) for number in range(5) for _ in range(3))
        assert all(len(set(said_by[at : at + 3])) == 1 for at in range(0, 15, 3))

    async def test_a_run_may_be_released_twice_and_does_nothing_afterwards(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        await step(run, "one", "done")
        await run.release()
        after = await another().begin("thread")
        await run.release()
        await told(step(run, "two", "asked"))
        await told(another().begin("thread"))
        with pytest.raises(ThreadBusyError):
            run.check()
        await step(after, "three", "done")
        await after.release()
        assert texts(await another().load("thread")) == ["one", "three"]

    async def test_a_run_that_was_not_heard_of_for_its_whole_length_is_taken_over(
        self, another: OpenRuns, elsewhere: None
    ) -> None:
        clock, old_clock = FakeClock(0.0), FakeClock(5000.0)
        old = await as_if_of_another_machine(another(), old_clock).begin("thread")
        await step(old, "old", "replied")
        taker = as_if_of_another_machine(another(), clock)
        await told(taker.begin("thread"))
        clock.advance(leases.LEASE_SECONDS - 1)
        await told(taker.begin("thread"))
        clock.advance(2)
        new = await taker.begin("thread")
        assert (texts(new.state), new.turn) == (["old"], Turn("turn", "replied"))
        await told(step(old, "too late", "done"))
        with pytest.raises(ThreadBusyError):
            old.check()
        await step(new, "new", "done")
        await old.release()
        await told(another().begin("thread"))
        await new.release()
        assert texts(await another().load("thread")) == ["old", "new"]

    async def test_a_take_over_is_measured_from_what_the_taker_saw(self, another: OpenRuns, elsewhere: None) -> None:
        clock = FakeClock(0.0)
        held = await another().begin("thread")
        taker = as_if_of_another_machine(another(), clock)
        clock.advance(1000)
        await told(taker.begin("thread"))
        clock.advance(leases.LEASE_SECONDS - 1)
        await asyncio.to_thread(held._lease.renew)
        await told(taker.begin("thread"))
        clock.advance(leases.LEASE_SECONDS - 1)
        await told(taker.begin("thread"))
        await held.release()
        free = await taker.begin("thread")
        await free.release()

    async def test_the_first_to_settle_a_call_settles_it(self, another: OpenRuns, elsewhere: None) -> None:
        clock = FakeClock(0.0)
        old = await another().begin("thread")
        await step(old, "reply", "replied")
        taker = as_if_of_another_machine(another(), clock)
        await told(taker.begin("thread"))
        clock.advance(leases.LEASE_SECONDS + 1)
        new = await taker.begin("thread")
        assert await old.settle("late", {"result": "of the old"}) == {"result": "of the old"}
        assert await new.settle("late", {"result": "unknown"}) == {"result": "of the old"}
        assert await new.settle("early", {"result": "verdict"}) == {"result": "verdict"}
        assert await old.settle("early", {"result": "too late"}) == {"result": "verdict"}
        expected = {"late": {"result": "of the old"}, "early": {"result": "verdict"}}
        assert await new.settled() == expected
        assert await old.settled() == expected
        await told(step(old, "x", "ran"))
        await step(new, "ran", "ran")
        await new.release()

    async def test_a_settled_call_stays_settled(self, another: OpenRuns) -> None:
        hostile = ["call", "a:b", "../x", "CALL", "😀", "x" * 2000, "\ud800"]
        run = await another().begin("thread")
        await step(run, "reply", "replied")
        for n, call in enumerate(hostile):
            assert await run.settle(call, {"n": n}) == {"n": n}
            assert await run.settle(call, {"n": -1}) == {"n": n}
        await run.release()
        later = await another().begin("thread")
        assert await later.settled() == {call: {"n": n} for n, call in enumerate(hostile)}
        await later.release()

    async def test_results_are_there_until_the_turn_is_over(self, another: OpenRuns, storage: Storage) -> None:
        run = await another().begin("thread")
        await step(run, "reply", "replied")
        await run.settle("one", {"n": 1})
        await step(run, "ran", "ran")
        assert await run.settled() == {}
        await step(run, "reply", "replied")
        await run.settle("two", {"n": 2})
        await run.release()
        later = await another().begin("thread")
        assert await later.settled() == {"two": {"n": 2}}
        assert len(await sorts(storage, "r")) >= 1
        await step(later, "ran", "ran")
        await step(later, "done", "done")
        await later.release()
        assert await sorts(storage, "r") == []

    async def test_a_call_needs_a_reply(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        await told(run.settle("call", {}))
        await run.release()

    async def test_an_earlier_turn_is_found_by_its_id(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        for turn_id in ("first", "second", "third"):
            await step(run, f"ask {turn_id}", "asked", turn_id)
            await step(run, f"do {turn_id}", "done", turn_id)
        await run.release()
        later = await another().begin("thread")
        found = await later.find_turn("second")
        assert found is not None
        assert found[0] == Turn("second", "done")
        assert texts(found[1]) == ["ask first", "do first", "ask second", "do second"]
        assert await later.find_turn("fourth") is None
        await later.release()
        elsewhere = await another().begin("other")
        assert await elsewhere.find_turn("second") is None
        await elsewhere.release()

    async def test_a_run_steps_over_a_removal_that_leaves_its_head(self, another: OpenRuns) -> None:
        saved = await save_each(another(), "thread", 4)
        first, second, *_ = saved
        run = await another().begin("thread")
        assert await another().delete("thread", first)
        await step(run, "asked", "asked")
        assert await another().delete("thread", second)
        await step(run, "done", "done")
        await run.release()
        cold = another()
        assert texts(await cold.load("thread"))[-2:] == ["asked", "done"]
        assert len(await every_id(cold, "thread")) == 4

    async def test_a_save_by_somebody_else_is_told(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        await step(run, "asked", "asked")
        await another().save(said("from outside"), "thread")
        await told(step(run, "done", "done"))
        await run.release()
        assert texts(await another().load("thread")) == ["from outside"]

    async def test_the_loss_of_its_newest_checkpoint_is_told(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        await step(run, "one", "asked")
        newest = await step(run, "two", "replied")
        await another().delete("thread", newest)
        await told(step(run, "three", "done"))
        await run.release()
        assert texts(await another().load("thread")) == ["one"]

    async def test_the_loss_of_its_thread_is_told(self, another: OpenRuns) -> None:
        run = await another().begin("thread")
        await step(run, "one", "asked")
        await another().delete("thread")
        await told(step(run, "two", "done"))
        await run.release()
        assert await another().load("thread") is None
        anew = await another().begin("thread")
        assert (anew.state, anew.turn) == (None, None)
        await step(anew, "anew", "done")
        await anew.release()

    async def test_a_lease_is_kept_beyond_its_length(
        self, another: OpenRuns, elsewhere: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "LEASE_SECONDS", 0.6)
        monkeypatch.setattr(leases, "_keeper", leases._Keeper())
        run = await another().begin("thread")
        taker = another()
        for _ in range(6):
            await told(taker.begin("thread"))
            await asyncio.sleep(0.2)
        run.check()
        await step(run, "still here", "done")
        await run.release()

    async def test_a_lease_that_cannot_be_kept_is_lost_in_time(
        self, another: OpenRuns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = FakeClock(0.0)
        run = await as_if_of_another_machine(another(), clock).begin("thread")
        await step(run, "one", "asked")
        clock.advance(leases.LEASE_SECONDS)
        with pytest.raises(ThreadBusyError, match="longer than its lease"):
            run.check()
        await told(step(run, "two", "done"))
        await run.release()
        assert texts(await another().load("thread")) == ["one"]

    async def test_a_damaged_thread_is_reported_and_its_lease_given_back(
        self, another: OpenRuns, storage: Storage
    ) -> None:
        await save_each(another(), "thread", 2)
        await storage.commit([Put(Key(DEFAULT_TABLE, ("thread",), "n000000000002"), {"hello": "world"})])
        for _ in range(2):
            with pytest.raises(CorruptRecordError):
                await another().begin("thread")

    async def test_a_cancelled_wait_leaves_the_thread_free(self, another: OpenRuns) -> None:
        for pause in (0.0, 0.001, 0.01):
            waiting = asyncio.ensure_future(another().begin("thread"))
            await asyncio.sleep(pause)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await waiting).release()
            run = await another().begin("thread", wait_seconds=5)
            assert run.state is None
            await run.release()

    async def test_the_thread_of_a_dead_process_is_taken_over_at_once(
        self, another: OpenRuns, storage: Storage
    ) -> None:
        run = await another().begin("thread")
        await step(run, "before", "replied")
        await run.settle("call", {"n": 1})
        await run.release()
        key = Key(DEFAULT_TABLE, ("thread",), "lease")
        command = [sys.executable, "-c", _SAYS_WHO_IT_IS]
        dead = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        [record] = await storage.get([key])
        assert record is not None
        body = {"v": 1, "kind": "lease", "holder": "somebody", "renewals": 0, "process": json.loads(dead.stdout)}
        await storage.commit([Put(key, body, record.rev)])
        new = await another().begin("thread")
        assert (texts(new.state), await new.settled()) == (["before"], {"call": {"n": 1}})
        assert kinds(await bodies(storage, "thread")) == ["state", "mark"]
        await step(new, "after", "done")
        await new.release()


_SAYS_WHO_IT_IS = """
import json, os
from locus.memory.log.lease import _this_process
print(json.dumps(_this_process(os.getpid())))
"""
