"""A tool asks a person; the thread waits, in any process, until somebody answers or goes on."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from locus.agent import Agent, UnknownOutcome
from locus.core.events import InterruptEvent
from locus.core.messages import Role
from locus.errors import ConfigError, InputError
from locus.memory.checkpointer import BaseCheckpointer
from locus.tools import Tool, ToolContext, tool
from tests.agent.play import RuleModel, answers, assert_valid, collect, kinds, questions


class Approval(BaseModel):
    approved: bool
    note: str = ""


class Desk:
    def __init__(self) -> None:
        self.runs: list[str] = []

    def tools(self) -> list[Tool[..., Any]]:
        @tool
        def pay(ctx: ToolContext) -> str:
            answer = ctx.interrupt({"pay": 100}, response_type=Approval)
            self.runs.append("pay")
            return f"paid={answer.approved} {answer.note}"

        @tool
        def look() -> str:
            self.runs.append("look")
            return "seen"

        @tool
        def twice(ctx: ToolContext) -> str:
            return f"{ctx.interrupt('first?')} {ctx.interrupt('second?')}"

        return [pay, look, twice]


def agent_for(checkpointer: BaseCheckpointer, desk: Desk, **options: Any) -> Agent:
    """A new object each time, as a new process would have."""
    return Agent(RuleModel(), tools=desk.tools(), checkpointer=checkpointer, reflexion=True, **options)


async def test_a_tool_that_asks_stops_the_run_until_it_is_answered(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    events = await collect(agent_for(checkpointer, desk), "use pay look", thread_id="t")
    assert kinds(events)[-2:] == ["interrupt", "terminate"]
    [asked] = [event for event in events if isinstance(event, InterruptEvent)]
    [question] = asked.interrupts
    assert asked.thread_id == "t"
    assert (question["tool_name"], question["payload"], question["kind"]) == ("pay", {"pay": 100}, "tool")
    assert question["response_schema"]["required"] == ["approved"]
    assert desk.runs == ["look"]

    result = await agent_for(checkpointer, desk).resume({"approved": True, "note": "ok"}, thread_id="t")
    assert result.message == "answer to 'use pay look': paid=True ok | seen"
    assert desk.runs == ["look", "pay"]
    assert result.metrics.tool_calls == 2
    assert result.confidence == pytest.approx(0.3)
    state = assert_valid(await agent_for(checkpointer, desk).get_state("t"))
    assert "locus.turn" not in state.metadata
    assert [m.name for m in state.messages if m.role is Role.TOOL] == ["pay", "look"]


async def test_an_answer_that_does_not_fit_is_asked_for_again(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    await agent_for(checkpointer, desk).arun("use pay", thread_id="t")
    result = await agent_for(checkpointer, desk).resume("maybe", thread_id="t")
    assert result.stop_reason == "interrupted"
    assert "Approval" in result.interrupts[0]["rejected"]
    result = await agent_for(checkpointer, desk).resume({"approved": False}, thread_id="t")
    assert "paid=False" in result.message
    assert desk.runs == ["pay"]


async def test_a_tool_may_ask_several_questions(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    await agent_for(checkpointer, desk).arun("use twice", thread_id="t")
    middle = await agent_for(checkpointer, desk).resume("one", thread_id="t")
    assert (middle.stop_reason, middle.interrupts[0]["payload"]) == ("interrupted", "second?")
    result = await agent_for(checkpointer, desk).resume("two", thread_id="t")
    assert result.message == "answer to 'use twice': one two"


async def test_several_open_questions_are_answered_by_call_id(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    first = await agent_for(checkpointer, desk).arun("use pay twice look", thread_id="t")
    pay, twice = (question["call_id"] for question in first.interrupts)
    with pytest.raises(InputError, match="2 questions are open"):
        await agent_for(checkpointer, desk).resume(True, thread_id="t")
    second = await agent_for(checkpointer, desk).resume({pay: {"approved": True}}, thread_id="t")
    assert [question["call_id"] for question in second.interrupts] == [twice]
    assert desk.runs == ["look", "pay"]
    await agent_for(checkpointer, desk).resume("a", thread_id="t")
    result = await agent_for(checkpointer, desk).resume({twice: "b"}, thread_id="t")
    assert result.message.endswith("paid=True  | a b | seen")
    assert desk.runs == ["look", "pay"]
    assert_valid(result.state)


async def test_a_user_who_goes_on_leaves_the_question_unanswered(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    await agent_for(checkpointer, desk).arun("use pay look", thread_id="t")
    result = await agent_for(checkpointer, desk).arun("never mind", thread_id="t")
    assert result.success
    state = assert_valid(result.state)
    assert questions(state) == ["use pay look", "never mind"]
    assert answers(state) == ["answer to 'never mind': "]
    assert any("Not answered" in m.text for m in state.messages)
    assert desk.runs == ["look"]
    with pytest.raises(InputError, match="does not wait for an answer"):
        await agent_for(checkpointer, desk).resume(True, thread_id="t")


async def test_continuing_a_turn_that_waits_asks_once_more(checkpointer: BaseCheckpointer) -> None:
    desk = Desk()
    first = await agent_for(checkpointer, desk).arun("use pay", thread_id="t")
    events = [event async for event in agent_for(checkpointer, desk).continue_turn("t")]
    assert kinds(events) == ["interrupt", "terminate"]
    assert isinstance(events[0], InterruptEvent)
    assert events[0].interrupts == first.interrupts
    assert desk.runs == []


async def test_a_run_killed_after_the_answer_does_not_run_the_tool_twice(checkpointer: BaseCheckpointer) -> None:
    runs = 0
    gate = asyncio.Event()

    @tool
    async def pay(ctx: ToolContext) -> str:
        nonlocal runs
        ctx.interrupt("sure?")
        runs += 1
        gate.set()
        await asyncio.sleep(30)
        return "paid"

    def agent() -> Agent:
        return Agent(RuleModel(), tools=[pay], checkpointer=checkpointer)

    async def answer() -> None:
        await agent().resume("yes", thread_id="t")

    await agent().arun("use pay", thread_id="t")
    task = asyncio.create_task(answer())
    await gate.wait()
    task.cancel()
    await asyncio.wait({task})
    result = await agent().continue_turn("t")
    assert "outcome unknown" in result.message
    assert runs == 1
    assert_valid(result.state)


@pytest.mark.parametrize(
    ("verdict", "text", "runs"),
    [
        (True, "the user confirms", 1),
        ({"happened": True, "result": "receipt 7"}, "receipt 7", 1),
        (False, "paid", 2),
        (None, "outcome unknown", 1),
    ],
)
async def test_a_person_can_be_asked_whether_a_call_happened(
    checkpointer: BaseCheckpointer, verdict: Any, text: str, runs: Literal[1, 2]
) -> None:
    count = 0
    gate = asyncio.Event()

    @tool
    async def pay() -> str:
        nonlocal count
        count += 1
        gate.set()
        await asyncio.sleep(30 if count == 1 else 0)
        return "paid"

    def agent() -> Agent:
        return Agent(RuleModel(), tools=[pay], checkpointer=checkpointer, on_unknown_outcome="ask")

    task = asyncio.create_task(agent().arun("use pay", thread_id="t"))
    await gate.wait()
    task.cancel()
    await asyncio.wait({task})
    asked = await agent().arun("new question", thread_id="t")
    assert asked.stop_reason == "interrupted"
    assert questions(asked.state) == ["use pay"]
    payload = UnknownOutcome.model_validate(asked.interrupts[0]["payload"])
    assert (payload.tool_name, asked.interrupts[0]["kind"]) == ("pay", "unknown_outcome")
    with pytest.raises(InputError, match="True, False, None"):
        await agent().resume("dunno", thread_id="t")
    result = await agent().resume(verdict, thread_id="t")
    assert text in result.message
    assert count == runs
    assert_valid(result.state)


async def test_resume_needs_a_checkpointer_and_a_thread_that_waits(checkpointer: BaseCheckpointer) -> None:
    with pytest.raises(ConfigError, match="resume needs a checkpointer"):
        Agent(RuleModel()).resume("x", thread_id="t")
    with pytest.raises(InputError, match="'t' does not wait"):
        await Agent(RuleModel(), checkpointer=checkpointer).resume("x", thread_id="t")
    with pytest.raises(InputError, match="'t' has no turn"):
        await Agent(RuleModel(), checkpointer=checkpointer).continue_turn("t")
