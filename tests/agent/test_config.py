"""The options of an agent that the other tests do not reach."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from locus.agent import Agent
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ConfigError
from locus.memory.backends import MemoryCheckpointer
from locus.models import ScriptedModel


class _Remembers:
    """A memory that recalls one thing and keeps what it was told."""

    def __init__(self) -> None:
        self.learned: list[str] = []

    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        return "The user's name is Ada."

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        self.learned += [message.text for message in new_messages]


async def test_a_memory_is_asked_before_the_model_and_told_after_the_turn() -> None:
    memory, model = _Remembers(), ScriptedModel(["Hello Ada."])
    result = await Agent(model=model, memory_manager=memory).arun("Hi")
    assert "The user's name is Ada." in model.calls[0][0].text
    assert memory.learned == ["Hi", "Hello Ada."]
    assert all("Ada" not in message.text for message in result.messages[:1])


def test_a_memory_manager_without_the_two_methods_is_refused() -> None:
    with pytest.raises(ConfigError, match="SessionMemory"):
        Agent(model=ScriptedModel([]), memory_manager=object())


async def test_a_memory_learns_from_a_turn_that_a_later_run_finished() -> None:
    memory, model = _Remembers(), ScriptedModel([ConnectionError("no route"), "One.", "Two."])
    agent = Agent(model, memory_manager=memory, checkpointer=MemoryCheckpointer())
    assert (await agent.arun("First?", thread_id="t")).stop_reason == "error"
    assert (await agent.arun("Second?", thread_id="t")).message == "Two."
    assert memory.learned == ["First?", "One.", "Second?", "Two."]
