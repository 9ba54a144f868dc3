"""Which histories a provider would refuse, so that offline tests refuse them too."""

from __future__ import annotations

from collections.abc import Sequence

from locus.core.messages import Message, Role
from locus.errors import ModelError

__all__ = ["check_history"]


def check_history(messages: Sequence[Message]) -> None:
    """Raise `ModelError` unless every common provider would take these messages.

    A conversation begins with the user and ends with what is to be answered; each tool call has one result, directly
    after the message that made it; nothing said is empty.
    """
    spoken = [message for message in messages if message.role is not Role.SYSTEM]
    if not spoken:
        raise ModelError("the history holds no message to answer")
    if spoken[0].role is not Role.USER:
        raise ModelError(f"the history begins with a message of the {spoken[0].role.value}, not of the user")
    if messages[-1].role not in (Role.USER, Role.TOOL):
        raise ModelError(
            f"the history ends with a message of the {messages[-1].role.value}: there is nothing to answer"
        )
    waiting: dict[str, str] = {}
    made: set[str] = set()
    for place, message in enumerate(messages):
        if message.role is Role.TOOL:
            _take_result(message, place, waiting)
            continue
        if waiting:
            raise _unanswered(waiting, place)
        _check_content(message, place)
        _take_calls(message, place, waiting, made)
    if waiting:
        raise _unanswered(waiting, len(messages))


def _take_result(message: Message, place: int, waiting: dict[str, str]) -> None:
    if message.tool_call_id is None:
        raise ModelError(f"message {place} is a tool result without a tool_call_id")
    if message.tool_call_id not in waiting:
        raise ModelError(
            f"message {place} is a result for {message.tool_call_id!r}, which no assistant message directly before "
            "it asked for, or which has its result already"
        )
    if message.content is None:
        raise ModelError(f"message {place}, the result of {message.tool_call_id!r}, has no content")
    del waiting[message.tool_call_id]


def _take_calls(message: Message, place: int, waiting: dict[str, str], made: set[str]) -> None:
    if message.tool_calls and message.role is not Role.ASSISTANT:
        raise ModelError(
            f"message {place} of the {message.role.value} carries tool calls; only the assistant makes them"
        )
    for call in message.tool_calls:
        if not call.id or not call.name:
            raise ModelError(f"message {place} carries a tool call without an id or a name")
        if call.id in made:
            raise ModelError(f"message {place} uses the tool call id {call.id!r} again; an id stands for one call")
        made.add(call.id)
        waiting[call.id] = call.name


def _check_content(message: Message, place: int) -> None:
    empty = not message.content or (isinstance(message.content, str) and not message.content.strip())
    if empty and not message.tool_calls:
        raise ModelError(f"message {place} of the {message.role.value} is empty")


def _unanswered(waiting: dict[str, str], place: int) -> ModelError:
    calls = ", ".join(f"{name} ({call_id})" for call_id, name in waiting.items())
    return ModelError(f"before message {place} these tool calls have no result: {calls}")
