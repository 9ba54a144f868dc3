"""What an agent's run asks of its thread: one holder at a time, every step recorded before it is acted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from locus.core.state import AgentState

__all__ = ["Phase", "ThreadRun", "Turn"]

Phase = Literal["asked", "replied", "ran", "interrupted", "done"]
"""asked: the user's message is on record. replied: the model's reply is, its tool calls may be running.
ran: every call has its result in the state. interrupted: a person must answer. done: the turn is over."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a turn stands; kept in the log beside the state, so that a later run can finish it."""

    turn_id: str
    phase: Phase
    base_iteration: int = 0
    """The thread's iteration count when the turn began; `max_iterations` counts from here."""
    interrupts: tuple[Mapping[str, Any], ...] = ()  # JSON: call_id, payload
    answers: Mapping[str, Any] = field(default_factory=dict)  # JSON by call id
    stop_reason: str | None = None


class ThreadRun(Protocol):
    """One run's hold on a thread. Made by `begin`, ended by `release`."""

    thread_id: str
    state: AgentState | None
    """The newest state on record, None for a new thread."""
    turn: Turn | None
    """The newest turn on record, None when there was never one."""
    separate_results: bool
    """Whether `settle` makes a result durable by itself, before the state that holds it is appended."""

    async def append(
        self, state: AgentState, turn: Turn, *, listed: bool = True, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Record the next state; returns its checkpoint id.

        Raises `ThreadBusyError` when another run took the thread over. `listed` says whether people see it as a restore
        point; it is durable either way.
        """

    async def settle(self, call_id: str, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record the outcome of a call of the newest reply. The first to settle a call settles it: returns the winner."""

    async def settled(self) -> dict[str, Mapping[str, Any]]:
        """The outcomes on record for calls of the newest reply, by call id."""

    async def find_turn(self, turn_id: str) -> tuple[Turn, AgentState] | None:
        """The newest state of an earlier turn that carried this id, or None."""

    def check(self) -> None:
        """Raise `ThreadBusyError` unless the lease is still certainly ours. Cheap: reads a clock."""

    async def release(self) -> None:
        """Give the thread back. Safe to call twice."""
