"""What a model is to Locus: something that answers a list of messages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from locus.core.messages import Frozen, Message, Text, ToolCall

__all__ = ["Model", "ModelChunk", "ModelResponse", "StreamingModel", "ToolSchema", "Usage", "chunks_of"]

ToolSchema: TypeAlias = Mapping[str, Any]
"""A tool as a model is told of it: `name`, `description`, and `parameters`, a JSON schema."""


def _sum(counts: dict[str, Any]) -> int:  # pydantic hands over the fields before this one
    return int(counts.get("prompt_tokens", 0) + counts.get("completion_tokens", 0))


class Usage(Frozen):
    """Tokens a request cost; the total is the sum unless the provider counts otherwise."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = Field(default_factory=_sum)


class ModelResponse(Frozen):
    """A model's answer."""

    message: Message
    usage: Usage = Field(default_factory=Usage)
    stop_reason: Text | None = None


class ModelChunk(Frozen):
    """A piece of an answer; the last one carries the whole response."""

    content: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()
    response: ModelResponse | None = None


@runtime_checkable
class Model(Protocol):
    """Any object with this method is a model."""

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # the provider's own: temperature, max_tokens ...
    ) -> ModelResponse:
        """Answer the conversation, or ask for tools to be run."""


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can also answer piece by piece."""

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] | None = None,
        **options: Any,  # the provider's own
    ) -> AsyncIterator[ModelChunk]:
        """The answer in pieces; the last carries the response."""


def chunks_of(response: ModelResponse) -> Iterator[ModelChunk]:
    """A finished response as a stream would have brought it: word by word, then whole."""
    for word in re.findall(r"\S+\s*|\s+", response.message.text):
        yield ModelChunk(content=word)
    yield ModelChunk(tool_calls=response.message.tool_calls, response=response)
