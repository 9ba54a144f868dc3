"""Small parts the tests of turns are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from locus.agent import Agent
from locus.core.events import Event
from locus.core.messages import Message, Role, ToolCall
from locus.core.state import AgentState
from locus.models.base import ModelResponse, ToolSchema, Usage
from locus.models.history import check_history


def calls(*names: str, **arguments: Any) -> Message:
    """A reply that asks for tools, all with the same arguments."""
    return Message.assistant(tool_calls=[ToolCall(name=name, arguments=arguments) for name in names])


class RuleModel:
    """Calls each tool the user's last message names (`use a b`), once, then says what came back.

    It goes by the messages alone, so it answers the same however often a turn is interrupted.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[Message, ...]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema] | None = None, **options: Any
    ) -> ModelResponse:
        check_history(messages)
        self.requests.append(tuple(messages))
        start = max(i for i, m in enumerate(messages) if m.role is Role.USER)
        said = messages[start:]
        wanted = said[0].text.removeprefix("use ").split(" then ") if said[0].text.startswith("use ") else []
        replies = [m for m in said if m.tool_calls]
        usage = Usage(prompt_tokens=10, completion_tokens=5)
        if len(replies) < len(wanted):
            return ModelResponse(message=calls(*wanted[len(replies)].split()), usage=usage)
        results = " | ".join(m.text for m in said if m.role is Role.TOOL)
        return ModelResponse(message=Message.assistant(f"answer to {said[0].text!r}: {results}"), usage=usage)


async def collect(agent: Agent, prompt: str, **options: Any) -> list[Event]:
    return [event async for event in agent.run(prompt, **options)]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.event_type for event in events]


def assert_valid(state: AgentState | None) -> AgentState:
    """The thread could be sent to a provider with one more question."""
    assert state is not None
    check_history([*state.messages, Message.user("next?")])
    ids = [call.id for message in state.messages for call in message.tool_calls]
    assert len(ids) == len(set(ids))
    keys = [call.idempotency_key for message in state.messages for call in message.tool_calls]
    assert None not in keys
    assert len(keys) == len(set(keys))
    executed = [one.tool_call_id for one in state.tool_executions]
    assert sorted(executed) == sorted(ids)
    return state


def questions(state: AgentState) -> list[str]:
    return [message.text for message in state.messages if message.role is Role.USER]


def answers(state: AgentState) -> list[str]:
    return [m.text for m in state.messages if m.role is Role.ASSISTANT and not m.tool_calls]
