"""What the model sees of a long thread, answers that are objects, and hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from locus.agent import Agent, Hook, SlidingWindow, Summarizing
from locus.core.messages import Message, Role, ToolCall
from locus.errors import ConfigError, ToolError
from locus.memory.checkpointer import BaseCheckpointer
from locus.models.history import check_history
from locus.models.scripted import ScriptedModel
from locus.tools import tool
from tests.agent.play import RuleModel, calls, collect, kinds


@tool
def look() -> str:
    return "seen"


def thread(turns: int, rounds: int, width: int) -> list[Message]:
    """Turns of several rounds of tools each, without the last answer."""
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(Message.user(f"q{turn}"))
        for around in range(rounds):
            made = [ToolCall(id=f"{turn}.{around}.{i}", name="look") for i in range(width)]
            messages.append(Message.assistant(tool_calls=made))
            messages += [Message.tool("seen", call.id) for call in made]
        if turn < turns - 1:
            messages.append(Message.assistant(f"a{turn}"))
    return messages


@pytest.mark.parametrize("size", range(1, 30))
@pytest.mark.parametrize(("turns", "rounds", "width"), [(1, 6, 1), (3, 2, 3), (6, 0, 1), (2, 1, 12), (4, 3, 2)])
async def test_a_window_is_always_a_history_that_providers_accept(
    size: int, turns: int, rounds: int, width: int
) -> None:
    messages = thread(turns, rounds, width)
    for end in range(1, len(messages) + 1):
        if messages[end - 1].role is Role.ASSISTANT or (end < len(messages) and messages[end].role is Role.TOOL):
            continue
        part = messages[:end]
        seen = await SlidingWindow(size).view(part)
        check_history(seen)
        assert seen[-1] is part[-1]
        assert len(seen) <= max(size, width + 2)
        summed = await Summarizing(lambda head: "short", max_messages=size + 1, keep_last=size).view(part)
        check_history(summed)
        assert summed[-1] is part[-1]


async def test_a_window_changes_what_is_sent_and_not_what_is_stored(checkpointer: BaseCheckpointer) -> None:
    model = RuleModel()
    agent = Agent(model, checkpointer=checkpointer, conversation_manager=SlidingWindow(3))
    for turn in range(5):
        await agent.arun(f"turn {turn}", thread_id="t")
    assert [message.text for message in model.requests[-1]][-1] == "turn 4"
    assert len(model.requests[-1]) == 3
    state = await agent.get_state("t")
    assert state is not None
    assert len(state.messages) == 10


async def test_old_messages_are_summed_up_once() -> None:
    asked: list[int] = []

    def short(head: Sequence[Message]) -> str:
        asked.append(len(head))
        return f"{len(head)} messages before"

    manager = Summarizing(short, max_messages=6, keep_last=2)
    messages: list[Message] = []
    for turn in range(12):
        messages += [Message.user(f"q{turn}"), Message.assistant(f"a{turn}")]
        seen = await manager.view([*messages, Message.user("now")])
        assert len(seen) <= 8
        if len(messages) >= 6:
            assert seen[0].role is Role.SYSTEM
            assert seen[0].text.endswith("messages before")
            assert int(seen[0].text.split()[-3]) + len(seen) - 1 == len(messages) + 1
    assert len(asked) == len(set(asked)) <= 6


async def test_a_model_can_sum_up_and_a_failing_summary_costs_only_itself() -> None:
    messages = [*thread(8, 0, 1)]
    seen = await Summarizing(ScriptedModel(["they talked"]), max_messages=6, keep_last=2).view(messages)
    assert seen[0].text == "Summary of the conversation so far:\nthey talked"
    seen = await Summarizing(ScriptedModel([RuntimeError("down")]), max_messages=6, keep_last=2).view(messages)
    assert seen[0].role is Role.USER
    with pytest.raises(ConfigError, match="keep_last=6 must be less"):
        Summarizing(ScriptedModel([]), max_messages=6, keep_last=6)


class Weather(BaseModel):
    city: str
    degrees: int


async def test_an_answer_can_be_an_object(checkpointer: BaseCheckpointer) -> None:
    model = ScriptedModel([calls("look"), 'Here:\n```json\n{"city": "Oslo", "degrees": -3}\n```'])
    agent = Agent(model, tools=[look], output_schema=Weather, checkpointer=checkpointer)
    result = await agent.arun("go", thread_id="t", turn_id="a")
    assert result.parsed == Weather(city="Oslo", degrees=-3)
    assert '"degrees"' in model.calls[0][0].text
    assert (await agent.arun("go", thread_id="t", turn_id="a")).parsed == Weather(city="Oslo", degrees=-3)


async def test_an_answer_that_does_not_fit_is_corrected_once(checkpointer: BaseCheckpointer) -> None:
    model = ScriptedModel(["cold", '{"city": "Oslo", "degrees": 1}', "cold", "still cold"])
    agent = Agent(model, output_schema=Weather, checkpointer=checkpointer)
    result = await agent.arun("go", thread_id="t")
    assert (result.success, result.parsed) == (True, Weather(city="Oslo", degrees=1))
    assert "does not fit" in model.calls[1][-1].text
    assert [message.text for message in result.messages] == ["go", '{"city": "Oslo", "degrees": 1}']
    failed = await agent.arun("again", thread_id="t")
    assert (failed.success, failed.stop_reason, failed.parsed) == (False, "error", None)
    assert "Weather" in (failed.error or "")


class Recorder(Hook):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_model(self, state: Any, messages: Sequence[Message]) -> Sequence[Message]:
        self.seen.append("before_model")
        return [Message.system("added"), *messages]

    async def after_model(self, state: Any, response: Any) -> None:  # type: ignore[override]
        self.seen.append("after_model")

    def before_tool(self, call: Any, context: Any) -> None:
        self.seen.append("before_tool")

    def after_tool(self, call: Any, execution: Any) -> None:
        self.seen.append(f"after_tool {execution.result}")

    def on_turn_end(self, result: Any) -> None:
        self.seen.append(f"on_turn_end {result.stop_reason}")


class EventsOnly:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_event(self, event: Any) -> None:
        self.seen.append(event.event_type)


async def test_hooks_are_called_at_each_point(checkpointer: BaseCheckpointer) -> None:
    recorder, events, model = Recorder(), EventsOnly(), RuleModel()
    agent = Agent(model, tools=[look], hooks=[recorder, events], checkpointer=checkpointer)
    told = await collect(agent, "use look", thread_id="t")
    asked = ["before_model", "after_model"]
    assert recorder.seen == [*asked, "before_tool", "after_tool seen", *asked, "on_turn_end complete"]
    assert events.seen == kinds(told)
    assert model.requests[0][0].text == "added"


async def test_a_hook_can_refuse_a_tool() -> None:
    ran = False

    @tool
    def danger() -> None:
        nonlocal ran
        ran = True

    class Guard:
        def before_tool(self, call: Any, context: Any) -> None:
            raise ToolError(f"{call.name} is not allowed")

    result = await Agent(RuleModel(), tools=[danger], hooks=Guard()).arun("use danger")
    assert "Error: danger is not allowed" in result.message
    assert not ran
