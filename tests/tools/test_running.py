"""How a tool runs and what its result looks like to the model."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import json
import threading

import pytest
from pydantic import BaseModel

from locus.tools import Interrupt, ToolContext, tool

flavour: contextvars.ContextVar[str] = contextvars.ContextVar("flavour", default="none")


async def test_a_sync_function_runs_off_the_loop_with_the_callers_context() -> None:
    @tool
    def where() -> str:
        return f"{threading.current_thread() is threading.main_thread()} {flavour.get()}"

    flavour.set("mint")
    assert await where.invoke({}) == "False mint"


async def test_blocking_tools_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(20, timeout=5)

    @tool
    def meet() -> int:
        return barrier.wait()

    results = await asyncio.gather(*(meet.invoke({}) for _ in range(20)))
    assert sorted(map(int, results)) == list(range(20))


async def test_an_async_function_runs_on_the_loop() -> None:
    loop = asyncio.get_running_loop()

    @tool
    async def here() -> bool:
        await asyncio.sleep(0)
        return asyncio.get_running_loop() is loop

    assert await here.invoke({}) == "true"


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Pair:
    a: int
    b: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (7, "7"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([Point(x=1)], '[{"x":1}]'),
        (Point(x=2), '{"x":2}'),
        (Pair(1, "z"), '{"a":1,"b":"z"}'),
        ([float("inf")], '["Infinity"]'),
    ],
)
async def test_a_result_becomes_text(value: object, text: str) -> None:
    @tool
    def give() -> object:
        return value

    assert await give.invoke({}) == text


async def test_none_is_a_plain_success() -> None:
    @tool
    def nothing() -> None:
        return None

    assert "Done" in await nothing.invoke({})


async def test_a_lone_surrogate_in_a_result_is_kept() -> None:
    @tool
    def broken() -> dict[str, str]:
        return {"a": "\ud800"}

    assert json.loads(await broken.invoke({})) == {"a": "\ud800"}


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration("s")])
async def test_an_exit_inside_a_tool_is_an_error_of_that_tool_only(error: BaseException) -> None:
    @tool
    def leave() -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await leave.invoke({})


async def test_an_interrupt_raises_first_and_returns_the_answer_later() -> None:
    @tool
    def ask(ctx: ToolContext) -> str:
        try:
            first = ctx.interrupt({"question": "sure?"})
            second = ctx.interrupt(Point(x=3))
        except Exception:  # noqa: BLE001
            return "swallowed"
        return f"{first} {second}"

    with pytest.raises(Interrupt) as caught:
        await ask.invoke({}, ToolContext())
    assert (caught.value.payload, caught.value.index) == ({"question": "sure?"}, 0)
    with pytest.raises(Interrupt) as caught:
        await ask.invoke({}, ToolContext(answers=["yes"]))
    assert (caught.value.payload, caught.value.index) == ({"x": 3}, 1)
    assert await ask.invoke({}, ToolContext(answers=["yes", 4])) == "yes 4"


async def test_a_typed_answer_is_validated_and_asked_for_again_when_it_does_not_fit() -> None:
    @tool
    def ask(ctx: ToolContext) -> int:
        return ctx.interrupt("where?", response_type=Point).x

    with pytest.raises(Interrupt) as caught:
        await ask.invoke({}, ToolContext(answers=[{"x": "far"}]))
    assert caught.value.index == 0
    assert caught.value.rejected is not None
    assert "x" in (caught.value.response_schema or {})["properties"]
    assert await ask.invoke({}, ToolContext(answers=[{"x": 5}])) == "5"


async def test_a_tool_that_ran_does_not_fail_for_what_it_returned() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("nothing to say")

    circle: list[object] = []
    circle.append(circle)
    given: list[object] = [{"raw": b"\xff\xfe"}, circle, Mute()]

    @tool
    def give(index: int) -> object:
        return given[index]

    assert json.loads(await give.invoke({"index": 0})) == {"raw": "__4="}
    assert "(list) cannot be shown: Circular reference" in await give.invoke({"index": 1})
    assert await give.invoke({"index": 2}) == "Done. What the tool returned (Mute) cannot be shown: nothing to say"
