"""One call of the model, whole or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from locus.agent.cancelling import Cancellation, Cancelled
from locus.agent.kit import Kit
from locus.core.codec import dump_items
from locus.core.events import Event, ModelChunkEvent
from locus.core.messages import Message, Role
from locus.errors import InputError, ModelError
from locus.models.base import ModelChunk, ModelResponse, StreamingModel

__all__ = ["Asking"]


class Asking:
    """Afterwards either `response` or `error` is there."""

    def __init__(self, kit: Kit, cancellation: Cancellation) -> None:
        self._kit = kit
        self._cancellation = cancellation
        self.response: ModelResponse | None = None
        self.error: str | None = None

    async def chunks(self, messages: Sequence[Message]) -> AsyncGenerator[Event, None]:
        """Ask; with `stream=True` the pieces are given out as they come."""
        model = self._kit.model
        if not (self._kit.config.stream and isinstance(model, StreamingModel)):
            await self.silently(messages)
            return
        try:
            stream = model.stream(messages, self._kit.schemas, **self._kit.options)
        except Exception as error:  # noqa: BLE001  # whatever a provider's client raises
            self.error = _text(error)
            return
        try:
            while self.response is None:
                chunk = await self._piece(stream)
                if chunk is None:
                    return
                self.response = chunk.response
                if chunk.content:
                    yield ModelChunkEvent(content=chunk.content)
            yield ModelChunkEvent(done=True)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _piece(self, stream: AsyncIterator[ModelChunk]) -> ModelChunk | None:
        try:
            chunk = await self._cancellation.race(_next(stream))
            if chunk is not None and not isinstance(chunk, ModelChunk):
                raise ModelError(f"a model's stream is made of ModelChunk, not of {type(chunk).__name__}")
            if chunk is not None and chunk.response is not None:
                _checked(chunk.response)
        except (Cancelled, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever a provider's client raises
            self.error = _text(error)
            return None
        if chunk is None:
            self.error = "the model's stream ended without a response"
        return chunk

    async def silently(self, messages: Sequence[Message]) -> None:
        """Ask and wait for the whole answer."""
        try:
            work = self._kit.model.complete(messages, self._kit.schemas, **self._kit.options)
            self.response = _checked(await self._cancellation.race(work))
        except (Cancelled, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever a provider's client raises
            self.error = _text(error)


async def _next(stream: AsyncIterator[ModelChunk]) -> ModelChunk | None:
    return await anext(stream, None)


def _checked(response: object) -> ModelResponse:
    if not isinstance(response, ModelResponse):
        raise ModelError(f"a model answers with a ModelResponse, not with {type(response).__name__}")
    if response.message.role is not Role.ASSISTANT:
        raise ModelError(f"the model answered with a message of the {response.message.role.value}")
    try:
        dump_items("messages", (response.message,))
    except InputError as error:  # it could not be put on record, and asking again for the same would not end
        raise ModelError(f"the model's answer cannot be stored: {error}") from error
    return response


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
