"""A run that ends anywhere leaves a thread that loads, is valid, and is finished by the next run, doing nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, suppress
from typing import Any

import pytest

from locus.agent import Agent, Hook
from locus.errors import ThreadBusyError
from locus.memory.checkpointer import BaseCheckpointer
from locus.tools import Tool, ToolContext, tool
from tests.agent.play import RuleModel, answers, assert_valid, collect, questions

PROMPT = "use charge book then charge"
EVENTS = 12


class World:
    """Where tools have their effects."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.booked: list[str] = []

    def tools(self) -> list[Tool[..., Any]]:
        @tool
        async def charge(ctx: ToolContext) -> str:
            """Must not be repeated."""
            self.charged.append(ctx.idempotency_key)
            await asyncio.sleep(0)
            return "charged"

        @tool(idempotent=True)
        async def book(ctx: ToolContext) -> str:
            """May be repeated with the same key."""
            await asyncio.sleep(0)
            self.booked.append(ctx.idempotency_key)
            return "booked"

        return [charge, book]


async def finish(checkpointer: BaseCheckpointer, world: World, thread_id: str, asked: list[str]) -> None:
    """A fresh agent goes on with the thread; nothing is lost, nothing doubled."""
    agent = Agent(RuleModel(), tools=world.tools(), checkpointer=checkpointer, reflexion=True, wait_seconds=5)
    result = await agent.arun("next", thread_id=thread_id)
    state = assert_valid(await agent.get_state(thread_id))
    assert result.success
    assert questions(state) == [*asked, "next"]
    assert len(answers(state)) == len(asked) + 1
    assert max(Counter(world.charged).values(), default=1) == 1
    keys = {call.idempotency_key for m in state.messages for call in m.tool_calls if call.name == "charge"}
    assert set(world.charged) <= keys
    assert len(set(world.booked)) <= 1
    if asked:
        assert set(state.tool_history) == {"charge", "book"}
        assert world.booked  # the idempotent one was run in the end, whatever happened


def agent_for(checkpointer: BaseCheckpointer, world: World, **options: Any) -> Agent:
    return Agent(RuleModel(), tools=world.tools(), checkpointer=checkpointer, reflexion=True, **options)


async def test_the_turn_has_as_many_events_as_the_tests_below_break_at(checkpointer: BaseCheckpointer) -> None:
    assert len(await collect(agent_for(checkpointer, World()), PROMPT, thread_id="t")) == EVENTS


@pytest.mark.parametrize("every", [1, 3])
async def test_a_caller_may_leave_at_any_event(checkpointer: BaseCheckpointer, every: int) -> None:
    for place in range(EVENTS):
        world, thread = World(), f"t{place}"
        agent = agent_for(checkpointer, world, checkpoint_every_n_iterations=every)
        async with aclosing(agent.run(PROMPT, thread_id=thread)) as events:
            seen = 0
            async for _ in events:
                if seen == place:
                    break
                seen += 1
        await finish(checkpointer, world, thread, [PROMPT])


async def test_a_caller_may_leave_without_closing(checkpointer: BaseCheckpointer) -> None:
    for place in range(EVENTS):
        world, thread = World(), f"t{place}"
        seen = 0
        async for _ in agent_for(checkpointer, world).run(PROMPT, thread_id=thread):
            if seen == place:
                break
            seen += 1
        await finish(checkpointer, world, thread, [PROMPT])


async def test_a_task_may_be_cancelled_at_any_event(checkpointer: BaseCheckpointer) -> None:
    for place in range(EVENTS):
        world, thread, seen = World(), f"t{place}", asyncio.Queue[None]()

        async def follow(agent: Agent, thread: str, seen: asyncio.Queue[None]) -> None:
            async for _ in agent.run(PROMPT, thread_id=thread):
                seen.put_nowait(None)

        task = asyncio.create_task(follow(agent_for(checkpointer, world), thread, seen))
        for _ in range(place + 1):
            await seen.get()
        task.cancel()
        await asyncio.wait({task})
        await finish(checkpointer, world, thread, [PROMPT])


async def test_a_task_may_be_cancelled_at_any_await(checkpointer: BaseCheckpointer) -> None:
    steps, done = 0, False
    while not done:
        steps = steps + 1 if steps < 60 else steps * 5 // 4
        world, thread = World(), f"t{steps}"
        task = asyncio.create_task(agent_for(checkpointer, world).arun(PROMPT, thread_id=thread))
        for _ in range(steps):
            await asyncio.sleep(0)
        done = task.done()
        task.cancel()
        await asyncio.wait({task})
        begun = await checkpointer.load(thread) is not None
        await finish(checkpointer, world, thread, [PROMPT] if begun else [])


class Bomb(Hook):
    """Raises at the n-th call of one point, once."""

    def __init__(self, point: str, nth: int) -> None:
        self.left = nth
        self.exploded = False
        setattr(self, point, self._tick)

    def _tick(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.exploded = True
            raise RuntimeError("boom")


@pytest.mark.parametrize(
    "point", ["before_model", "after_model", "before_tool", "after_tool", "on_event", "on_turn_end"]
)
async def test_a_hook_may_raise_at_any_point(checkpointer: BaseCheckpointer, point: str) -> None:
    for nth in range(1, EVENTS + 1):
        world, thread, bomb = World(), f"t{nth}", Bomb(point, nth)
        agent = agent_for(checkpointer, world, hooks=bomb)
        with suppress(RuntimeError):
            await agent.arun(PROMPT, thread_id=thread)
        assert nth > 1 or bomb.exploded
        await finish(checkpointer, world, thread, [PROMPT])
        if not bomb.exploded:
            break


async def test_a_model_may_raise_at_any_call(checkpointer: BaseCheckpointer) -> None:
    class Flaky(RuleModel):
        def __init__(self, nth: int) -> None:
            super().__init__()
            self.left = nth

        async def complete(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise ConnectionError("gone")
            return await super().complete(messages, tools)

    for nth in (1, 2, 3):
        world, thread = World(), f"t{nth}"
        agent = Agent(Flaky(nth), tools=world.tools(), checkpointer=checkpointer, reflexion=True)
        result = await agent.arun(PROMPT, thread_id=thread)
        assert (result.stop_reason, result.error) == ("error", "ConnectionError: gone")
        await finish(checkpointer, world, thread, [PROMPT])


async def test_continue_turn_only_finishes(checkpointer: BaseCheckpointer) -> None:
    for place in range(EVENTS):
        world, thread = World(), f"t{place}"
        seen = 0
        async with aclosing(agent_for(checkpointer, world).run(PROMPT, thread_id=thread)) as events:
            async for _ in events:
                if seen == place:
                    break
                seen += 1
        result = await agent_for(checkpointer, world).continue_turn(thread)
        assert result.success
        assert questions(result.state) == [PROMPT]
        assert len(answers(assert_valid(result.state))) == 1
        again = await agent_for(checkpointer, world).continue_turn(thread)
        assert (again.message, again.state.iteration) == (result.message, result.state.iteration)


async def test_a_call_that_may_have_happened_is_reported_and_not_repeated(checkpointer: BaseCheckpointer) -> None:
    started = asyncio.Event()
    runs = 0

    @tool
    async def pay() -> str:
        nonlocal runs
        runs += 1
        started.set()
        await asyncio.sleep(30)
        return "paid"

    task = asyncio.create_task(
        Agent(RuleModel(), tools=[pay], checkpointer=checkpointer).arun("use pay", thread_id="t")
    )
    await started.wait()
    task.cancel()
    await asyncio.wait({task})
    result = await Agent(RuleModel(), tools=[pay], checkpointer=checkpointer).continue_turn("t")
    assert "Interrupted, outcome unknown" in result.message
    assert runs == 1
    assert_valid(result.state)


async def test_an_idempotent_call_runs_again_with_the_same_key(checkpointer: BaseCheckpointer) -> None:
    seen: list[tuple[str, int]] = []
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def pay(ctx: ToolContext) -> str:
        seen.append((ctx.idempotency_key, ctx.attempt))
        if ctx.attempt == 1:
            gate.set()
            await asyncio.sleep(30)
        return "paid"

    task = asyncio.create_task(
        Agent(RuleModel(), tools=[pay], checkpointer=checkpointer).arun("use pay", thread_id="t")
    )
    await gate.wait()
    task.cancel()
    await asyncio.wait({task})
    result = await Agent(RuleModel(), tools=[pay], checkpointer=checkpointer).continue_turn("t")
    assert result.message == "answer to 'use pay': paid"
    [(first, one), (second, two)] = seen
    assert (first, one, two) == (second, 1, 2)


async def test_a_call_of_a_tool_that_is_gone_has_an_error_for_a_result(checkpointer: BaseCheckpointer) -> None:
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def old() -> None:
        gate.set()
        await asyncio.sleep(30)

    task = asyncio.create_task(
        Agent(RuleModel(), tools=[old], checkpointer=checkpointer).arun("use old", thread_id="t")
    )
    await gate.wait()
    task.cancel()
    await asyncio.wait({task})
    result = await Agent(RuleModel(), checkpointer=checkpointer).continue_turn("t")
    assert "The tool 'old' is no longer there" in result.message
    assert_valid(result.state)


async def test_two_agents_on_one_thread_take_turns(checkpointer: BaseCheckpointer) -> None:
    world = World()
    agents = [agent_for(checkpointer, world) for _ in range(4)]
    await asyncio.gather(*(agent.arun(f"use charge then book x{i}", thread_id="t") for i, agent in enumerate(agents)))
    state = assert_valid(await agents[0].get_state("t"))
    assert sorted(questions(state)) == [f"use charge then book x{i}" for i in range(4)]
    roles = "".join(message.role.value[0] for message in state.messages)
    assert roles == "uatatta" * 4


async def test_a_run_that_has_waited_long_enough_is_told_that_the_thread_is_busy(
    checkpointer: BaseCheckpointer,
) -> None:
    world = World()
    async with aclosing(agent_for(checkpointer, world).run(PROMPT, thread_id="t")) as events:
        await anext(events)
        with pytest.raises(ThreadBusyError, match="'t'"):
            await agent_for(checkpointer, world, wait_seconds=0.05).arun("me too", thread_id="t")
    await finish(checkpointer, world, "t", [PROMPT])
