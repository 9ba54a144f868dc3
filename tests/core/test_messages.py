"""Messages keep what they are given: any text, any provider's block, in any of the accepted shapes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from locus.core import FilePart, ImagePart, Message, Role, TextPart, ToolCall

SIGNED = {
    "type": "thinking",
    "signature": "c2ln",
    "thinking": "...",
    "zeta": {"b": None, "a": [1, 2.5, True]},
    "alpha": "",
}


def test_constructors_set_the_role() -> None:
    made = [Message.system("s"), Message.user("u"), Message.assistant("a"), Message.tool("t", "call_1", name="look")]
    assert [message.role for message in made] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert made[3].tool_call_id == "call_1"
    assert made[3].name == "look"


def test_a_tool_call_without_an_id_gets_its_own() -> None:
    first, second = ToolCall(name="look"), ToolCall(name="look")
    assert first.id.startswith("call_")
    assert first.id != second.id


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Message.user("hi").content = "other"  # type: ignore[misc]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="colour"):
        Message.model_validate({"role": "user", "content": "hi", "colour": "red"})


@pytest.mark.parametrize("wrong", [5, b"bytes", {"type": "text"}, [5], [None]])
def test_content_that_is_no_content_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", "content": wrong})


def test_parts_of_ours_become_objects() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image", "url": "u"}, {"type": "file", "file_id": "f"}, "end"]
    message = Message.model_validate({"role": "user", "content": content})
    assert message.content == (TextPart(text="see"), ImagePart(url="u"), FilePart(file_id="f"), TextPart(text="end"))
    assert message.text == "see\nend"


@pytest.mark.parametrize(
    "block",
    [
        SIGNED,
        {},
        {"text": "no type"},
        {"type": 5},
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "data": "AA=="}},
    ],
)
def test_a_providers_block_is_kept_exactly_as_it_came(block: dict[str, Any]) -> None:
    message = Message.assistant([block])
    again = Message.model_validate_json(message.model_dump_json())
    for copy in (message, again, Message.model_validate(message.model_dump())):
        assert copy.content is not None
        assert json.dumps(copy.content[0]) == json.dumps(block)


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "\ud800", "x\udfffy", "\U0001f600", "e\u0301"])
def test_any_text_survives(text: str) -> None:
    message = Message.assistant(text, [ToolCall(id=text, name=text, arguments={text: text})], metadata={text: [text]})
    assert Message.model_validate_json(message.model_dump_json()) == message
    assert Message.model_validate(message.model_dump()) == message


def test_broken_json_is_reported_and_not_guessed_at() -> None:
    with pytest.raises(ValidationError, match="Invalid JSON"):
        Message.model_validate_json('{"role": "user", "content": "\\ud800"')


def test_no_content_has_no_text() -> None:
    assert Message.assistant(None, [ToolCall(name="look")]).text == ""


@pytest.mark.alone
def test_parsing_costs_about_a_microsecond_a_message() -> None:
    rows = [{"role": "user", "content": f"message {number}"} for number in range(2000)]
    adapter = TypeAdapter(list[Message])
    best = min(_seconds(adapter, rows) for _ in range(9))
    assert best < 0.02, "a few ms when the machine is idle: the content union tries text first"


def _seconds(adapter: TypeAdapter[list[Message]], rows: list[dict[str, str]]) -> float:
    start = time.perf_counter()
    adapter.validate_python(rows)
    return time.perf_counter() - start
