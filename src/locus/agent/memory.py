"""Where long-term memory joins a turn: recalled before the model is asked, extracted after the turn is over."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from locus.core.messages import Message
from locus.core.state import AgentState

__all__ = ["Careful", "NoMemory", "SessionMemory"]

_log = logging.getLogger(__name__)


@runtime_checkable
class SessionMemory(Protocol):
    """The two moments. Neither fails a turn: what is raised here is reported in the log."""

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        """What is known that bears on the newest user's message; goes into the system prompt and is never stored."""

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        """The turn is on record and the caller was told; learn from its messages."""


class Careful:
    """Keeps both moments from failing a turn: what goes wrong there is reported in the log."""

    def __init__(self, memory: SessionMemory) -> None:
        self._memory = memory

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        try:
            return await self._memory.prepare(state, thread_id)
        except Exception as error:  # noqa: BLE001  # whatever the caller's memory raises costs the recall only
            _log.warning("nothing was recalled for thread %r: %s: %s", thread_id, type(error).__name__, error)
            return ""

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        try:
            await self._memory.finish(state, new_messages, thread_id)
        except Exception as error:  # noqa: BLE001  # the turn is over and on record
            _log.warning("nothing was learned from thread %r: %s: %s", thread_id, type(error).__name__, error)


class NoMemory:
    """An agent that remembers nothing beyond its threads."""

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        return ""

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        """There is nothing to learn into."""
