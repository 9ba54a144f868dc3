"""What a turn does when nothing goes wrong, and when tools or the model do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from locus.agent import Agent, AgentConfig
from locus.core.events import TerminateEvent
from locus.core.messages import Message, Role, ToolCall
from locus.errors import ConfigError, InputError
from locus.memory.checkpointer import BaseCheckpointer
from locus.models.scripted import ScriptedModel
from locus.tools import ToolContext, tool
from tests.agent.play import RuleModel, answers, assert_valid, calls, collect, kinds, questions


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken pipe")


async def test_a_turn_reports_what_it_does_in_order(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], checkpointer=checkpointer, reflexion=True)
    events = await collect(agent, "use look", thread_id="t")
    assert kinds(events) == ["think", "tool_start", "tool_complete", "reflect", "think", "terminate"]
    end = events[-1]
    assert isinstance(end, TerminateEvent)
    assert (end.reason, end.iterations_used, end.total_tool_calls) == ("complete", 2, 1)
    assert end.final_message == "answer to 'use look': seen"
    assert end.usage == {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    assert end.final_confidence == pytest.approx(0.15)


async def test_the_final_state_is_on_record_before_terminate_is_seen(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], checkpointer=checkpointer)
    async for event in agent.run("use look", thread_id="t"):
        if event.event_type == "terminate":
            state = assert_valid(await checkpointer.load("t"))
            assert answers(state) == ["answer to 'use look': seen"]
            again = await agent.arun("from inside the loop body", thread_id="t")
            assert again.success


async def test_a_thread_is_cumulative_and_limits_are_per_turn(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], checkpointer=checkpointer, reflexion=True, max_iterations=2, agent_id="i")
    first = await agent.arun("use look", thread_id="t")
    second = await agent.arun("use look", thread_id="t")
    assert first.success
    assert second.success
    assert (second.metrics.iterations, second.metrics.tool_calls) == (2, 1)
    state = assert_valid(await agent.get_state("t"))
    assert (state.iteration, state.tool_history, state.agent_id) == (4, ("look", "look"), "i")
    assert state.confidence == pytest.approx(0.2775)
    assert state.confidence > 0.25
    assert state.confidence_history == pytest.approx((0.15, 0.2775))


async def test_two_threads_know_nothing_of_each_other(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), checkpointer=checkpointer)
    await asyncio.gather(agent.arun("alice", thread_id="a"), agent.arun("bob", thread_id="b"))
    a, b = await agent.get_state("a"), await agent.get_state("b")
    assert a is not None
    assert b is not None
    assert (questions(a), questions(b)) == (["alice"], ["bob"])


async def test_a_tool_that_raises_is_told_to_the_model(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[fail], checkpointer=checkpointer, reflexion=True)
    result = await agent.arun("use fail", thread_id="t")
    assert result.success
    assert "Error: ValueError: broken pipe" in result.message
    assert (result.metrics.tool_calls, result.metrics.tool_errors) == (1, 1)
    assert result.confidence == 0.0
    assert_valid(await checkpointer.load("t"))


async def test_bad_arguments_and_unknown_tools_are_told_to_the_model(checkpointer: BaseCheckpointer) -> None:
    @tool
    def need(x: int) -> int:
        return x

    agent = Agent(RuleModel(), tools=[need], checkpointer=checkpointer)
    result = await agent.arun("use need nedd", thread_id="t")
    assert "Invalid arguments: x: Field required" in result.message
    assert "no tool named 'nedd'. Did you mean 'need'?" in result.message


async def test_a_failing_model_leaves_the_turn_open_and_the_next_run_asks_again(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(ScriptedModel([RuntimeError("503")]), checkpointer=checkpointer)
    failed = await agent.arun("hello", thread_id="t")
    assert (failed.success, failed.stop_reason, failed.error) == (False, "error", "RuntimeError: 503")
    state = await agent.get_state("t")
    assert state is not None
    assert (questions(state), state.errors) == (["hello"], ("RuntimeError: 503",))
    healthy = Agent(RuleModel(), checkpointer=checkpointer)
    result = await healthy.arun("and?", thread_id="t")
    assert answers(result.state) == ["answer to 'hello': ", "answer to 'and?': "]


async def test_a_turn_that_cannot_be_finished_does_not_block_the_thread(checkpointer: BaseCheckpointer) -> None:
    model = ScriptedModel([RuntimeError("1"), RuntimeError("2"), "fine"])
    agent = Agent(model, checkpointer=checkpointer)
    await agent.arun("poison", thread_id="t")
    result = await agent.arun("good", thread_id="t")
    assert (result.success, result.message) == (True, "fine")


async def test_an_empty_answer_is_not_stored(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(ScriptedModel([Message.assistant(""), "later"]), checkpointer=checkpointer)
    result = await agent.arun("hi", thread_id="t")
    assert (result.stop_reason, result.message) == ("complete", "")
    assert (await agent.arun("again", thread_id="t")).message == "later"
    assert_valid(await checkpointer.load("t"))


async def test_call_ids_are_made_unique_within_the_thread(checkpointer: BaseCheckpointer) -> None:
    def reply() -> Message:
        return Message.assistant(tool_calls=[ToolCall(id="1", name="look"), ToolCall(id="1", name="look")])

    agent = Agent(ScriptedModel([reply(), reply(), "done"]), tools=[look], checkpointer=checkpointer)
    result = await agent.arun("go", thread_id="t")
    assert result.success
    assert_valid(result.state)


@pytest.mark.parametrize("prompt", ["", "  ", [], Message.assistant("x"), 7])
async def test_a_prompt_that_is_none_is_refused(prompt: Any) -> None:
    with pytest.raises(InputError):
        await Agent(RuleModel()).arun(prompt)


async def test_without_a_thread_nothing_is_kept(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], checkpointer=checkpointer)
    result = await agent.arun("use look")
    assert (result.success, result.thread_id) == (True, None)
    alone = await Agent(RuleModel(), tools=[look]).arun("use look", thread_id="t")
    assert alone.success


async def test_limits_end_a_turn_with_their_reason(checkpointer: BaseCheckpointer) -> None:
    def agent(**options: Any) -> Agent:
        replies = [calls("look", n=i) for i in range(9)]
        return Agent(ScriptedModel(replies), tools=[note], checkpointer=checkpointer, **options)

    @tool(name="look")
    def note(n: int) -> str:
        return "noted"

    limits: list[tuple[str, str, dict[str, Any]]] = [
        ("1", "max_iterations", {"max_iterations": 3}),
        ("2", "terminal_tool", {"terminal_tools": {"look"}}),
        ("3", "confidence_met", {"reflexion": True, "confidence_target": 0.3}),
        ("4", "time_budget", {"time_budget_seconds": 1e-9}),
    ]
    for thread, reason, options in limits:
        result = await agent(**options).arun("go", thread_id=thread)
        assert (thread, result.stop_reason) == (thread, reason)
        state = assert_valid(await checkpointer.load(thread))
        follow = await Agent(RuleModel(), checkpointer=checkpointer).arun("next", thread_id=thread)
        assert follow.state.iteration == state.iteration + 1


async def test_a_terminal_tool_gives_the_answer(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], terminal_tools={"look"}, checkpointer=checkpointer)
    result = await agent.arun("use look", thread_id="t")
    assert (result.success, result.message) == (True, "seen")


async def test_a_token_budget_ends_a_turn(checkpointer: BaseCheckpointer) -> None:
    agent = Agent(RuleModel(), tools=[look], token_budget=15, checkpointer=checkpointer)
    assert (await agent.arun("use look then look", thread_id="t")).stop_reason == "token_budget"


async def test_the_same_call_over_and_over_is_a_loop(checkpointer: BaseCheckpointer) -> None:
    model = ScriptedModel([calls("look") for _ in range(9)])
    agent = Agent(model, tools=[look], tool_loop_limit=3, reflexion=True, checkpointer=checkpointer)
    result = await agent.arun("go", thread_id="t")
    assert (result.stop_reason, result.success, len(model.calls)) == ("tool_loop", False, 3)
    assert result.confidence == pytest.approx(0.2775 - 0.15)


async def test_tools_of_a_reply_run_at_once_and_their_results_keep_the_order_of_the_calls() -> None:
    running, most = 0, 0

    @tool
    async def slow(ctx: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02 if most == 1 else 0.01)
        running -= 1
        return ctx.tool_call_id

    async def results(**options: Any) -> list[str]:
        model = ScriptedModel([calls(*["slow"] * 6), "done"])
        result = await Agent(model, tools=[slow], **options).arun("go")
        reply = next(m for m in result.messages if m.tool_calls)
        texts = [m.text for m in result.messages if m.role is Role.TOOL]
        assert texts == [call.id for call in reply.tool_calls]
        return texts

    modes: list[tuple[dict[str, Any], int]] = [
        ({}, 6),
        ({"max_concurrency": 2}, 2),
        ({"tool_execution": "sequential"}, 1),
    ]
    for options, expected in modes:
        running, most = 0, 0
        await results(**options)
        assert most == expected


async def test_a_tool_that_takes_too_long_is_told_to_the_model() -> None:
    @tool(timeout=0.05)
    async def patient() -> None:
        await asyncio.sleep(30)

    @tool
    def stubborn() -> None:
        time.sleep(0.5)

    began = time.monotonic()
    result = await Agent(RuleModel(), tools=[patient, stubborn], tool_timeout=0.1).arun("use patient stubborn")
    assert "timed out after 0.05 s" in result.message
    assert "timed out after 0.1 s" in result.message
    assert time.monotonic() - began < 0.45


async def test_a_tool_that_cancels_itself_is_an_error_of_that_tool_only() -> None:
    @tool
    async def sulk() -> None:
        raise asyncio.CancelledError

    result = await Agent(RuleModel(), tools=[sulk, look]).arun("use sulk look")
    assert result.success
    assert "the tool cancelled itself" in result.message
    assert "seen" in result.message


async def test_the_system_prompt_is_sent_and_never_stored(checkpointer: BaseCheckpointer) -> None:
    for prompt in ("be kind", lambda: "be kind", lambda state: f"be kind to {state.agent_id}"):
        model = RuleModel()
        agent = Agent(model, system_prompt=prompt, agent_id="me", checkpointer=checkpointer)
        result = await agent.arun("hi", thread_id="t")
        assert model.requests[-1][0].text.startswith("be kind")
        assert all(message.role is not Role.SYSTEM for message in result.messages)


async def test_model_options_are_passed_on() -> None:
    seen: dict[str, Any] = {}

    class Recording(RuleModel):
        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            seen.update(options, tools=tools)
            return await super().complete(messages, tools)

    agent = Agent(Recording(), tools=[look], temperature=0.5, max_tokens=7, model_options={"seed": 1})
    await agent.arun("hi")
    [schema] = seen.pop("tools")
    assert seen == {"temperature": 0.5, "max_tokens": 7, "seed": 1}
    assert (schema["name"], schema["description"]) == ("look", "Look.")
    assert schema["parameters"]["properties"] == {}


async def test_streaming_gives_the_answer_in_pieces() -> None:
    agent = Agent(ScriptedModel([calls("look"), "one two three"]), tools=[look], stream=True)
    events = await collect(agent, "go")
    pieces = [e.content for e in events if e.event_type == "model_chunk"]  # type: ignore[attr-defined]
    assert "".join(pieces) == "one two three"
    assert len([piece for piece in pieces if piece]) == 3
    assert isinstance(events[-1], TerminateEvent)
    assert events[-1].final_message == "one two three"


def test_unknown_options_are_refused_with_near_misses() -> None:
    with pytest.raises(ConfigError, match="no option 'tool'; did you mean 'tools'"):
        AgentConfig(tool=[])  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no option 'max_iteration'; did you mean 'max_iterations'"):
        Agent(RuleModel(), max_iteration=3)
    with pytest.raises(ConfigError, match="max_iterations=0"):
        Agent(RuleModel(), max_iterations=0)
    with pytest.raises(ConfigError, match="terminal_tools names 'gone'"):
        Agent(RuleModel(), terminal_tools={"gone"})
    with pytest.raises(ConfigError, match="BaseCheckpointer or a URL"):
        Agent(RuleModel(), checkpointer=object())


async def test_a_config_object_carries_options_and_keywords_go_over_it(checkpointer: BaseCheckpointer) -> None:
    config = AgentConfig(model=RuleModel(), tools=(look,), max_iterations=1)
    assert (await Agent(config=config, checkpointer=checkpointer).arun("use look")).stop_reason == "max_iterations"
    assert (await Agent(config=config, max_iterations=2).arun("use look")).stop_reason == "complete"


async def test_metadata_reaches_the_state_and_the_tools(checkpointer: BaseCheckpointer) -> None:
    @tool
    def who(ctx: ToolContext) -> str:
        return str(ctx.metadata["user"])

    agent = Agent(RuleModel(), tools=[who], checkpointer=checkpointer, metadata={"app": "x"})
    result = await agent.arun("use who", thread_id="t", metadata={"user": "ann"})
    assert "ann" in result.message
    assert result.state.metadata == {"app": "x", "user": "ann"}
