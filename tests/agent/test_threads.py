"""Turns by id, and what can be done with a thread besides running it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from locus.agent import Agent
from locus.core.events import TerminateEvent
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ConfigError, InputError
from locus.memory.backends import MemoryCheckpointer
from locus.memory.checkpointer import BaseCheckpointer
from locus.models.scripted import ScriptedModel
from locus.tools import ToolContext, tool
from tests.agent.play import RuleModel, answers, assert_valid, calls, collect, questions


@tool
def look() -> str:
    return "seen"


def agent_for(checkpointer: BaseCheckpointer, model: RuleModel | None = None) -> Agent:
    return Agent(model or RuleModel(), tools=[look], checkpointer=checkpointer)


async def test_the_same_turn_id_again_returns_the_recorded_answer(checkpointer: BaseCheckpointer) -> None:
    first = await agent_for(checkpointer).arun("use look", thread_id="t", turn_id="a")
    model = RuleModel()
    again = await agent_for(checkpointer, model).arun("use look", thread_id="t", turn_id="a")
    assert (again.message, again.stop_reason, again.turn_id) == (first.message, "complete", "a")
    assert model.requests == []
    await agent_for(checkpointer).arun("other", thread_id="t", turn_id="b")
    later = await collect(agent_for(checkpointer, model), "use look", thread_id="t", turn_id="a")
    assert [event.event_type for event in later] == ["terminate"]
    assert isinstance(later[0], TerminateEvent)
    assert later[0].final_message == first.message
    assert model.requests == []
    state = await agent_for(checkpointer).get_state("t")
    assert state is not None
    assert questions(state) == ["use look", "other"]


async def test_the_same_turn_id_again_goes_on_where_the_turn_stopped(checkpointer: BaseCheckpointer) -> None:
    for place in range(4):
        thread = f"t{place}"
        async with aclosing(agent_for(checkpointer).run("use look", thread_id=thread, turn_id="a")) as events:
            for _ in range(place + 1):
                await anext(events)
        result = await agent_for(checkpointer).arun("use look", thread_id=thread, turn_id="a")
        assert result.success
        assert questions(assert_valid(result.state)) == ["use look"]
        assert len(answers(result.state)) == 1


async def test_a_cancelled_run_settles_what_is_open_and_is_not_taken_up_again(checkpointer: BaseCheckpointer) -> None:
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> None:
        gate.set()
        await asyncio.sleep(30)

    agent = Agent(RuleModel(), tools=[wait, look], checkpointer=checkpointer, max_concurrency=1)
    assert agent.cancel("t") is False
    task = asyncio.create_task(agent.arun("use wait look", thread_id="t"))
    await gate.wait()
    assert agent.cancel("t") is True
    result = await task
    assert (result.stop_reason, result.success) == ("cancelled", False)
    state = assert_valid(await agent.get_state("t"))
    assert [one.error is not None for one in state.tool_executions] == [True, True]
    assert agent.cancel("t") is False
    follow = await agent.arun("next", thread_id="t")
    assert answers(follow.state) == ["answer to 'next': "]


async def test_a_model_that_thinks_can_be_cancelled(checkpointer: BaseCheckpointer) -> None:
    gate = asyncio.Event()

    class Slow(RuleModel):
        async def complete(self, messages, tools=None, **options):  # type: ignore[no-untyped-def]
            gate.set()
            await asyncio.sleep(30)

    agent = Agent(Slow(), checkpointer=checkpointer)
    task = asyncio.create_task(agent.arun("hm", thread_id="t"))
    await gate.wait()
    agent.cancel("t")
    assert (await task).stop_reason == "cancelled"
    follow = await agent_for(checkpointer).arun("next", thread_id="t")
    assert answers(follow.state) == ["answer to 'next': "]


async def test_history_is_newest_first_and_any_of_it_can_be_forked(checkpointer: BaseCheckpointer) -> None:
    agent = agent_for(checkpointer)
    await agent.arun("one", thread_id="t")
    await agent.arun("two", thread_id="t")
    history = await agent.get_state_history("t", limit=50)
    assert answers(history[0].state) == ["answer to 'one': ", "answer to 'two': "]
    early = next(one for one in history if len(one.state.messages) == 2)
    await agent.fork("t", "branch", early.checkpoint_id)
    result = await agent.arun("three", thread_id="branch")
    assert questions(result.state) == ["one", "three"]
    untouched = await agent.get_state("t")
    assert untouched is not None
    assert questions(untouched) == ["one", "two"]
    with pytest.raises(InputError, match="'branch' exists already"):
        await agent.fork("t", "branch")
    with pytest.raises(InputError, match="no checkpoint 'nope'"):
        await agent.fork("t", "other", "nope")
    with pytest.raises(InputError, match="thread 'none' has no checkpoint"):
        await agent.fork("none", "other")


async def test_spacing_checkpoints_changes_what_is_listed_and_not_what_is_durable() -> None:
    checkpointer = MemoryCheckpointer()
    listed: dict[int, int] = {}
    for every in (1, 2, 100):
        agent = Agent(RuleModel(), tools=[look], checkpointer=checkpointer, checkpoint_every_n_iterations=every)
        prompt = "use look then look then look look"
        async for event in agent.run(prompt, thread_id=f"t{every}"):
            state = await checkpointer.load(f"t{every}")
            assert state is not None
            if event.event_type == "think":
                assert any(message.tool_calls for message in state.messages)
        listed[every] = len(await checkpointer.list_checkpoints(f"t{every}", limit=99))
    assert listed == {1: 5, 2: 2, 100: 1}


async def test_an_agent_closes_the_checkpointer_it_opened(tmp_path: Path) -> None:
    async with Agent(RuleModel(), checkpointer=f"sqlite:///{tmp_path}/a.db") as agent:
        await agent.arun("hi", thread_id="t")
    assert await agent.get_state("t") is not None
    await agent.close()


async def test_a_fork_of_an_unfinished_turn_can_be_finished(checkpointer: BaseCheckpointer) -> None:
    agent = agent_for(checkpointer)
    async with aclosing(agent.run("use look", thread_id="t")) as events:
        await anext(events)
    await agent.fork("t", "branch")
    assert_valid((await agent.continue_turn("branch")).state)
    assert_valid((await agent.continue_turn("t")).state)


async def test_a_state_can_be_changed_by_hand(checkpointer: BaseCheckpointer) -> None:
    agent = agent_for(checkpointer)
    await agent.arun("one", thread_id="t")
    await agent.update_state("t", confidence=0.5)
    await agent.update_state("t", lambda state: state.with_metadata(colour="red"))
    state = await agent.get_state("t")
    assert state is not None
    assert (state.confidence, state.metadata["colour"]) == (0.5, "red")
    await agent.update_state("t", state.model_copy(update={"messages": state.messages[:1]}))
    result = await agent.arun("two", thread_id="t")
    assert questions(result.state) == ["one", "two"]
    with pytest.raises(InputError, match="no field 'confidenc'"):
        await agent.update_state("t", confidenc=1)
    await agent.update_state("new", agent_id="x")
    assert await agent.get_state("new") is not None


async def test_messages_added_by_hand_are_seen_by_the_next_turn(checkpointer: BaseCheckpointer) -> None:
    model = RuleModel()
    agent = agent_for(checkpointer, model)
    await checkpointer.save(AgentState(messages=(Message.user("hi"), Message.assistant("hello"))), "t")
    await agent.arun("one", thread_id="t")
    assert [message.text for message in model.requests[-1]] == ["hi", "hello", "one"]


def test_run_sync_works_again_and_again() -> None:
    agent = Agent(RuleModel(), tools=[look], checkpointer="memory://")
    first = agent.run_sync("use look", thread_id="t")
    second = agent.run_sync("more", thread_id="t")
    assert first.success
    assert questions(second.state) == ["use look", "more"]


async def test_run_sync_works_inside_a_running_loop(checkpointer: BaseCheckpointer) -> None:
    agent = agent_for(checkpointer)
    result = agent.run_sync("use look", thread_id="t")
    assert result.success
    state = await checkpointer.load("t")
    assert state is not None
    assert answers(state) == ["answer to 'use look': seen"]
    assert (await agent.arun("next", thread_id="t")).success


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


async def test_tools_see_the_context_of_the_caller() -> None:
    @tool
    def who() -> str:
        return tenant.get()

    tenant.set("acme")
    agent = Agent(RuleModel(), tools=[who])
    assert "acme" in (await agent.arun("use who")).message
    assert "acme" in agent.run_sync("use who").message


def test_a_run_in_one_thread_can_be_cancelled_from_another() -> None:
    gate = threading.Event()

    @tool
    def block() -> None:
        gate.set()
        time.sleep(0.3)

    agent = Agent(RuleModel(), tools=[block])

    def stop() -> None:
        gate.wait(5)
        agent.cancel("t")

    stopper = threading.Thread(target=stop)
    stopper.start()
    result = agent.run_sync("use block", thread_id="t")
    stopper.join()
    assert result.stop_reason == "cancelled"


async def test_what_needs_a_checkpointer_says_so() -> None:
    agent = Agent(RuleModel())
    with pytest.raises(ConfigError, match="get_state needs a checkpointer"):
        await agent.get_state("t")
    with pytest.raises(ConfigError, match="continue_turn needs a checkpointer"):
        agent.continue_turn("t")


@pytest.mark.parametrize("thread_id", ["", 7])
async def test_a_thread_id_is_a_text(checkpointer: BaseCheckpointer, thread_id: str) -> None:
    with pytest.raises(InputError, match="thread_id"):
        await agent_for(checkpointer).arun("hi", thread_id=thread_id)


async def test_a_fork_of_a_turn_that_is_over_is_over(checkpointer: BaseCheckpointer) -> None:
    model = ScriptedModel([calls("look"), "next answer"])
    agent = Agent(model, tools=[look], terminal_tools=["look"], checkpointer=checkpointer)
    assert (await agent.arun("one", thread_id="t")).stop_reason == "terminal_tool"
    await agent.fork("t", "newest")
    result = await agent.arun("two", thread_id="newest")
    assert (result.message, len(model.calls)) == ("next answer", 2)
    assert questions(result.state) == ["one", "two"]


async def test_a_fork_of_a_thread_that_waits_for_a_person_waits_too(checkpointer: BaseCheckpointer) -> None:
    @tool
    def sure(ctx: ToolContext) -> str:
        """Ask."""
        return f"said {ctx.interrupt('sure?')}"

    agent = Agent(RuleModel(), tools=[sure], checkpointer=checkpointer)
    await agent.arun("use sure", thread_id="t")
    [newest] = await agent.get_state_history("t", limit=1)
    await agent.fork("t", "branch")
    await agent.fork("t", "named", newest.checkpoint_id)
    for thread, answer in (("t", "yes"), ("branch", "no"), ("named", "maybe")):
        result = await agent.resume(answer, thread_id=thread)
        assert result.message == f"answer to 'use sure': said {answer}"
        assert_valid(result.state)


@pytest.mark.parametrize("moment", ["think", "tool_start"])
async def test_a_tool_does_not_start_after_the_run_was_cancelled(checkpointer: BaseCheckpointer, moment: str) -> None:
    started: list[str] = []

    @tool
    def mark() -> str:
        """Mark."""
        started.append("mark")
        return "marked"

    agent = Agent(RuleModel(), tools=[mark], checkpointer=checkpointer)
    async for event in agent.run("use mark", thread_id="t"):
        if event.event_type == moment:
            assert agent.cancel("t")
    state = assert_valid(await agent.get_state("t"))
    assert (started, "Not run" in str(state.tool_executions[0].error)) == ([], True)
