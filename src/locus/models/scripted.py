"""A model that says what a test tells it to."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from locus.core.messages import Message, Role
from locus.errors import ModelError
from locus.models.base import ModelChunk, ModelResponse, ToolSchema, chunks_of
from locus.models.history import check_history

__all__ = ["ScriptedModel", "Step"]

Answer: TypeAlias = str | Message | ModelResponse | BaseException
Step: TypeAlias = Answer | Callable[[Sequence[Message], Sequence[ToolSchema]], Answer | Awaitable[Answer]]
"""An answer, or a function (plain or async) of the messages and tools that gives one. An exception is raised."""


class ScriptedModel:
    """Answers request after request from a script; `calls` holds the messages of each request."""

    def __init__(self, script: Iterable[Step]) -> None:
        self._script = list(script)
        self.calls: list[tuple[Message, ...]] = []
        self.tools: list[tuple[ToolSchema, ...]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # taken so that any caller's options fit; a script has no use for them
    ) -> ModelResponse:
        check_history(messages)
        place = len(self.calls)
        self.calls.append(tuple(messages))
        self.tools.append(tuple(tools or ()))
        if place >= len(self._script):
            raise ModelError(f"the script has {len(self._script)} steps and was asked for one more")
        step = self._script[place]
        if callable(step):
            made = step(messages, self.tools[-1])
            step = await made if inspect.isawaitable(made) else made
        return _response(step)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # as above
    ) -> AsyncIterator[ModelChunk]:
        for chunk in chunks_of(await self.complete(messages, tools, **options)):
            yield chunk


def _response(answer: Answer) -> ModelResponse:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, ModelResponse):
        return answer
    message = Message.assistant(answer) if isinstance(answer, str) else answer
    if not isinstance(message, Message) or message.role is not Role.ASSISTANT:
        raise ModelError(f"a script answers with assistant messages, not with {answer!r}")
    return ModelResponse(message=message, stop_reason="tool_calls" if message.tool_calls else "stop")
