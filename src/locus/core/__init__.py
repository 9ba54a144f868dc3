"""The values everything else is about: messages, the state of an agent, events, and how they are stored."""

from __future__ import annotations

from locus.core.events import (
    AgentEvent,
    Event,
    InterruptEvent,
    ModelChunkEvent,
    ReflectEvent,
    TerminateEvent,
    ThinkEvent,
    ToolCompleteEvent,
    ToolStartEvent,
)
from locus.core.messages import FilePart, ImagePart, Message, Part, Role, TextPart, ToolCall
from locus.core.state import AgentState, ToolExecution

__all__ = [
    "AgentEvent",
    "AgentState",
    "Event",
    "FilePart",
    "ImagePart",
    "InterruptEvent",
    "Message",
    "ModelChunkEvent",
    "Part",
    "ReflectEvent",
    "Role",
    "TerminateEvent",
    "TextPart",
    "ThinkEvent",
    "ToolCall",
    "ToolCompleteEvent",
    "ToolExecution",
    "ToolStartEvent",
]
