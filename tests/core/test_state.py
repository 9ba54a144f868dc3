"""A state is replaced, never changed, and costs what is new."""

from __future__ import annotations

import time

import pytest
from pydantic import ValidationError

from locus.core import AgentState, Message, ToolExecution
from locus.errors import InputError


def test_an_agent_id_is_enough() -> None:
    state = AgentState(agent_id="a")
    assert (state.messages, state.iteration, state.confidence, state.confidence_history) == ((), 0, 0.0, ())
    assert state.run_id != AgentState(agent_id="a").run_id


def test_a_state_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        AgentState(agent_id="a").iteration = 2  # type: ignore[misc]


def test_adding_leaves_the_state_before_as_it_was() -> None:
    before = AgentState(agent_id="a", messages=(Message.user("one"),))
    after = before.with_message(Message.assistant("two"))
    assert [message.text for message in before.messages] == ["one"]
    assert [message.text for message in after.messages] == ["one", "two"]
    assert after.messages[0] is before.messages[0]
    assert after.updated_at >= before.updated_at


def test_each_step_changes_its_own_fields() -> None:
    execution = ToolExecution(tool_name="look", tool_call_id="c", result="found")
    state = AgentState(agent_id="a").with_tool_execution(execution).with_confidence(0.25).with_error("lost")
    state = state.next_iteration().with_iteration(7).next_iteration().with_metadata({"k": 1}, j=2).with_metadata(k=3)
    state = state.with_tokens(3, 4).with_tokens(1, 1, 5).with_messages([Message.user("a"), Message.user("b")])
    assert state.tool_executions == (execution,)
    assert state.tool_history == ("look",)
    assert (state.confidence, state.confidence_history, state.errors) == (0.25, (0.25,), ("lost",))
    assert (state.iteration, state.metadata, len(state.messages)) == (8, {"k": 3, "j": 2}, 2)
    assert (state.prompt_tokens, state.completion_tokens, state.total_tokens) == (4, 5, 12)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), float("inf")])
def test_confidence_outside_its_range_is_refused(wrong: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        AgentState(agent_id="a").with_confidence(wrong)


def test_only_messages_and_executions_are_added() -> None:
    state = AgentState(agent_id="a")
    with pytest.raises(InputError, match="Message"):
        state.with_message("hi")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ToolExecution"):
        state.with_tool_execution("hi")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="iteration"):
        state.with_iteration(-1)


def test_a_time_without_a_zone_is_utc() -> None:
    state = AgentState.model_validate({"agent_id": "a", "started_at": "2024-05-03T12:00:00"})
    assert state.started_at.isoformat() == "2024-05-03T12:00:00+00:00"


def test_checkpoint_and_json_round_trips() -> None:
    state = AgentState(agent_id="a", messages=(Message.user("x\ud800"),)).with_confidence(0.5)
    state = state.with_tool_execution(
        ToolExecution(tool_name="t", tool_call_id="c", error="no", started_at=state.started_at)
    )
    assert AgentState.from_checkpoint(state.to_checkpoint()) == state
    assert AgentState.model_validate_json(state.model_dump_json()) == state
    assert AgentState.model_validate(state.model_dump()) == state


def test_a_checkpoint_of_a_later_version_is_read() -> None:
    state = AgentState(agent_id="a")
    assert AgentState.from_checkpoint({**state.to_checkpoint(), "mood": "good"}) == state


@pytest.mark.alone
def test_a_long_state_grows_in_microseconds() -> None:
    state = AgentState(agent_id="a", messages=tuple(Message.user(str(number)) for number in range(2000)))
    message = Message.user("new")
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        state.with_message(message)
        best = min(best, time.perf_counter() - start)
    assert best < 0.0005, "tens of microseconds: messages are neither copied nor validated again"
