"""How a run gets hold of its thread, on any checkpointer or on none."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from locus._ids import check_name, new_id
from locus.agent.history import TURN_KEY, derive_turn
from locus.core.messages import Role
from locus.core.state import AgentState
from locus.errors import StorageError, ThreadBusyError
from locus.memory.checkpointer import BaseCheckpointer
from locus.memory.run import ThreadRun, Turn

__all__ = ["EphemeralRun", "PlainRun", "give_back", "load_turn", "open_run", "visible"]

_log = logging.getLogger(__name__)

_POLL = 0.01
_TURN = "locus.turn"
"""Metadata of a state on a foreign checkpointer, where the messages alone would tell another story of the turn."""


@runtime_checkable
class _Begins(Protocol):
    """A checkpointer that keeps the whole promise: leases, results of their own, turns on record."""

    async def begin(self, thread_id: str, *, wait_seconds: float) -> ThreadRun: ...


@runtime_checkable
class _KnowsTurns(Protocol):
    """A checkpointer that keeps with each state where its turn stood."""

    async def load_turn(self, thread_id: str, checkpoint_id: str | None) -> tuple[AgentState, Turn | None] | None: ...


async def load_turn(
    checkpointer: BaseCheckpointer, thread_id: str, checkpoint_id: str | None
) -> tuple[AgentState, Turn | None] | None:
    """A state on record and where its turn stood; no turn when it was saved outside of any."""
    if isinstance(checkpointer, _KnowsTurns):
        return await checkpointer.load_turn(thread_id, checkpoint_id)
    state = await checkpointer.load(thread_id, checkpoint_id)
    return None if state is None else (visible(state), _stored_turn(state))


async def open_run(checkpointer: BaseCheckpointer | None, thread_id: str | None, wait_seconds: float) -> ThreadRun:
    """Take hold of a thread. `ThreadBusyError` when another run keeps it for longer than `wait_seconds`."""
    if thread_id is not None:
        check_name(thread_id, "thread_id")
    if checkpointer is None or thread_id is None:
        return EphemeralRun(thread_id)
    if isinstance(checkpointer, _Begins):
        return await checkpointer.begin(thread_id, wait_seconds=wait_seconds)
    return await PlainRun.begin(checkpointer, thread_id, wait_seconds=wait_seconds)


async def give_back(run: ThreadRun) -> None:
    """Release a thread. That this fails is no failure of the run, whose every step is on record."""
    try:
        await run.release()
    except StorageError as error:
        _log.warning("thread %r is free only when its lease has run out: %s", run.thread_id, error)


class EphemeralRun:
    """A run that keeps nothing: there is no checkpointer, or no thread to keep it in."""

    separate_results = True  # nothing is durable, so nothing is gained by waiting for the state

    def __init__(self, thread_id: str | None = None) -> None:
        self.thread_id = thread_id or ""
        self.state: AgentState | None = None
        self.turn: Turn | None = None
        self._settled: dict[str, Mapping[str, Any]] = {}  # JSON

    async def append(
        self,
        state: AgentState,
        turn: Turn,
        *,
        listed: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        self.state, self.turn = state, turn
        return new_id("cp_")

    async def settle(self, call_id: str, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._settled.setdefault(call_id, outcome)

    async def settled(self) -> dict[str, Mapping[str, Any]]:
        return dict(self._settled)

    async def find_turn(self, turn_id: str) -> tuple[Turn, AgentState] | None:
        return None

    def check(self) -> None:
        """Nobody else can hold it."""

    async def release(self) -> None:
        """There is nothing to give back."""


_held: set[tuple[int, str]] = set()
_guard = threading.Lock()


class PlainRun:
    """A run on a checkpointer of which nothing is known but `save`, `load` and `list_checkpoints`.

    The lesser promise. States are saved at the same moments and in the same order, so after a crash the thread loads,
    its history is valid and no call is repeated that must not be. What needs more than `save` is less:

    - Two runs of one process on one checkpointer object take turns. Between processes nothing is held: the later save
      wins, and nobody is told.
    - A tool's result is on record when all results of its reply are. A crash in between leaves those that had come in
      as "outcome unknown"; an idempotent tool is run again with the same key.
    - Where a turn stands is read from the messages. Where they cannot tell (a person is asked; the turn was stopped
      before its answer) the state carries one entry of metadata more.
    - A turn is found again by its id as long as its messages are in the thread.
    """

    separate_results = False

    def __init__(self, checkpointer: BaseCheckpointer, thread_id: str, state: AgentState | None) -> None:
        self.thread_id = thread_id
        self.state = None if state is None else visible(state)
        self.turn = None if state is None else _stored_turn(state)
        self._checkpointer = checkpointer
        self._settled: dict[str, Mapping[str, Any]] = {}  # JSON
        self._key: tuple[int, str] | None = (id(checkpointer), thread_id)

    @classmethod
    async def begin(cls, checkpointer: BaseCheckpointer, thread_id: str, *, wait_seconds: float) -> PlainRun:
        """Wait for the thread's other runs in this process, then load its newest state."""
        key = (id(checkpointer), thread_id)
        await _hold(key, wait_seconds)
        try:
            return cls(checkpointer, thread_id, await checkpointer.load(thread_id))
        except BaseException:
            _held.discard(key)
            raise

    async def append(
        self,
        state: AgentState,
        turn: Turn,
        *,
        listed: bool = True,  # a plain checkpointer lists all it has
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        self.check()
        stored = state
        if derive_turn(state).phase != turn.phase:
            stored = state.with_metadata({_TURN: _turn_json(turn, len(state.messages))})
        saved = await self._checkpointer.save(stored, self.thread_id, metadata=dict(metadata) if metadata else None)
        self.state, self.turn = state, turn
        return saved

    async def settle(self, call_id: str, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._settled.setdefault(call_id, outcome)

    async def settled(self) -> dict[str, Mapping[str, Any]]:
        return dict(self._settled)

    async def find_turn(self, turn_id: str) -> tuple[Turn, AgentState] | None:
        messages = () if self.state is None else self.state.messages
        for index, message in enumerate(messages):
            if message.role is Role.USER and message.metadata.get(TURN_KEY) == turn_id:
                rest = (i for i in range(index + 1, len(messages)) if messages[i].role is Role.USER)
                end = next(rest, len(messages))
                assert self.state is not None
                return Turn(turn_id, "done"), self.state.model_copy(update={"messages": messages[:end]})
        return None

    def check(self) -> None:
        if self._key is None:
            raise ThreadBusyError(f"this run has given thread {self.thread_id!r} back already")

    async def release(self) -> None:
        if self._key is not None:
            _held.discard(self._key)
            self._key = None


async def _hold(key: tuple[int, str], wait_seconds: float) -> None:
    # Runs may be on different loops and threads, so they meet in a plain set and not in a lock of one loop.
    deadline = time.monotonic() + wait_seconds
    while True:
        with _guard:
            if key not in _held:
                _held.add(key)
                return
        if time.monotonic() >= deadline:
            raise ThreadBusyError(
                f"another run of this process holds thread {key[1]!r}; waited {wait_seconds:g} s (option wait_seconds)"
            )
        await asyncio.sleep(_POLL)


def visible(state: AgentState) -> AgentState:
    """The state without what `PlainRun` keeps in its metadata."""
    if _TURN not in state.metadata:
        return state
    kept = {name: value for name, value in state.metadata.items() if name != _TURN}
    return state.model_copy(update={"metadata": kept})


def _turn_json(turn: Turn, messages: int) -> dict[str, Any]:
    return {
        "messages": messages,
        "turn_id": turn.turn_id,
        "phase": turn.phase,
        "base_iteration": turn.base_iteration,
        "interrupts": [dict(item) for item in turn.interrupts],
        "answers": dict(turn.answers),
        "stop_reason": turn.stop_reason,
    }


def _stored_turn(state: AgentState) -> Turn:
    kept = state.metadata.get(_TURN)
    # Somebody who saved a longer thread took the metadata along; it speaks of the state it was made for.
    if kept is None or kept["messages"] != len(state.messages):
        return derive_turn(state)
    return Turn(
        turn_id=kept["turn_id"],
        phase=kept["phase"],
        base_iteration=kept["base_iteration"],
        interrupts=tuple(kept["interrupts"]),
        answers=kept["answers"],
        stop_reason=kept["stop_reason"],
    )
