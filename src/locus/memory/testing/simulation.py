"""A seeded simulation: writers with stale caches save, delete, vacuum, copy, take over and die, in every order.

Each writer has a checkpointer of its own, so each knows of the others only what it reads. At every storage operation
another may go on, and any may be killed. Afterwards a fresh checkpointer must find what was acknowledged: every saved
checkpoint that nobody removed, exactly as it was saved; nothing that was deleted; no damaged thread; and turns that are
whole or were refused to their writer.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from locus._sync import drive
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ConflictError, ThreadBusyError
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.run import begin
from locus.memory.run import Turn
from locus.storage.memory import MemoryStorage
from locus.storage.testing.faulty import FaultyStorage, Stopped
from locus.storage.testing.simulation import FakeClock, SteppedStorage, run_schedule
from locus.storage.testing.wrapped import Atomic

__all__ = ["simulate"]

THREADS = ("one", "two")
DAY = 86_400.0


@dataclass
class _World:
    """What happened, as the writers were told."""

    rng: Random
    clock: FakeClock
    storage: MemoryStorage
    saved: dict[tuple[str, str], AgentState] = field(default_factory=dict)
    removed: set[tuple[str, str]] = field(default_factory=set)
    """Deletes that were acknowledged."""
    doubtful: set[tuple[str, str]] = field(default_factory=set)
    """What a delete or vacuum may have removed, whether or not it was acknowledged."""
    saved_at: dict[tuple[str, str], float] = field(default_factory=dict)
    turns: dict[str, list[tuple[str, AgentState]]] = field(default_factory=dict)
    """Acknowledged appends of runs, by thread and run."""
    clearings: list[str] = field(default_factory=list)
    """Threads whose deletion began or ended, in order."""
    clearing: list[str] = field(default_factory=list)
    """Threads whose deletion has not ended."""
    serial: int = 0

    def next_text(self) -> str:
        self.serial += 1
        return f"message number{self.serial}"

    def now(self) -> int:
        """A moment to give to `note`."""
        return len(self.clearings)

    def note(self, thread: str, checkpoint_id: str, state: AgentState, since: int) -> None:
        """A save that began at `since` was acknowledged. What the thread's deletion overlapped may have gone with it."""
        self.saved[thread, checkpoint_id] = state
        if thread in self.clearings[since:] or thread in self.clearing:
            self.doubtful.add((thread, checkpoint_id))
        self.saved_at[thread, checkpoint_id] = self.clock()


class _Writer:
    """A process: its own cache, its own faults, reborn when killed."""

    def __init__(self, world: _World, atomic: Atomic) -> None:
        self.world = world
        self.storage = FaultyStorage(SteppedStorage(world.storage, atomic=atomic), atomic=atomic)
        self.storage.clock = world.clock
        self.reborn()

    def reborn(self) -> None:
        self.storage.restart()
        self.checkpointer = DurableCheckpointer(self.storage)
        self.checkpointer._log.monotonic = self.world.clock  # no public way to tell the time

    async def work(self, acts: int) -> None:
        """Do some acts; a kill ends the process and a new one goes on next round."""
        if self.world.rng.random() < 0.3:
            self.storage.at(self.storage.writes + self.world.rng.randint(1, 12), "stop")
        try:
            for _ in range(acts):
                await self.act()
        except Stopped:
            self.reborn()

    async def act(self) -> None:
        choice = self.world.rng.choices(
            (self.save, self.delete, self.delete_thread, self.vacuum, self.copy, self.run), (8, 4, 0.4, 1, 1, 4)
        )[0]
        try:
            await choice()
        except (ConflictError, ThreadBusyError):
            return  # told: nothing of it needs to be there

    def thread(self) -> str:
        return self.world.rng.choice(THREADS)

    async def save(self) -> None:
        thread, world = self.thread(), self.world
        since = world.now()
        state = await self.checkpointer.load(thread) or AgentState(agent_id="sim")
        state = state.with_message(Message.user(world.next_text()))
        if len(state.messages) > 4 and world.rng.random() < 0.3:
            state = state.model_copy(update={"messages": state.messages[world.rng.randint(1, 3) :]})
        named = world.rng.random() < 0.15
        checkpoint_id = await self.checkpointer.save(state, thread, f"own-{world.next_text()}" if named else None)
        world.note(thread, checkpoint_id, state, since)

    async def delete(self) -> None:
        known = [key for key in self.world.saved if key not in self.world.removed]
        if known:
            key = self.world.rng.choice(known)
            self.world.doubtful.add(key)
            if await self.checkpointer.delete(*key):
                self.world.removed.add(key)

    async def delete_thread(self) -> None:
        thread = self.thread()
        before = {key for key in self.world.saved if key[0] == thread}
        self.world.doubtful |= before
        self.world.clearings.append(thread)
        self.world.clearing.append(thread)
        try:
            if await self.checkpointer.delete(thread):
                self.world.removed |= before
        finally:
            self.world.clearing.remove(thread)
            self.world.clearings.append(thread)

    async def vacuum(self) -> None:
        days = self.world.rng.choice((0.5, 1, 3))
        cutoff = self.world.clock() - days * DAY + 3600
        self.world.doubtful |= {key for key, at in self.world.saved_at.items() if at <= cutoff}
        await self.checkpointer.vacuum(days)

    async def copy(self) -> None:
        source, dest = self.thread(), f"copy {self.world.next_text()}"
        before = {key[1]: state for key, state in self.world.saved.items() if key[0] == source}
        if not await self.checkpointer.copy_thread(source, dest):
            return
        for checkpoint_id, state in before.items():
            if (source, checkpoint_id) not in self.world.doubtful:
                self.world.note(dest, checkpoint_id, state, self.world.now())

    async def run(self) -> None:
        thread, world = self.thread(), self.world
        log, seen = self.checkpointer._log, self.checkpointer._seen  # a run without the keeper's thread
        run = await begin(log, (thread,), wait_seconds=0.0, seen=seen, renew=False)
        try:
            mine = world.turns.setdefault(f"{thread}/{world.next_text()}", [])
            state = run.state or AgentState(agent_id="sim")
            for phase in ("asked", "replied", "done")[: world.rng.randint(1, 3)]:
                state = state.with_message(Message.user(world.next_text()))
                since = world.now()
                checkpoint_id = await run.append(state, Turn("turn", phase))  # type: ignore[arg-type]
                world.note(thread, checkpoint_id, state, since)
                mine.append((checkpoint_id, state))
                if phase == "replied":
                    await run.settle("call", {"result": world.next_text()})
        finally:
            if world.rng.random() < 0.8 and not self.storage.stopped:
                await run.release()


def simulate(seed: int, *, atomic: Atomic = "record", rounds: int = 4) -> int:
    """Run one schedule and check it; returns how many checkpoints were looked at. Raises `AssertionError`."""
    rng, clock = Random(seed), FakeClock()
    storage = MemoryStorage()
    storage.clock = clock
    world = _World(rng, clock, storage)
    writers = [_Writer(world, atomic) for _ in range(rng.randint(2, 3))]
    for _ in range(rounds):
        work: list[Coroutine[Any, Any, None]] = [writer.work(rng.randint(1, 5)) for writer in writers]
        for outcome in run_schedule(work, rng, clock=clock, tick=rng.choice((0.0, 0.5, 15.0))):
            if isinstance(outcome, BaseException):
                raise AssertionError(f"seed {seed}: a writer failed: {outcome!r}") from outcome
        clock.advance(rng.choice((0.0, 40.0, 2 * 3600.0, 1.5 * DAY)))
    return _check(world, seed)


def _check(world: _World, seed: int) -> int:
    fresh = DurableCheckpointer(world.storage)
    for (thread, checkpoint_id), state in world.saved.items():
        key = (thread, checkpoint_id)
        loaded = drive(fresh.load(thread, checkpoint_id))
        if key in world.removed:
            assert loaded is None, f"seed {seed}: {key} was deleted and is back"
        elif key not in world.doubtful:
            assert loaded is not None, f"seed {seed}: {key} was acknowledged and is lost"
        assert loaded in (None, state), f"seed {seed}: {key} is not what was saved"
    for thread in drive(fresh.list_threads(1000)):
        _check_thread(fresh, world, thread, seed)
    for name, appended in world.turns.items():
        for (_, earlier), (_, later) in pairwise(appended):
            assert later.messages[: len(earlier.messages)] == earlier.messages, (
                f"seed {seed}: run {name} is interleaved"
            )
    return len(world.saved)


def _check_thread(fresh: DurableCheckpointer, world: _World, thread: str, seed: int) -> None:
    """A thread loads, every checkpoint that it lists loads, and what it ends in is one of them or was saved in a turn."""
    newest = drive(fresh.load(thread))
    assert newest is not None, f"seed {seed}: {thread} is listed and has no state"
    cold = DurableCheckpointer(world.storage)
    for info in drive(cold.history(thread, 1000)):
        assert drive(cold.load(thread, info["checkpoint_id"])) is not None, (
            f"seed {seed}: {thread} {info} does not load"
        )
    texts = [message.text for message in newest.messages]
    assert len(texts) == len(set(texts)), f"seed {seed}: {thread} has a message twice"
