"""What an agent's run reports while it goes on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from locus.core.messages import Frozen, JsonObject, Text, ToolCall

__all__ = [
    "AgentEvent",
    "Event",
    "InterruptEvent",
    "ModelChunkEvent",
    "ReflectEvent",
    "TerminateEvent",
    "ThinkEvent",
    "ToolCompleteEvent",
    "ToolStartEvent",
]


class Event(Frozen):
    """What every event has: its type (a fixed word, see the classes below) and when it happened."""

    event_type: str
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))


class ThinkEvent(Event):
    """The model answered."""

    event_type: Literal["think"] = "think"
    iteration: int
    reasoning: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()


class ToolStartEvent(Event):
    """A tool is about to run; the call is on record."""

    event_type: Literal["tool_start"] = "tool_start"
    tool_name: Text
    tool_call_id: Text
    arguments: JsonObject = Field(default_factory=dict)


class ToolCompleteEvent(Event):
    """A tool came back, or failed."""

    event_type: Literal["tool_complete"] = "tool_complete"
    tool_name: Text
    tool_call_id: Text
    arguments: JsonObject = Field(default_factory=dict)
    result: Any = None  # JSON, mostly text: what the tool gave back
    error: Text | None = None
    duration_ms: float = 0.0


class ReflectEvent(Event):
    """The agent judged its own progress."""

    event_type: Literal["reflect"] = "reflect"
    iteration: int
    assessment: Text
    confidence_delta: float
    new_confidence: float
    guidance: Text | None = None


class ModelChunkEvent(Event):
    """A piece of the answer, as the model streams it."""

    event_type: Literal["model_chunk"] = "model_chunk"
    content: Text = ""
    done: bool = False


class InterruptEvent(Event):
    """The run waits for a person; `Agent.resume` carries the answer."""

    event_type: Literal["interrupt"] = "interrupt"
    thread_id: Text | None = None
    interrupts: tuple[JsonObject, ...] = ()  # JSON: call_id and what the tool asks


class TerminateEvent(Event):
    """The run is over and its final state is on record."""

    event_type: Literal["terminate"] = "terminate"
    reason: Text
    iterations_used: int = 0
    final_confidence: float = 0.0
    total_tool_calls: int = 0
    final_message: Text | None = None
    usage: dict[str, int] = Field(default_factory=dict)
    error: Text | None = None


AgentEvent = Annotated[
    ThinkEvent | ToolStartEvent | ToolCompleteEvent | ReflectEvent | ModelChunkEvent | InterruptEvent | TerminateEvent,
    Field(discriminator="event_type"),
]
"""Any event, told apart by `event_type`."""
