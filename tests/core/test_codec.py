"""What is stored is short, comes back the same, and is refused when it could not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locus.core import AgentState, FilePart, ImagePart, Message, Role, TextPart, ToolCall, ToolExecution, codec
from locus.errors import CorruptRecordError, InputError, SetupError

texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(["", "\0", "\ud800", "a\udfffb"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
jsons = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, jsons, max_size=3)
maybe = st.none() | texts
moments = st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-7))))
calls = st.builds(ToolCall, id=texts, name=texts, arguments=objects, idempotency_key=maybe)
parts = (
    st.builds(TextPart, text=texts)
    | st.builds(ImagePart, url=maybe, data=maybe, media_type=maybe)
    | st.builds(FilePart, url=maybe, file_id=maybe, data=maybe, name=maybe, media_type=maybe)
    | objects
    | st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "file", "thinking"])}, optional={"text": jsons})
)
messages = st.builds(
    Message,
    role=st.sampled_from(list(Role)),
    content=maybe | st.lists(parts, max_size=3).map(tuple),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=maybe,
    name=maybe,
    metadata=objects,
)
executions = st.builds(
    ToolExecution,
    tool_name=texts,
    tool_call_id=texts,
    arguments=objects,
    result=jsons,
    error=maybe,
    duration_ms=st.floats(0, 1e9),
    started_at=st.none() | moments,
)
shares = st.floats(0, 1)
counts = st.integers(0, 2**53)
states = st.builds(
    AgentState,
    run_id=texts,
    agent_id=texts,
    messages=st.lists(messages, max_size=4).map(tuple),
    iteration=counts,
    max_iterations=counts,
    tool_executions=st.lists(executions, max_size=3).map(tuple),
    tool_history=st.lists(texts, max_size=3).map(tuple),
    confidence=shares,
    confidence_history=st.lists(shares, max_size=3).map(tuple),
    errors=st.lists(texts, max_size=2).map(tuple),
    metadata=objects,
    prompt_tokens=counts,
    started_at=moments,
    updated_at=moments,
)


@settings(max_examples=150, deadline=None)
@given(states)
def test_a_state_comes_back_as_it_was(state: AgentState) -> None:
    text = codec.dumps(state)
    text.encode()
    assert codec.loads(text) == state
    assert codec.loads(text.encode()) == state


@settings(max_examples=100, deadline=None)
@given(states)
def test_the_pieces_come_back_as_they_were(state: AgentState) -> None:
    small, long = codec.split(state)
    small = json.loads(json.dumps(small))
    stored = {name: json.loads(json.dumps(codec.dump_items(name, items))) for name, items in long.items()}
    assert codec.join(small, {name: codec.load_items(name, items) for name, items in stored.items()}) == state


@settings(max_examples=50, deadline=None)
@given(states)
def test_pydantics_own_json_carries_the_same(state: AgentState) -> None:
    assert AgentState.model_validate_json(state.model_dump_json()) == state
    assert AgentState.from_checkpoint(json.loads(json.dumps(state.to_checkpoint()))) == state


def test_defaults_are_not_stored() -> None:
    state = AgentState(run_id="r", messages=(Message.user("hi"), Message.assistant(None, [ToolCall(id="c", name="t")])))
    small, long = codec.split(state)
    assert set(small) == {"run_id", "started_at", "updated_at"}
    assert codec.dump_items("messages", long["messages"]) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "c", "name": "t"}]},
    ]
    execution = ToolExecution(tool_name="t", tool_call_id="c")
    assert codec.dump_items("tool_executions", [execution]) == [{"tool_name": "t", "tool_call_id": "c"}]


def test_format_1_is_read_for_ever() -> None:
    stored = (
        '{"locus":1,"run_id":"r","agent_id":"a","iteration":2,"confidence":0.3,"errors":["e"],"metadata":{"k":[1]},'
        '"started_at":1714737600.25,"updated_at":1714737601,"messages":[{"role":"user","content":"hi"},'
        '{"role":"assistant","tool_calls":[{"id":"c","name":"t","arguments":{"q":1}}]},'
        '{"role":"tool","content":"ok","tool_call_id":"c","name":"t"}],"tool_history":["t"],"confidence_history":[0.3],'
        '"tool_executions":[{"tool_name":"t","tool_call_id":"c","arguments":{"q":1},"result":"ok","duration_ms":2.5}]}'
    )
    state = codec.loads(stored)
    assert (state.max_iterations, state.total_tokens, state.messages[2].text) == (20, 0, "ok")
    assert state.started_at == datetime(2024, 5, 3, 12, 0, 0, 250000, UTC)
    assert json.loads(codec.dumps(state)) == json.loads(stored)


def test_splitting_and_joining_keep_the_objects() -> None:
    state = AgentState(agent_id="a", messages=(Message.user("hi"),))
    small, long = codec.split(state)
    assert long["messages"] is state.messages
    assert codec.join(small, long).messages[0] is state.messages[0]


def test_key_order_of_an_opaque_block_is_kept() -> None:
    block = {"zeta": 1, "type": "reasoning", "alpha": {"y": 1, "x": 2}}
    again = codec.loads(codec.dumps(AgentState(messages=(Message.assistant([block]),))))
    assert json.dumps(again.messages[0].model_dump()["content"][0]) == json.dumps(block)


def test_fields_of_a_later_version_do_not_stop_a_reader() -> None:
    state = AgentState(agent_id="a")
    small, long = codec.split(state)
    assert codec.join({**small, "mood": "good"}, {**long, "plans": ("x",)}) == state
    assert codec.loads(json.dumps({**json.loads(codec.dumps(state)), "mood": 1})) == state


def test_a_newer_format_says_which_is_needed() -> None:
    body = {**json.loads(codec.dumps(AgentState())), "locus": 2}
    with pytest.raises(SetupError, match="format 2"):
        codec.loads(json.dumps(body))


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"locus":"1"}',
        '{"locus":true}',
        '{"locus":0}',
        '{"locus":1}',
        '{"locus":1,"run_id":"r","started_at":null,"updated_at":1}',
        '{"locus":1,"run_id":"r","started_at":"soon","updated_at":1}',
        '{"locus":1,"run_id":"r","started_at":1e300,"updated_at":1}',
        '{"locus":1,"run_id":5,"started_at":1,"updated_at":1}',
        '{"locus":1,"run_id":"r","started_at":1,"updated_at":1,"messages":"x"}',
        '{"locus":1,"run_id":"r","started_at":1,"updated_at":1,"messages":[{"role":"king"}]}',
        '{"locus":1,"run_id":"r","started_at":1,"updated_at":1,"tool_executions":5}',
        '{"locus":1,"run_id":"r","started_at":1,"updated_at":1,"tool_executions":[5]}',
        "[" * 100_000,
    ],
)
def test_damage_is_reported(damage: str) -> None:
    with pytest.raises(CorruptRecordError):
        codec.loads(damage)


@pytest.mark.parametrize(
    "wrong", [float("nan"), float("inf"), float("-inf"), {1: 2}, {"s": {1}}, [datetime.now(UTC)], b""]
)
def test_what_json_would_lose_is_refused_by_place(wrong: Any) -> None:
    state = AgentState(agent_id="a")
    with pytest.raises(InputError, match=r"^metadata\.deep\[1\]"):
        codec.split(state.with_metadata(deep=[0, wrong]))
    with pytest.raises(InputError, match=r"^messages\[0\]\.metadata\.k"):
        codec.dump_items("messages", [Message.user("x", metadata={"k": wrong})])
    with pytest.raises(InputError, match=r"^messages\[1\]\.tool_calls\[t\]\.arguments\.k"):
        codec.dump_items(
            "messages", [Message.user("x"), Message.assistant("", [ToolCall(name="t", arguments={"k": wrong})])]
        )
    with pytest.raises(InputError, match=r"^messages\[0\]\.content\.k"):
        codec.dump_items("messages", [Message.assistant([{"type": "odd", "k": wrong}])])
    with pytest.raises(InputError, match=r"^tool_executions\[0\]\.result"):
        codec.dump_items("tool_executions", [ToolExecution(tool_name="t", tool_call_id="c", result=wrong)])


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"confidence_history\[1\] is nan"):
        codec.dump_items("confidence_history", (0.1, float("nan")))
    with pytest.raises(InputError, match="confidence is nan"):
        codec.split(AgentState().model_copy(update={"confidence": float("nan")}))


def test_a_circle_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(InputError, match="metadata is nested too deeply"):
        codec.dumps(AgentState().with_metadata(circle))


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(InputError, match="'moods'"):
        codec.dump_items("moods", [])
    with pytest.raises(InputError, match="'moods'"):
        codec.load_items("moods", [])


def test_search_finds_messages_arguments_and_results() -> None:
    call = ToolCall(id="c", name="find", arguments={"query": "red bicycles", "page": 3})
    conversation = (Message.user("I want a bike"), Message.assistant("", [call]), Message.tool("two shops", "c"))
    text = codec.text_of("messages", conversation)
    assert text.split("\n") == ["I want a bike", "red bicycles", "3", "two shops"]
    execution = ToolExecution(
        tool_name="find", tool_call_id="c", arguments={"query": "q"}, result={"n": ["two"]}, error="e"
    )
    assert codec.text_of("tool_executions", (execution,)) == "q\ntwo\ne"
    assert codec.text_of("tool_history", ("find",)) == ""


def test_what_a_tool_message_says_its_execution_does_not_repeat() -> None:
    told = ToolExecution(tool_name="find", tool_call_id="c", result="two shops")
    untold = ToolExecution(tool_name="find", tool_call_id="d", result="one museum")
    long = {"messages": (Message.tool("two shops", "c"),), "tool_executions": (told, untold)}
    assert codec.text_of_all(long) == "two shops\none museum"
