"""Every feature is stopped, failed, unheard and repeated at every one of its writes, at every level of all-or-none.

Afterwards a fresh process must find every checkpoint that was acknowledged, exactly; every listing must work; and doing
the same again must complete it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest

from locus._sync import drive
from locus.core.state import AgentState
from locus.errors import ConflictError, ThreadBusyError, UnavailableError
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.lease import LEASE_SECONDS
from locus.memory.log.run import LogRun, begin
from locus.memory.run import Phase, Turn
from locus.memory.saver import DEFAULT_SAVER_TABLE, CheckpointSaver
from locus.memory.testing.rules import DAY, bodies, every_id, said, save_each, texts
from locus.storage.memory import MemoryStorage
from locus.storage.testing import FakeClock, Fault, FaultyStorage, Stopped
from locus.storage.testing.wrapped import Atomic

ATOMIC: tuple[Atomic, ...] = get_args(Atomic)
FAULTS: tuple[Fault, ...] = get_args(Fault)
STATES = 4


@dataclass
class World:
    """One medium, the process that will be harmed, and what it was told."""

    atomic: Atomic
    clock: FakeClock = field(default_factory=FakeClock)
    inner: MemoryStorage = field(default_factory=MemoryStorage)
    saved: dict[str, dict[str, AgentState]] = field(default_factory=dict)
    doomed: set[tuple[str, str]] = field(default_factory=set)
    """What the feature removes: there or not, but never something else."""
    puts: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    named: str | None = None
    replacing: AgentState | None = None
    """What is being saved in place of the checkpoint that has this id: either of the two is there."""

    def __post_init__(self) -> None:
        self.inner.clock = self.clock
        self.storage = FaultyStorage(self.inner, atomic=self.atomic)
        self.checkpointer = self.fresh(self.storage)
        self.saver = CheckpointSaver(self.storage)

    def fresh(self, storage: Any = None) -> DurableCheckpointer:
        """Another process."""
        checkpointer = DurableCheckpointer(storage or self.inner)
        checkpointer._log.monotonic = self.clock
        return checkpointer

    def ids(self, thread: str) -> list[str]:
        return list(self.saved[thread])

    def newest(self, thread: str) -> AgentState:
        return list(self.saved[thread].values())[-1]

    def ack(self, thread: str, checkpoint_id: str, state: AgentState) -> None:
        held = self.saved.setdefault(thread, {})
        held.pop(checkpoint_id, None)
        held[checkpoint_id] = state

    async def prepare(self) -> None:
        for thread in ("one", "two"):
            self.saved[thread] = await save_each(self.fresh(), thread, STATES)
            await self.checkpointer.load(thread)
        saver = CheckpointSaver(self.inner)
        for n in range(3):
            await self.put(saver, f"put{n}")
        await saver.put_writes(thread_id="one", checkpoint_id="put1", task_id="t", writes=[("a", 1)])

    async def put(self, saver: CheckpointSaver, name: str) -> None:
        data = {"messages": [f"m{n}" for n in range(len(self.puts) + 1)], "name": name}
        data = self.puts.get(name, data)
        await saver.put(thread_id="one", checkpoint_id=name, checkpoint_data=data)
        self.puts[name] = data

    async def check(self, *, complete: bool = False) -> None:
        """A fresh process finds what was acknowledged, and nothing that was never saved."""
        cold = self.fresh()
        for thread, states in self.saved.items():
            listed = await every_id(cold, thread)
            for checkpoint_id, state in states.items():
                doomed = (thread, checkpoint_id) in self.doomed
                loaded = await cold.load(thread, checkpoint_id)
                replaced = checkpoint_id == self.named and loaded == self.replacing
                assert loaded == state or replaced or (doomed and loaded is None), (thread, checkpoint_id)
                assert (checkpoint_id in listed) == (loaded is not None)
                assert not (doomed and complete and loaded)
            for checkpoint_id in listed:
                assert await self.fresh().load(thread, checkpoint_id) is not None
        for info in await cold.list_with_metadata():
            assert info["thread_id"] in await cold.list_threads()
            assert await cold.load(info["thread_id"]) is not None
        saver = CheckpointSaver(self.inner)
        for name, data in self.puts.items():
            if ("saver", name) not in self.doomed:
                found = await saver.get(thread_id="one", checkpoint_id=name)
                assert found is not None
                assert found["checkpoint"] == data


@dataclass(frozen=True)
class Feature:
    """What is tried: `act` is done again to complete it, and `done` says what must hold then."""

    act: Callable[[World, DurableCheckpointer, CheckpointSaver], Awaitable[None]]
    done: Callable[[World], Awaitable[None]]
    doomed: Callable[[World], set[tuple[str, str]]] = lambda world: set()


async def saves(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    state = said("new", after=world.newest("one"))
    world.ack("one", await checkpointer.save(state, "one"), state)


async def begins_a_thread(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    state = said("new")
    world.ack("new", await checkpointer.save(state, "new"), state)


def names(place: int | None) -> Feature:
    """A save under an id of one's own, which another checkpoint has at `place`."""

    async def act(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
        checkpoint_id = world.named = world.named or ("mine" if place is None else world.ids("one")[place])
        state = world.replacing = world.replacing or said("named")
        await checkpointer.save(state, "one", checkpoint_id, {"n": 1})
        world.ack("one", checkpoint_id, state)

    async def done(world: World) -> None:
        assert await world.fresh().load("one") == world.replacing
        assert await every_id(world.fresh(), "one") == world.ids("one")[::-1]
        assert len(world.ids("one")) == STATES + (place is None)

    return Feature(act, done)


async def newest_is_new(world: World) -> None:
    assert texts(await world.fresh().load("one"))[-1] == "new"


async def new_is_there(world: World) -> None:
    assert texts(await world.fresh().load("new")) == ["new"]


def deletes(*places: int) -> Feature:
    """The deletion of one checkpoint after another."""

    async def act(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
        for place in places:
            await checkpointer.delete("one", world.ids("one")[place])

    async def done(world: World) -> None:
        left = [one for at, one in enumerate(world.ids("one")) if at - STATES not in places and at not in places]
        assert await every_id(world.fresh(), "one") == left[::-1]

    return Feature(act, done, lambda world: {("one", world.ids("one")[place]) for place in places})


async def deletes_thread(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    await checkpointer.delete("one")


async def one_is_gone(world: World) -> None:
    assert await world.fresh().list_threads(pattern="one") == []


def all_of_one(world: World) -> set[tuple[str, str]]:
    return {("one", checkpoint_id) for checkpoint_id in world.ids("one")}


async def vacuums(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    if "young" not in world.saved:
        world.clock.advance(40 * DAY)
        world.saved["young"] = await save_each(world.fresh(), "two", 2)
        world.saved["two"] |= world.saved.pop("young")
        world.saved["young"] = {}
    await checkpointer.vacuum(30)


async def only_young_left(world: World) -> None:
    assert await world.fresh().list_threads() == ["two"]
    assert len(await every_id(world.fresh(), "two")) == 2


def all_old(world: World) -> set[tuple[str, str]]:
    return {(thread, one) for thread in ("one", "two") for one in world.ids(thread)[:STATES]}


async def copies(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    with suppress(ConflictError):  # the answer of the first try was lost
        await checkpointer.copy_thread("one", "copy")


async def copy_is_whole(world: World) -> None:
    assert await every_id(world.fresh(), "copy") == world.ids("one")[::-1]
    for checkpoint_id, state in world.saved["one"].items():
        assert await world.fresh().load("copy", checkpoint_id) == state


async def take(world: World, checkpointer: DurableCheckpointer) -> LogRun:
    """Begin a run, waiting out the lease of one that is not heard of any more."""
    log, seen = checkpointer._log, checkpointer._seen
    try:
        return await begin(log, ("one",), wait_seconds=0.0, seen=seen, renew=False)
    except ThreadBusyError:
        world.clock.advance(LEASE_SECONDS + 1)
        return await begin(log, ("one",), wait_seconds=0.0, seen=seen, renew=False)


PHASES: tuple[Phase, ...] = ("asked", "replied", "ran", "done")


async def takes_a_turn(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    """A turn, from where it is: what is on record is not done again."""
    run = await take(world, checkpointer)
    mine = run.turn is not None and run.turn.turn_id == "turn"
    at = PHASES.index(run.turn.phase) + 1 if run.turn and mine else 0
    for phase in PHASES[at:]:
        if phase == "ran":
            outcome = await run.settle("call", {"n": world.results.get("call", len(world.results) + 1)})
            assert outcome == {"n": world.results.setdefault("call", outcome["n"])}
            assert await run.settled() == {"call": outcome}
        assert run.state is not None
        state = said(phase, after=run.state)
        world.ack("one", await run.append(state, Turn("turn", phase)), state)
    await run.release()


async def turn_is_done(world: World) -> None:
    state = await world.fresh().load("one")
    assert texts(state)[STATES:] == list(PHASES)
    world.clock.advance(2 * DAY)
    await world.fresh().vacuum(1000)  # a turn that is killed at its very end leaves its results to this
    assert [record for record in await bodies(world.inner, "one") if record.key.sort.startswith("r")] == []
    run = await take(world, world.fresh())
    assert run.turn == Turn("turn", "done")
    await run.release()


async def saver_puts(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    await world.put(saver, "new")


async def saver_has_new(world: World) -> None:
    found = await CheckpointSaver(world.inner).list_checkpoints(thread_id="one")
    assert [one["checkpoint_id"] for one in found] == ["new", "put2", "put1", "put0"]


async def saver_puts_writes(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    await saver.put_writes(thread_id="one", checkpoint_id="put1", task_id="t", writes=[("a", 2), ("b", 3)])


async def saver_has_writes(world: World) -> None:
    rows = await CheckpointSaver(world.inner).get_writes(thread_id="one", checkpoint_id="put1")
    assert [(row["channel"], row["value"]) for row in rows] == [("a", 2), ("b", 3)]


async def saver_deletes(world: World, checkpointer: DurableCheckpointer, saver: CheckpointSaver) -> None:
    await saver.delete_thread("one")


async def saver_is_empty(world: World) -> None:
    saver = CheckpointSaver(world.inner)
    assert await saver.list_checkpoints(thread_id="one") == []
    assert await saver.get_writes(thread_id="one", checkpoint_id="put1") == []
    left = await bodies(world.inner, "one", "ns:default", table=DEFAULT_SAVER_TABLE)
    assert "messages" not in json.dumps([record.body for record in left])


FEATURES: dict[str, Feature] = {
    "save": Feature(saves, newest_is_new),
    "first save": Feature(begins_a_thread, new_is_there),
    "save under a new id": names(None),
    "save in place of another": names(2),
    "save in place of the newest": names(-1),
    "delete the first": deletes(0),
    "delete in the middle": deletes(2),
    "delete the newest": deletes(-1),
    "delete several": deletes(1, -1, 2),
    "delete thread": Feature(deletes_thread, one_is_gone, all_of_one),
    "vacuum": Feature(vacuums, only_young_left, all_old),
    "copy": Feature(copies, copy_is_whole),
    "turn": Feature(takes_a_turn, turn_is_done),
    "saver put": Feature(saver_puts, saver_has_new),
    "saver put_writes": Feature(saver_puts_writes, saver_has_writes),
    "saver delete_thread": Feature(
        saver_deletes, saver_is_empty, lambda world: {("saver", name) for name in world.puts}
    ),
}


async def steps_of(feature: Feature, atomic: Atomic) -> int:
    """How many writes the feature makes when nothing goes wrong."""
    world = World(atomic)
    await world.prepare()
    before = world.storage.writes
    world.doomed = feature.doomed(world)
    await feature.act(world, world.checkpointer, world.saver)
    await feature.done(world)
    return world.storage.writes - before


async def harmed(feature: Feature, atomic: Atomic, fault: Fault, step: int) -> World:
    """A world in which the feature met the fault at this write."""
    world = World(atomic)
    await world.prepare()
    world.doomed = feature.doomed(world)
    reached = world.storage.writes + step
    world.storage.at(reached, fault)
    try:
        await feature.act(world, world.checkpointer, world.saver)
    except (Stopped, UnavailableError):
        assert fault != "repeat"
    else:
        assert fault == "repeat", "the fault had no effect"
    assert world.storage.writes >= reached
    assert world.storage.stopped == (fault == "stop")
    return world


def trials(feature: Feature, atomic: Atomic) -> Iterator[tuple[Fault, int]]:
    steps = drive(steps_of(feature, atomic))
    assert steps >= 1
    for fault in FAULTS:
        for step in range(1, steps + 1):
            yield fault, step


@pytest.mark.parametrize("atomic", ATOMIC)
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_that_is_harmed_at_any_write_loses_nothing_and_can_be_done_again(name: str, atomic: Atomic) -> None:
    feature = FEATURES[name]

    async def trial(fault: Fault, step: int) -> None:
        world = await harmed(feature, atomic, fault, step)
        await world.check()
        if fault == "stop":  # a new process does it again; else the same one, with what it knows
            world.checkpointer, world.saver = world.fresh(), CheckpointSaver(world.inner)
        await feature.act(world, world.checkpointer, world.saver)
        await feature.done(world)
        await world.check(complete=True)

    for fault, step in trials(feature, atomic):
        try:
            drive(trial(fault, step))
        except Exception as error:
            raise AssertionError(f"{name}, {atomic}: {fault} at write {step}: {error!r}") from error


@pytest.mark.parametrize("atomic", ATOMIC)
@pytest.mark.parametrize("name", [name for name, feature in FEATURES.items() if name.startswith(("delete", "vacuum"))])
def test_a_later_vacuum_finishes_what_a_killed_removal_began(name: str, atomic: Atomic) -> None:
    feature = FEATURES[name]

    async def trial(step: int) -> None:
        world = await harmed(feature, atomic, "stop", step)
        gone = {key for key in world.doomed if await world.fresh().load(*key) is None}
        world.clock.advance(3700)
        await world.fresh().vacuum(1000)
        await world.check()
        for thread, checkpoint_id in gone:
            left = [
                record.body for record in await bodies(world.inner, thread) if record.body.get("id") == checkpoint_id
            ]
            assert left == [], (thread, checkpoint_id)
            assert await world.fresh().load(thread, checkpoint_id) is None

    for step in range(1, drive(steps_of(feature, atomic)) + 1):
        drive(trial(step))


@pytest.mark.parametrize("atomic", ATOMIC)
def test_what_a_killed_copy_left_is_removed_by_a_later_vacuum(atomic: Atomic) -> None:
    async def trial(step: int) -> None:
        world = await harmed(FEATURES["copy"], atomic, "stop", step)
        assert await world.fresh().list_threads(pattern="copy") == []
        for wait in (3700.0, 2 * DAY):
            world.clock.advance(wait)
            await world.fresh().vacuum(1000)
        assert await bodies(world.inner, "copy") == []
        await world.check()

    for step in range(1, drive(steps_of(FEATURES["copy"], atomic)) + 1):
        drive(trial(step))
