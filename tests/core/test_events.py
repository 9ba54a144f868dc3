"""Events carry the words and fields that programs listen for."""

from __future__ import annotations

from datetime import UTC

import pytest
from pydantic import TypeAdapter, ValidationError

from locus.core import (
    AgentEvent,
    Event,
    InterruptEvent,
    ModelChunkEvent,
    ReflectEvent,
    TerminateEvent,
    ThinkEvent,
    ToolCall,
    ToolCompleteEvent,
    ToolStartEvent,
)

EVENTS: dict[str, Event] = {
    "think": ThinkEvent(iteration=1, reasoning="hm", tool_calls=(ToolCall(name="look"),)),
    "tool_start": ToolStartEvent(tool_name="look", tool_call_id="c", arguments={"a": 1}),
    "tool_complete": ToolCompleteEvent(tool_name="look", tool_call_id="c", result="x", duration_ms=1.5),
    "reflect": ReflectEvent(iteration=1, assessment="on track", confidence_delta=0.1, new_confidence=0.1),
    "model_chunk": ModelChunkEvent(content="wor", done=False),
    "interrupt": InterruptEvent(thread_id="t", interrupts=({"call_id": "c", "payload": {"ask": "sure?"}},)),
    "terminate": TerminateEvent(reason="complete", final_message="done", usage={"total_tokens": 3}),
}


@pytest.mark.parametrize("word", sorted(EVENTS))
def test_an_event_says_its_type_and_time_and_survives_json(word: str) -> None:
    event = EVENTS[word]
    assert event.event_type == word
    assert event.timestamp.tzinfo is UTC
    adapter: TypeAdapter[Event] = TypeAdapter(AgentEvent)
    again = adapter.validate_json(event.model_dump_json())
    assert again == event
    assert type(again) is type(event)


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        EVENTS["think"].event_type = "other"  # type: ignore[misc]
