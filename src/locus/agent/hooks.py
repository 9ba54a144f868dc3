"""Code of the caller's that is run at fixed points of a turn."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from locus.core.events import Event
from locus.core.messages import Message, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.tools import ToolContext

if TYPE_CHECKING:
    from locus.agent.result import AgentResult
    from locus.models.base import ModelResponse

__all__ = ["Hook", "Hooks"]


class Hook:
    """Every point there is. Derive from this, or hand any object that has some of these methods, plain or async.

    What a hook raises ends the run and reaches the caller. The thread is complete up to that point and the next run
    finishes the turn. Only `before_tool` has a softer way: a `ToolError` is given to the model as the call's result.
    """

    def before_model(self, state: AgentState, messages: Sequence[Message]) -> Sequence[Message] | None:
        """May return other messages to send; the thread keeps its own."""

    def after_model(self, state: AgentState, response: ModelResponse) -> None:
        """The model answered; its reply is not on record yet."""

    def before_tool(self, call: ToolCall, context: ToolContext) -> None:
        """The call is on record and about to run. Raise `ToolError` to refuse it."""

    def after_tool(self, call: ToolCall, execution: ToolExecution) -> None:
        """The call has its outcome, and the outcome is on record."""

    def on_event(self, event: Event) -> None:
        """The event is about to reach the caller."""

    def on_turn_end(self, result: AgentResult) -> None:
        """The turn's final state is on record; `terminate` comes next."""


class _Any(Protocol):
    """Any object: hooks are found by the names of their methods."""


class Hooks:
    """The hooks of an agent, called in order."""

    def __init__(self, hooks: Iterable[_Any] = ()) -> None:
        self._hooks = tuple(hooks)

    async def call(self, point: str, *args: object) -> object:
        """Call every hook that has this method; returns the last answer that is not None."""
        answer: object = None
        for hook in self._hooks:
            method = getattr(hook, point, None)
            if method is None:
                continue
            given = method(*args)
            if inspect.isawaitable(given):
                given = await given
            answer = given if given is not None else answer
        return answer

    async def before_model(self, state: AgentState, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages to send; each hook sees what the one before it made of them."""
        for hook in self._hooks:
            changed = await Hooks((hook,)).call("before_model", state, messages)
            if isinstance(changed, Sequence):
                messages = changed
        return messages
