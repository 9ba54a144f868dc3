"""What a run gives back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from locus.core.events import TerminateEvent
from locus.core.messages import Message
from locus.core.state import AgentState, ToolExecution

__all__ = ["SUCCESSFUL", "AgentMetrics", "AgentResult", "terminate"]

SUCCESSFUL = frozenset({"complete", "terminal_tool", "confidence_met"})


class AgentMetrics(BaseModel):
    """What a turn took. Tokens and time are those of the call that returned this, the rest are of the whole turn."""

    model_config = ConfigDict(frozen=True)

    iterations: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    duration_ms: float = 0.0


class AgentResult(BaseModel):
    """How a turn ended. A model that failed is `success=False` with an `error`, not an exception."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    message: str
    """The text of the answer."""
    state: AgentState
    stop_reason: str
    metrics: AgentMetrics
    error: str | None = None
    parsed: Any = None  # an object of the `output_schema` class
    interrupts: tuple[dict[str, Any], ...] = ()  # JSON: call_id, tool_name, payload ...
    thread_id: str | None = None
    turn_id: str | None = None

    @property
    def text(self) -> str:
        """The same as `message`."""
        return self.message

    @property
    def success(self) -> bool:
        """Whether the turn came to the end it was meant to have."""
        return self.stop_reason in SUCCESSFUL and self.error is None

    @property
    def confidence(self) -> float:
        """The thread's confidence."""
        return self.state.confidence

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the whole thread."""
        return self.state.messages

    @property
    def tool_executions(self) -> tuple[ToolExecution, ...]:
        """The tool executions of the whole thread."""
        return self.state.tool_executions

    def __str__(self) -> str:
        return self.message


def terminate(result: AgentResult) -> TerminateEvent:
    """The last event of a turn."""
    metrics = result.metrics
    return TerminateEvent(
        reason=result.stop_reason,
        iterations_used=metrics.iterations,
        final_confidence=result.confidence,
        total_tool_calls=metrics.tool_calls,
        final_message=result.message or None,
        usage={
            "prompt_tokens": metrics.prompt_tokens,
            "completion_tokens": metrics.completion_tokens,
            "total_tokens": metrics.total_tokens,
        },
        error=result.error,
    )
