"""How a tool call ended, as it is recorded and as the model reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from locus.core.events import ToolCompleteEvent
from locus.core.messages import Message, ToolCall
from locus.core.state import ToolExecution

__all__ = ["NOT_ANSWERED", "NOT_STARTED", "UNKNOWN", "Outcome"]

UNKNOWN = (
    "Interrupted, outcome unknown: the run stopped while this tool may have been running. It may or may not have taken "
    "effect. Find out before calling it again."
)
NOT_STARTED = (
    "Not run: the run was stopped before this tool started. Nothing happened; call it again if it is still wanted."
)
NOT_ANSWERED = "Not answered: the tool asked the user, and the user went on without answering. The tool did not finish."
CANCELLED = "Cancelled by the user while it was running. It may or may not have taken effect."


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one call."""

    tool_name: str
    result: str | None = None
    error: str | None = None
    duration_ms: float = 0.0
    started_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """What is recorded."""
        return asdict(self)

    @classmethod
    def from_json(cls, recorded: Mapping[str, Any]) -> Outcome:
        """What was recorded, by this version or by one that records more."""
        return cls(**{name: recorded[name] for name in cls.__slots__ if name in recorded})

    def message(self, call: ToolCall) -> Message:
        """What the model reads."""
        if self.error is not None:
            return Message.tool(f"Error: {self.error}", call.id, name=call.name, metadata={"is_error": True})
        return Message.tool(self.result or "", call.id, name=call.name)

    def execution(self, call: ToolCall) -> ToolExecution:
        """What the state remembers."""
        return ToolExecution(
            tool_name=call.name,
            tool_call_id=call.id,
            arguments=call.arguments,
            result=self.result,
            error=self.error,
            duration_ms=self.duration_ms,
            started_at=None if self.started_at is None else datetime.fromisoformat(self.started_at),
        )

    def event(self, call: ToolCall) -> ToolCompleteEvent:
        """What the caller is told."""
        return ToolCompleteEvent(
            tool_name=call.name,
            tool_call_id=call.id,
            arguments=call.arguments,
            result=self.result,
            error=self.error,
            duration_ms=self.duration_ms,
        )
