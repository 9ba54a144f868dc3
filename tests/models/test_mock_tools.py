"""The offline model calls the tool a message asks for, once, with arguments from the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from locus.core import Message
from locus.models import MockModel, ToolSchema


def schema(name: str, description: str, required: Sequence[str] | None = None, **properties: Any) -> ToolSchema:
    typed = {key: value if isinstance(value, dict) else {"type": value} for key, value in properties.items()}
    parameters = {"type": "object", "properties": typed, "required": list(typed if required is None else required)}
    return {"name": name, "description": description, "parameters": parameters}


Calls = list[tuple[str, dict[str, Any]]]


async def turn(
    text: str, tools: Sequence[ToolSchema], *, system: str | None = None, result: str = "it is so"
) -> tuple[Calls, str]:
    """The calls of one turn, every one answered with `result`, and the final text."""
    model = MockModel()
    messages = [Message.system(system)] if system else []
    messages.append(Message.user(text))
    calls: Calls = []
    while True:
        message = (await model.complete(messages, tools)).message
        messages.append(message)
        if not message.tool_calls:
            return calls, message.text
        assert len(calls) < 5, "the model goes round in circles"
        for call in message.tool_calls:
            calls.append((call.name, call.arguments))
            messages.append(Message.tool(result, call.id, name=call.name))


MEMOS = [
    schema("write_memo", "Write a memo to keep.", text="string"),
    schema("list_memos", "List all memos."),
    schema("delete_memo", "Delete a memo by its number.", memo_id="integer"),
]
TASKS = [
    schema("create_task", "Create a task", title="string", priority={"type": "string", "enum": ["low", "high"]}),
    schema("list_tasks", "List tasks"),
    schema("complete_task", "Mark a task as done", task_id="integer"),
]
SUMS = [
    schema("add", "Add two numbers", a="number", b="number"),
    schema("multiply", "Multiply", a="number", b="number"),
]
TABLES = [
    schema("reserve_table", "Reserve it.", ["people", "time"], people="integer", time="string", restaurant="string")
]
FLIGHTS = [schema("search_flights", "Find flights", origin="string", destination="string", date="string")]
UNITS = [schema("convert_units", "Convert units", value="number", from_unit="string", to_unit="string")]
REQUESTS: list[tuple[str, Sequence[ToolSchema], Calls]] = [
    ("Write a memo: fix the gutter", MEMOS, [("write_memo", {"text": "fix the gutter"})]),
    ("What memos do I have?", MEMOS, [("list_memos", {})]),
    ("Could you show me my memos?", MEMOS, [("list_memos", {})]),
    ("Please delete memo 3", MEMOS, [("delete_memo", {"memo_id": 3})]),
    ("Make a memo to water the plants", MEMOS, [("write_memo", {"text": "water the plants"})]),
    ("Write a memo - pick up the parcel", MEMOS, [("write_memo", {"text": "pick up the parcel"})]),
    ("Write a memo: a. Write a memo: b", MEMOS, [("write_memo", {"text": "a"}), ("write_memo", {"text": "b"})]),
    ("Write a memo: eggs, then list my memos", MEMOS, [("write_memo", {"text": "eggs"}), ("list_memos", {})]),
    ("Use delete_memo on number four", MEMOS, [("delete_memo", {"memo_id": 4})]),
    (
        "Create a task called Fix login with high priority",
        TASKS,
        [("create_task", {"title": "Fix login", "priority": "high"})],
    ),
    ("How many tasks do I have?", TASKS, [("list_tasks", {})]),
    ("Mark task 4 as done", TASKS, [("complete_task", {"task_id": 4})]),
    ("Book a table for two at 8pm", TABLES, [("reserve_table", {"people": 2, "time": "8pm"})]),
    (
        "Book a table for six at noon",
        [schema("book_table", "Book.", details="string")],
        [("book_table", {"details": "table for six at noon"})],
    ),
    (
        "What's the weather in Paris?",
        [schema("get_weather", "Weather", city="string")],
        [("get_weather", {"city": "Paris"})],
    ),
    (
        "Send an email to bob@x.org saying the build is green",
        [schema("send_email", "Send an email", to="string", body="string")],
        [("send_email", {"to": "bob@x.org", "body": "the build is green"})],
    ),
    (
        "Remind me to call mum tomorrow at 9am",
        [schema("create_reminder", "Create a reminder", text="string", when="string")],
        [("create_reminder", {"text": "call mum", "when": "tomorrow at 9am"})],
    ),
    (
        "Add milk to my shopping list",
        [schema("add_item", "Add an item to the list", item="string")],
        [("add_item", {"item": "milk"})],
    ),
    (
        "Set a timer for ten minutes",
        [schema("set_timer", "Start a timer", minutes="integer")],
        [("set_timer", {"minutes": 10})],
    ),
    ("What is 12 times 7?", SUMS, [("multiply", {"a": 12, "b": 7})]),
    (
        "Translate 'good morning' to French",
        [schema("translate", "Translate text", text="string", target_language="string")],
        [("translate", {"text": "good morning", "target_language": "French"})],
    ),
    (
        "Are there flights from Oslo to Rome on Friday?",
        FLIGHTS,
        [("search_flights", {"origin": "Oslo", "destination": "Rome", "date": "Friday"})],
    ),
    (
        "Transfer 250 dollars to Ana",
        [schema("transfer_money", "Transfer money", amount="number", recipient="string")],
        [("transfer_money", {"amount": 250, "recipient": "Ana"})],
    ),
    (
        "Order three pizzas and two salads",
        [schema("place_order", "Order food", items={"type": "array", "items": {"type": "string"}})],
        [("place_order", {"items": ["three pizzas", "two salads"]})],
    ),
    (
        "Convert 5 miles to kilometres",
        UNITS,
        [("convert_units", {"value": 5, "from_unit": "miles", "to_unit": "kilometres"})],
    ),
    (
        "Remember that my locker is 7B",
        [schema("remember", "Store a memory", text="string")],
        [("remember", {"text": "my locker is 7B"})],
    ),
    (
        "Who won the cup in 1998?",
        [schema("search_memory", "Search memory", query="string")],
        [("search_memory", {"query": "Who won the cup in 1998"})],
    ),
    ("My name is Bo.", MEMOS, []),
    ("I like cheese.", MEMOS, []),
    ("Tell me a joke", MEMOS, []),
    ("What's my favourite food?", MEMOS, []),
    ("Delete my account", MEMOS, []),
]


@pytest.mark.parametrize(("text", "tools", "expected"), REQUESTS, ids=[row[0] for row in REQUESTS])
async def test_the_tool_asked_for_is_called_and_no_other(
    text: str, tools: Sequence[ToolSchema], expected: Calls
) -> None:
    calls, answer = await turn(text, tools)
    assert calls == expected
    assert ("it is so" in answer) == bool(expected)


KEEP = [schema("keep_detail", "Keep a detail.", detail="string"), schema("wipe", "Wipe everything.")]
ORDERS = [
    "You are kind. Whenever the user tells you something about themselves, like their name, call keep_detail once.",
    "Call keep_detail whenever the user shares a personal fact. Never call wipe.",
    "Every time the user mentions new personal information, use `keep_detail` with a summary, then answer.",
]


@pytest.mark.parametrize("system", ORDERS)
async def test_a_standing_order_is_obeyed_once_per_message(system: str) -> None:
    calls, answer = await turn("Hi there, my name is Noor.", KEEP, system=system)
    assert calls == [("keep_detail", {"detail": "The user's name is Noor"})]
    assert "Noor" in answer
    calls, answer = await turn("I repair violins.", KEEP, system=system)
    assert calls == [("keep_detail", {"detail": "The user repairs violins"})]
    assert "you repair violins" in answer


@pytest.mark.parametrize("text", ["What's my name?", "Hello!", "Why is the sky blue?"])
async def test_a_standing_order_waits_for_its_case(text: str) -> None:
    assert (await turn(text, KEEP, system=ORDERS[0]))[0] == []


async def test_a_forbidden_tool_is_not_called() -> None:
    assert (await turn("Wipe everything", KEEP, system=ORDERS[1]))[0] == []
    assert (await turn("Wipe everything", KEEP))[0] == [("wipe", {})]


async def test_a_case_of_asking_needs_a_question_about_it() -> None:
    tools = [schema("read_timetable", "The trains.", line="string")]
    system = "If the user asks about trains, use read_timetable."
    calls, _ = await turn("Is there a train to Ghent?", tools, system=system)
    assert [name for name, _ in calls] == ["read_timetable"]
    assert (await turn("What's my name?", tools, system=system))[0] == []


async def test_a_question_beside_a_request_is_answered_too() -> None:
    calls, answer = await turn("I'm Ada. Write a memo: buy paint. What's my name?", MEMOS)
    assert [name for name, _ in calls] == ["write_memo"]
    assert "Your name is Ada." in answer


@pytest.mark.parametrize(
    ("result", "expected", "made"),
    [
        ("Error: disk full", "failed: Error: disk full", 1),
        ("ValueError: no such memo", "failed: ValueError", 1),
        ("interrupted, outcome unknown", "outcome is unknown", 1),
        ("", "Done.", 2),
        ("You have 2 memo(s):\n- a\n- b", "- b", 2),
    ],
)
async def test_what_became_of_a_call_is_said_and_nothing_is_tried_after_a_failure(
    result: str, expected: str, made: int
) -> None:
    calls, answer = await turn("Write a memo: x, then list my memos", MEMOS, result=result)
    assert expected in answer
    assert len(calls) == made


async def test_a_tool_without_parameters_or_description_can_be_called() -> None:
    assert (await turn("Ping the server", [{"name": "ping"}]))[0] == [("ping", {})]
