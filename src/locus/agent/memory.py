"""Where long-term memory joins a turn: recalled before the model is asked, extracted after the turn is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from locus.core.messages import Message
from locus.core.state import AgentState

__all__ = ["NoMemory", "SessionMemory"]


@runtime_checkable
class SessionMemory(Protocol):
    """The two moments. Neither may fail a turn: an implementation degrades and reports."""

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        """What is known that bears on the newest user's message; goes into the system prompt and is never stored."""

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        """The turn is on record and the caller was told; learn from its messages."""


class NoMemory:
    """An agent that remembers nothing beyond its threads."""

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        return ""

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        """There is nothing to learn into."""
