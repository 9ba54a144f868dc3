"""Where an agent stands in a conversation: an immutable state that each step replaces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from locus._ids import new_id
from locus.core.messages import Frozen, JsonObject, Message, Text
from locus.errors import InputError

__all__ = ["AgentState", "ToolExecution"]


def _now() -> datetime:
    return datetime.now(UTC)


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


# A time without a zone could not be compared with one that has it, so it is read as UTC.
Moment = Annotated[datetime, AfterValidator(_aware)]


class ToolExecution(Frozen):
    """One tool call that was carried out, or failed."""

    tool_name: Text
    tool_call_id: Text
    arguments: JsonObject = Field(default_factory=dict)
    result: Any = None  # JSON, mostly text: what the tool gave back
    error: Text | None = None
    duration_ms: float = 0.0
    started_at: Moment | None = None

    @property
    def success(self) -> bool:
        """Whether the tool came to its end."""
        return self.error is None


class AgentState(Frozen):
    """Everything an agent needs to go on. `with_...` methods give the next state and leave this one as it is."""

    run_id: Text = Field(default_factory=lambda: new_id("run_"))
    agent_id: Text = "agent"
    messages: tuple[Message, ...] = ()
    iteration: int = Field(default=0, ge=0)
    max_iterations: int = Field(default=20, ge=0)
    tool_executions: tuple[ToolExecution, ...] = ()
    tool_history: tuple[Text, ...] = ()
    confidence: float = Field(default=0.0, ge=0.0, le=1.0)
    confidence_history: tuple[float, ...] = ()
    errors: tuple[Text, ...] = ()
    metadata: JsonObject = Field(default_factory=dict)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    total_tokens: int = Field(default=0, ge=0)
    started_at: Moment = Field(default_factory=_now)
    updated_at: Moment = Field(default_factory=_now)

    def with_message(self, message: Message) -> Self:
        """The state with one more message."""
        return self.with_messages((message,))

    def with_messages(self, messages: Iterable[Message]) -> Self:
        """The state with more messages; those it has stay the same objects."""
        added = tuple(messages)
        for message in added:
            if not isinstance(message, Message):
                raise InputError(f"a message must be a Message, not {type(message).__name__}")
        return self._next(messages=self.messages + added)

    def with_tool_execution(self, execution: ToolExecution) -> Self:
        """The state with one more tool execution, its tool's name added to the history."""
        if not isinstance(execution, ToolExecution):
            raise InputError(f"a tool execution must be a ToolExecution, not {type(execution).__name__}")
        return self._next(
            tool_executions=(*self.tool_executions, execution), tool_history=(*self.tool_history, execution.tool_name)
        )

    def with_confidence(self, confidence: float) -> Self:
        """The state with a new confidence in 0..1, which is added to the history too."""
        if not (math.isfinite(confidence) and 0.0 <= confidence <= 1.0):
            raise InputError(f"confidence must be between 0 and 1, not {confidence!r}")
        value = float(confidence)
        return self._next(confidence=value, confidence_history=(*self.confidence_history, value))

    def with_error(self, error: str) -> Self:
        """The state with one more error on record."""
        return self._next(errors=(*self.errors, str(error)))

    def with_iteration(self, iteration: int) -> Self:
        """The state at the given iteration."""
        if iteration < 0:
            raise InputError(f"iteration must not be negative, not {iteration!r}")
        return self._next(iteration=iteration)

    def next_iteration(self) -> Self:
        """The state one iteration further."""
        return self._next(iteration=self.iteration + 1)

    def with_metadata(self, metadata: Mapping[str, Any] | None = None, /, **entries: Any) -> Self:
        """The state with these entries added to its metadata."""
        return self._next(metadata={**self.metadata, **(metadata or {}), **entries})

    def with_tokens(self, prompt: int = 0, completion: int = 0, total: int | None = None) -> Self:
        """The state with this usage added; the total is the sum unless the provider counts otherwise."""
        return self._next(
            prompt_tokens=self.prompt_tokens + prompt,
            completion_tokens=self.completion_tokens + completion,
            total_tokens=self.total_tokens + (prompt + completion if total is None else total),
        )

    def to_checkpoint(self) -> dict[str, Any]:
        """The state as a plain JSON object."""
        try:
            return self.model_dump(mode="json")
        except UnicodeEncodeError:  # a lone surrogate in a key: the JSON text knows a way
            body: dict[str, Any] = json.loads(self.model_dump_json())
            return body

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any]) -> Self:
        """The state that `to_checkpoint` wrote; fields that only a later Locus knows are left out."""
        return cls.model_validate({name: checkpoint[name] for name in cls.model_fields if name in checkpoint})

    def _next(self, **changes: object) -> Self:
        # Not validated again: what is added was checked above, and what was there is the same objects.
        return self.model_copy(update={"updated_at": _now(), **changes})
