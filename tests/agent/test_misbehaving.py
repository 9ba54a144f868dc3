"""Models, memories and options that break the rules: the turn ends well, and the thread stays usable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from locus.agent import Agent
from locus.core.messages import Message, ToolCall
from locus.core.state import AgentState
from locus.errors import ConfigError
from locus.memory.backends import MemoryCheckpointer
from locus.memory.checkpointer import BaseCheckpointer
from locus.models.base import ModelChunk, ModelResponse
from locus.models.scripted import ScriptedModel
from locus.tools import tool
from tests.agent.play import assert_valid


@tool
def weigh(grams: float = 1.0) -> str:
    """Weigh."""
    return f"{grams} g"


class _Streams:
    """A streaming model whose stream is given."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks

    async def complete(self, messages: Sequence[Message], tools: Any = None, **options: Any) -> ModelResponse:
        raise AssertionError("the stream is to be used")

    async def stream(self, messages: Sequence[Message], tools: Any = None, **options: Any) -> AsyncIterator[ModelChunk]:
        for chunk in self.chunks:
            yield chunk


class _Refuses(_Streams):
    """A streaming model that fails before there is a stream."""

    def stream(self, messages: Sequence[Message], tools: Any = None, **options: Any) -> AsyncIterator[ModelChunk]:
        raise ConnectionError("no route")


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (_Streams(ModelChunk(response=ModelResponse(message=Message.user("hm")))), "message of the user"),
        (_Streams("text"), "made of ModelChunk, not of str"),
        (_Refuses(), "ConnectionError: no route"),
    ],
)
async def test_a_stream_that_breaks_the_rules_is_an_error_of_the_turn(model: _Streams, error: str) -> None:
    result = await Agent(model, stream=True).arun("go")
    assert result.stop_reason == "error"
    assert error in str(result.error)


class _Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def complete(self, messages: Sequence[Message], tools: Any = None, **options: Any) -> Any:
        return self.answer


class _LooksLikeAResponse:
    message = Message.assistant("hello")
    usage = None


@pytest.mark.parametrize("answer", [None, "hello", _LooksLikeAResponse()])
async def test_an_answer_that_is_no_response_is_an_error_of_the_turn(answer: object) -> None:
    result = await Agent(_Answers(answer)).arun("go")
    assert result.stop_reason == "error"
    assert f"not with {type(answer).__name__}" in str(result.error)


async def test_an_answer_that_cannot_be_stored_does_not_block_the_thread(checkpointer: BaseCheckpointer) -> None:
    bad = Message.assistant(tool_calls=[ToolCall(name="weigh", arguments={"grams": float("nan")})])
    agent = Agent(ScriptedModel([bad, bad, "fine"]), tools=[weigh], checkpointer=checkpointer)
    first = await agent.arun("one", thread_id="t")
    assert (first.stop_reason, "grams is nan" in str(first.error)) == ("error", True)
    assert (await agent.arun("two", thread_id="t")).message == "fine"


async def test_a_call_without_a_name_does_not_spoil_the_history(checkpointer: BaseCheckpointer) -> None:
    reply = Message.assistant(tool_calls=[ToolCall(name=""), ToolCall(name="weigh")])
    agent = Agent(ScriptedModel([reply, "fine", "still fine"]), tools=[weigh], checkpointer=checkpointer)
    assert (await agent.arun("one", thread_id="t")).message == "fine"
    again = await agent.arun("two", thread_id="t")
    assert again.message == "still fine"
    assert_valid(again.state)


class _BrokenMemory:
    async def prepare(self, state: AgentState, thread_id: str | None) -> str:
        raise ConnectionError("the store is down")

    async def finish(self, state: AgentState, new_messages: Sequence[Message], thread_id: str | None) -> None:
        raise ConnectionError("the store is down")


async def test_a_memory_that_fails_is_reported_and_fails_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    result = await Agent(ScriptedModel(["hello"]), memory_manager=_BrokenMemory()).arun("go", thread_id="t")
    assert (result.message, result.success) == ("hello", True)
    assert [record.getMessage() for record in caplog.records] == [
        "nothing was recalled for thread 't': ConnectionError: the store is down",
        "nothing was learned from thread 't': ConnectionError: the store is down",
    ]


async def test_a_cancel_while_the_answer_is_being_mended_ends_as_cancelled() -> None:
    class Answer(BaseModel):
        number: int

    async def slow(messages: Sequence[Message], tools: object) -> str:
        agent.cancel("t")
        await asyncio.sleep(30)
        return "late"

    agent = Agent(ScriptedModel(["no number", slow]), output_schema=Answer, checkpointer=MemoryCheckpointer())
    result = await agent.arun("go", thread_id="t")
    assert (result.stop_reason, result.error) == ("cancelled", None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"config": {"max_iterations": 3}}, "config must be an AgentConfig, not dict"),
        ({"conversation_manager": 5}, "a conversation_manager needs a method"),
        ({"tools": [max]}, "cannot be a tool"),
        ({"tools": ["weigh"]}, "'weigh' cannot be a tool"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_agent_is_made(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Agent(ScriptedModel([]), **options)


async def test_results_too_large_for_a_record_do_not_block_the_thread(checkpointer: BaseCheckpointer) -> None:
    @tool
    def dump(size: int) -> str:
        """Dump."""
        return "x" * size

    sizes = (2_000_000, 2_000_000, 5_000_000, 10)
    reply = Message.assistant(tool_calls=[ToolCall(name="dump", arguments={"size": size}) for size in sizes])
    model = ScriptedModel([reply, "fine", "still fine"])
    agent = Agent(model, tools=[dump], checkpointer=checkpointer, tool_execution="sequential")
    first = await agent.arun("one", thread_id="t")
    assert [len(one.result or "") for one in first.tool_executions] == [2_000_000, 0, 0, 10]
    assert "the tool ran, but its result cannot be kept" in str(first.tool_executions[1].error)
    assert (await agent.arun("two", thread_id="t")).message == "still fine"
