"""Reading a thread's messages: which calls are open, where a turn began, what a model may be sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from locus._ids import new_id
from locus.core.messages import Message, Role, ToolCall
from locus.core.state import AgentState
from locus.memory.run import Phase, Turn

__all__ = [
    "TURN_KEY",
    "answered",
    "closed",
    "derive_turn",
    "is_empty",
    "last_reply",
    "open_calls",
    "repeats",
    "turn_start",
    "with_results",
]

TURN_KEY = "turn_id"
"""Metadata of a user's message that began a turn."""

NO_RESULT = "Error: no result of this call is on record."


def turn_start(messages: Sequence[Message]) -> int:
    """The place of the user's message that began the newest turn; the end when there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.USER:
            return index
    return len(messages)


def last_reply(messages: Sequence[Message]) -> int | None:
    """The place of the newest turn's last reply with tool calls, if nothing but their results follows it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role is Role.ASSISTANT and message.tool_calls:
            return index
        if message.role is not Role.TOOL:
            return None
    return None


def answered(messages: Sequence[Message]) -> dict[str, Message]:
    """The results that follow the last reply, by call id."""
    reply = last_reply(messages)
    if reply is None:
        return {}
    return {m.tool_call_id: m for m in messages[reply + 1 :] if m.tool_call_id is not None}


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last reply that have no result in the messages."""
    reply = last_reply(messages)
    if reply is None:
        return ()
    known = answered(messages)
    return tuple(call for call in messages[reply].tool_calls if call.id not in known)


def with_results(messages: Sequence[Message], results: Iterable[Message]) -> tuple[Message, ...]:
    """The messages with more results of the last reply, in the order of its calls."""
    reply = last_reply(messages)
    assert reply is not None, "results need a reply that asked for them"
    known = answered(messages) | {str(result.tool_call_id): result for result in results}
    ordered = [known[call.id] for call in messages[reply].tool_calls if call.id in known]
    return (*messages[: reply + 1], *ordered)


def derive_turn(state: AgentState, turn_id: str | None = None) -> Turn:
    """Where a turn stands, as far as the messages alone can tell."""
    messages = state.messages
    start = turn_start(messages)
    if start < len(messages):
        turn_id = turn_id or messages[start].metadata.get(TURN_KEY)
    replies = sum(1 for message in messages[start:] if message.role is Role.ASSISTANT)
    base = max(0, state.iteration - replies)
    return Turn(turn_id=turn_id or new_id("turn_"), phase=_phase(messages), base_iteration=base)


def _phase(messages: Sequence[Message]) -> Phase:
    if not messages:
        return "done"
    if open_calls(messages):
        return "replied"
    last = messages[-1].role
    if last is Role.USER:
        return "asked"
    return "ran" if last is Role.TOOL else "done"


def closed(messages: Sequence[Message]) -> list[Message]:
    """The messages with every call followed by its result, no result without its call and nothing empty.

    A thread of Locus is so already; one that was edited, or written by other software, is made so for sending only.
    """
    result: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role is Role.TOOL:
            if waiting.pop(message.tool_call_id or "", None) is not None:
                result.append(message)
            continue
        result.extend(_missing(waiting))
        waiting = {call.id: call for call in message.tool_calls}
        if is_empty(message):
            continue
        result.append(message)
    result.extend(_missing(waiting))
    return result


def is_empty(message: Message) -> bool:
    """Whether a message says nothing at all. Providers refuse a history that holds one."""
    said = message.content
    return not message.tool_calls and (not said.strip() if isinstance(said, str) else not said)


def _missing(waiting: dict[str, ToolCall]) -> Iterator[Message]:
    for call in waiting.values():
        yield Message.tool(NO_RESULT, call.id, name=call.name)


def repeats(messages: Sequence[Message]) -> int:
    """How many replies in a row, up to the newest of this turn, ask for the same calls with the same arguments."""
    count = 0
    wanted: str | None = None
    for message in reversed(messages[turn_start(messages) :]):
        if message.role is not Role.ASSISTANT:
            continue
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        asked = json.dumps(sorted(calls, key=repr), sort_keys=True, default=str)
        if wanted not in (None, asked):
            break
        wanted, count = asked, count + 1
    return count
