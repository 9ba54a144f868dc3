"""What a model is told about a tool, and what a tool does with what a model sends."""

from __future__ import annotations

import enum
import functools
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from locus.errors import ConfigError, ToolError
from locus.tools import Tool, ToolContext, ToolSet, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int = 1


@tool
def ship(
    to: Address,
    colour: Colour,
    speed: Literal["slow", "fast"],
    tags: list[str],
    note: str | None = None,
    extra: dict[str, int] | None = None,
    weight: Annotated[float, Field(description="in kilograms", gt=0)] = 1.0,
) -> str:
    """Ship a parcel.

    It is gone after that.

    Args:
        to: where it goes
        colour (Colour): of the box,
            inside and out
        weight: not this text, the annotation's

    Returns:
        A number.
    """
    return f"{type(to).__name__} {to.street} {colour.name} {speed} {tags} {note} {extra} {weight}"


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    schema = ship.parameters
    assert ship.name == "ship"
    assert ship.description == "Ship a parcel.\n\nIt is gone after that."
    assert schema["required"] == ["to", "colour", "speed", "tags"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["speed"] == {"enum": ["slow", "fast"], "type": "string"}
    assert properties["tags"] == {"items": {"type": "string"}, "type": "array"}
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["colour"]["description"] == "of the box, inside and out"
    assert properties["weight"]["description"] == "in kilograms"
    assert schema["$defs"]["Address"]["required"] == ["street"]
    assert "arg_" not in str(schema)


async def test_arguments_are_validated_and_coerced_before_the_call() -> None:
    sent = {"to": {"street": "Elm", "number": "7"}, "colour": "blue", "speed": "slow", "tags": ["x"], "weight": "2"}
    assert await ship.invoke(sent) == "Address Elm BLUE slow ['x'] None None 2.0"


async def test_bad_arguments_name_each_problem_for_the_model() -> None:
    with pytest.raises(ToolError) as caught:
        await ship.invoke({"to": {}, "colour": "pink", "speed": "slow", "tags": [], "when": 1})
    text = str(caught.value)
    assert "to.street: Field required" in text
    assert "colour: " in text
    assert "when: no such argument (known: to, colour" in text


def test_a_tool_stays_callable() -> None:
    @tool(name="plus", description="Adds.")
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert add(1) == 3
    assert add(1, b=1) == 2
    assert (add.name, add.description) == ("plus", "Adds.")


async def test_names_that_a_model_class_reserves_can_be_arguments() -> None:
    @tool
    def odd(schema: str, json: int, model_config: bool, _private: str = "p", title: str = "t") -> str:
        return f"{schema} {json} {model_config} {_private} {title}"

    assert set(odd.parameters["properties"]) == {"schema", "json", "model_config", "_private", "title"}
    assert await odd.invoke({"schema": "s", "json": 1, "model_config": True}) == "s 1 True p t"


async def test_types_local_to_the_defining_function_are_found() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def take(value: Local) -> int:
        return value.x + 1

    assert await take.invoke({"value": {"x": 1}}) == "2"


async def test_the_context_is_injected_and_hidden() -> None:
    @tool
    def by_type(a: int, ctx: ToolContext) -> str:
        return f"{a} {ctx.thread_id} {ctx.tool_call_id} {ctx.idempotency_key}"

    @tool
    def by_name(ctx, a: int) -> str:  # type: ignore[no-untyped-def]
        return f"{ctx.thread_id} {a}"

    assert list(by_type.parameters["properties"]) == ["a"]
    assert list(by_name.parameters["properties"]) == ["a"]
    context = ToolContext(thread_id="t", tool_call_id="c", idempotency_key="k")
    assert await by_type.invoke({"a": 1}, context) == "1 t c k"
    assert await by_name.invoke({"a": 1}, context) == "t 1"


async def test_positional_only_and_rest_keywords_are_bound() -> None:
    @tool
    def mixed(a: int, /, b: int, **rest: Any) -> str:
        return f"{a} {b} {sorted(rest)}"

    assert await mixed.invoke({"a": 1, "b": 2, "c": 3}) == "1 2 ['c']"


async def test_a_method_is_bound_to_its_object() -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold: list[str] = []

        @tool
        def sell(self, what: str) -> str:
            """Sell it."""
            self.sold.append(what)
            return f"sold {what}"

    shop = Shop()
    sell = shop.sell
    assert isinstance(sell, Tool)
    assert list(sell.parameters["properties"]) == ["what"]
    assert await sell.invoke({"what": "tea"}) == "sold tea"
    assert shop.sold == ["tea"]


def test_what_cannot_be_a_tool_is_refused_with_a_way_out() -> None:
    def stars(*many: int) -> None: ...

    with pytest.raises(ConfigError, match="take a list instead"):
        tool(stars)
    with pytest.raises(ConfigError, match="@tool\\(name="):
        tool(lambda: None)
    with pytest.raises(ConfigError, match="timeout"):
        tool(timeout=0)(test_a_tool_stays_callable)


def test_two_tools_of_one_name_are_refused_and_unknown_names_list_the_known() -> None:
    with pytest.raises(ConfigError, match="two tools are named 'ship'"):
        ToolSet([ship, ship])
    with pytest.raises(ToolError, match="no tool named 'shp'. Did you mean 'ship'\\? Known tools: ship"):
        ToolSet([ship]).named("shp")


async def test_a_partial_has_the_name_the_words_and_the_types_of_its_function() -> None:
    def scale(factor: int, value: int) -> int:
        """Scale a value."""
        return factor * value

    double = Tool(functools.partial(scale, 2))
    assert (double.name, double.description) == ("scale", "Scale a value.")
    assert double.parameters["properties"] == {"value": {"type": "integer"}}
    assert await double.invoke({"value": "21"}) == "42"
