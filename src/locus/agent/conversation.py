"""What of a long conversation the model gets to see. The stored thread stays whole."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from locus.core.messages import Message, Role
from locus.errors import ConfigError
from locus.models.base import Model

__all__ = ["ConversationManager", "SlidingWindow", "Summarizing"]

_log = logging.getLogger(__name__)

SummaryFunction: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]


class ConversationManager(Protocol):
    """Chooses what is sent. Any object with this method will do."""

    async def view(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages to send, out of all messages of the thread."""


class SlidingWindow:
    """The last `max_messages`.

    The window begins with a user's message and never parts a call from its results. Where the newest turn alone is
    longer than the window, its question stays in front; where one reply has more results than fit, the window is larger.
    """

    def __init__(self, max_messages: int = 40) -> None:
        self.max_messages = _positive("max_messages", max_messages)

    async def view(self, messages: Sequence[Message]) -> Sequence[Message]:
        return window(messages, self.max_messages)


class Summarizing:
    """A summary of what is old, and the newest messages as they are.

    `summarize` is a model, or a function (plain or async) of the messages to sum up. As soon as there are more than
    `max_messages`, all but about the last `keep_last` are replaced. The same old messages are summed up once. A summary
    that fails is left out and reported in the log; the turn goes on.
    """

    def __init__(self, summarize: Model | SummaryFunction, *, max_messages: int = 40, keep_last: int = 10) -> None:
        self.max_messages = _positive("max_messages", max_messages)
        self.keep_last = _positive("keep_last", keep_last)
        if keep_last >= max_messages:
            raise ConfigError(f"keep_last={keep_last} must be less than max_messages={max_messages}")
        self._summarize = summarize
        self._known: OrderedDict[bytes, str] = OrderedDict()

    async def view(self, messages: Sequence[Message]) -> Sequence[Message]:
        if len(messages) <= self.max_messages:
            return messages
        # The cut moves in strides, so that most calls find their summary made already.
        stride = self.max_messages - self.keep_last
        cut = (len(messages) - self.keep_last) // stride * stride
        tail = window(messages, len(messages) - cut)
        head = messages[: len(messages) - len(tail)]
        summary = await self._summary(head)
        return tail if summary is None else (Message.system(f"Summary of the conversation so far:\n{summary}"), *tail)

    async def _summary(self, head: Sequence[Message]) -> str | None:
        digest = hashlib.sha256()
        for message in head:
            digest.update(message.model_dump_json().encode("utf-8", "surrogatepass"))
        key = digest.digest()
        if key not in self._known:
            try:
                self._known[key] = await self._ask(head)
            except Exception as error:  # noqa: BLE001  # any failure of the caller's summary costs the summary only
                _log.warning("the summary of %d older messages failed and is left out: %s", len(head), error)
                return None
            while len(self._known) > 64:
                self._known.popitem(last=False)
        return self._known[key]

    async def _ask(self, head: Sequence[Message]) -> str:
        if callable(self._summarize):
            made = self._summarize(head)
            return await made if inspect.isawaitable(made) else made
        text = "\n".join(f"{message.role.value}: {_said(message)}" for message in head)
        order = "Sum up this conversation in a few sentences. Keep names, numbers, decisions and open questions."
        response = await self._summarize.complete([Message.system(order), Message.user(text)])
        return response.message.text


def window(messages: Sequence[Message], size: int) -> Sequence[Message]:
    """The newest messages, about `size` of them, as a history that a provider accepts."""
    if len(messages) <= size:
        return messages
    start = _boundary(messages, len(messages) - size)
    if messages[start].role is Role.USER:
        return messages[start:]
    question = next((i for i in range(start - 1, -1, -1) if messages[i].role is Role.USER), None)
    if question is None:
        return messages[start:]
    rest = _boundary(messages, min(max(start, len(messages) - size + 1), len(messages) - 1))
    if messages[rest].role is Role.USER:  # the next turn begins here: the older question would stand unanswered
        return messages[rest:]
    return (messages[question], *messages[rest:])


def _boundary(messages: Sequence[Message], start: int) -> int:
    """The next place from `start` on that is no tool's result; the one before it if none follows."""
    for index in range(start, len(messages)):
        if messages[index].role is not Role.TOOL:
            return index
    while start > 0 and messages[start].role is Role.TOOL:
        start -= 1
    return start


def _said(message: Message) -> str:
    calls = ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    return " ".join(part for part in (message.text, f"[calls {calls}]" if calls else "") if part)


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value
