"""The tools that break things break them as they say: faults at a step, and writers interleaved by a seed."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from locus.errors import ConflictError, UnavailableError
from locus.storage import ABSENT, Key, Op, Put, Span, Storage
from locus.storage.memory import MemoryStorage
from locus.storage.testing import FakeClock, Fault, FaultyStorage, SteppedStorage, Stopped, run_schedule
from locus.storage.testing.wrapped import Atomic


def ops() -> list[Op]:
    return [Put(Key("notes", (part,), sort), {}, ABSENT) for part, sort in ("a1", "a2", "b1", "b2")]


async def places(storage: Storage) -> list[str]:
    found = await storage.scan([Span("notes", ("a",)), Span("notes", ("b",))])
    return [record.key.part[0] + record.key.sort for records in found for record in records]


@pytest.mark.parametrize(("atomic", "steps"), [("record", 4), ("part", 2), ("store", 1)])
async def test_a_commit_has_as_many_steps_as_its_level_allows(atomic: Atomic, steps: int) -> None:
    storage = FaultyStorage(MemoryStorage(), atomic=atomic)
    assert storage.capabilities.atomic == atomic
    revs = await storage.commit(ops())
    assert (storage.writes, len(revs), None in revs) == (steps, 4, False)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("fault", ["fail", "stop"])
async def test_failing_and_stopping_leave_exactly_what_was_before(step: int, fault: Fault) -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner).at(step, fault)
    with pytest.raises(Stopped if fault == "stop" else UnavailableError):
        await storage.commit(ops())
    assert await places(inner) == ["a1", "a2", "b1", "b2"][: step - 1]


@pytest.mark.parametrize(("atomic", "left"), [("record", ["a1"]), ("part", ["a1", "a2"]), ("store", [])])
async def test_a_stop_comes_between_the_steps_of_the_level(atomic: Atomic, left: list[str]) -> None:
    inner = MemoryStorage()
    step = {"record": 2, "part": 2, "store": 1}[atomic]
    with pytest.raises(Stopped):
        await FaultyStorage(inner, atomic=atomic).at(step, "stop").commit(ops())
    assert await places(inner) == left


async def test_a_stopped_process_does_nothing_more_until_it_is_restarted() -> None:
    storage = FaultyStorage(MemoryStorage()).at(1, "stop")
    for _ in range(2):
        with pytest.raises(Stopped):
            await storage.commit(ops())
    with pytest.raises(Stopped):
        await places(storage)
    with pytest.raises(Stopped):
        await storage.purge()
    storage.restart()
    await storage.commit(ops())
    assert len(await places(storage)) == 4


async def test_a_lost_answer_was_done_and_may_be_asked_for_again() -> None:
    storage = FaultyStorage(MemoryStorage()).at(2, "lose")
    sent = ops()
    with pytest.raises(UnavailableError, match="lost"):
        await storage.commit(sent)
    assert await places(storage.inner) == ["a1", "a2"]
    assert None not in await storage.commit(sent)
    assert await places(storage) == ["a1", "a2", "b1", "b2"]


async def test_a_repeated_step_is_sent_twice() -> None:
    inner = FaultyStorage(MemoryStorage())
    storage = FaultyStorage(inner).at(1, "repeat")
    await storage.commit(ops())
    assert (storage.writes, inner.writes) == (4, 5)
    await storage.next("repeat").purge()
    assert (storage.writes, inner.writes) == (5, 7)


async def test_an_outage_reaches_reads_and_writes() -> None:
    storage = FaultyStorage(MemoryStorage())
    await storage.commit(ops())
    storage.outage = True
    with pytest.raises(UnavailableError):
        await places(storage)
    with pytest.raises(UnavailableError):
        await storage.commit(ops())
    storage.outage = False
    assert len(await places(storage)) == 4
    assert storage.reads == 2


async def test_a_refusal_names_the_operation_of_the_whole_commit() -> None:
    storage = FaultyStorage(MemoryStorage())
    sent = ops()
    await storage.commit([Put(Key("notes", ("b",), "1"), {})])
    with pytest.raises(ConflictError) as refusal:
        await storage.commit(sent)
    assert refusal.value.op_index == 2


async def test_the_clock_of_a_wrapper_is_that_of_the_wrapped() -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    storage.clock = FakeClock(5.0)
    await storage.commit([Put(Key("notes", ("a",), "1"), {}, expires_at=7.0)])
    assert inner.clock() == 5.0
    storage.clock = FakeClock(7.0)
    assert await places(storage) == []


async def appends(storage: Storage, who: int) -> list[str]:
    """Take three positions of a log, reading the tail before each try."""
    taken: list[str] = []
    while len(taken) < 3:
        (tail,) = await storage.scan([Span("notes", ("a",), reverse=True, limit=1)])
        sort = f"{int(tail[0].key.sort) + 1 if tail else 0:04d}"
        try:
            await storage.commit([Put(Key("notes", ("a",), sort), {"who": who}, ABSENT)])
        except ConflictError:
            continue
        taken.append(sort)
    return taken


def history(seed: int) -> list[object]:
    storage = SteppedStorage(MemoryStorage())
    return list(run_schedule([appends(storage, who) for who in range(4)], Random(seed)))


def test_a_schedule_is_the_same_for_the_same_seed_and_differs_between_seeds() -> None:
    histories = [history(seed) for seed in range(20)]
    assert histories == [history(seed) for seed in range(20)]
    assert len({str(one) for one in histories}) > 10
    for taken in histories:
        assert sorted(sort for one in taken if isinstance(one, list) for sort in one) == [f"{n:04d}" for n in range(12)]


def test_a_schedule_really_interleaves_reads_and_writes() -> None:
    async def adds_carelessly(storage: Storage) -> None:
        (record,) = await storage.get([Key("notes", ("a",), "n")])
        await storage.commit([Put(Key("notes", ("a",), "n"), {"n": (record.body["n"] if record else 0) + 1})])

    async def count(storage: Storage) -> int:
        (record,) = await storage.get([Key("notes", ("a",), "n")])
        return int(record.body["n"]) if record else 0

    totals: set[int] = set()
    for seed in range(30):
        inner = MemoryStorage()
        storage = SteppedStorage(inner)
        assert run_schedule([adds_carelessly(storage) for _ in range(3)], Random(seed)) == [None] * 3
        totals.update(n for n in run_schedule([count(inner)], Random(0)) if isinstance(n, int))
    assert totals >= {1, 2}


def test_a_schedule_switches_between_the_operations_of_a_commit_at_level_record() -> None:
    seen = set()

    async def looks(storage: Storage) -> None:
        seen.add(len(await places(storage)))

    for seed in range(40):
        storage = SteppedStorage(MemoryStorage(), atomic="record")
        run_schedule([storage.commit(ops()), looks(storage)], Random(seed))
    assert seen == {0, 1, 2, 3, 4}


def test_a_schedule_gives_each_coroutine_its_result_or_its_exception() -> None:
    async def writes(storage: Storage) -> str:
        await storage.commit(ops())
        return "done"

    async def sleeps() -> str:
        await asyncio.sleep(0)
        return "slept"

    async def waits() -> str:
        await asyncio.sleep(1)
        return "never"

    inner = MemoryStorage()
    killed = SteppedStorage(FaultyStorage(inner).at(1, "stop"))
    results = run_schedule([writes(killed), writes(SteppedStorage(inner)), sleeps(), waits()], Random(1))
    assert isinstance(results[0], Stopped)
    assert results[1:3] == ["done", "slept"]
    assert isinstance(results[3], RuntimeError)


def test_a_schedule_moves_a_fake_clock_and_reports_a_livelock() -> None:
    clock = FakeClock(100.0)
    storage = SteppedStorage(MemoryStorage())
    storage.clock = clock
    run_schedule([appends(storage, 1)], Random(1), clock=clock, tick=1.0)
    assert 100.0 < clock() < 120.0

    async def forever() -> None:
        while True:
            await storage.purge()

    with pytest.raises(RuntimeError, match="livelock"):
        run_schedule([forever()], Random(1), steps=50)
