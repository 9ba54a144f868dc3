"""A caller that talks with an agent until it is killed, and goes on where it was when it lives again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

from locus.agent import Agent
from locus.core.events import Event, TerminateEvent, ThinkEvent, ToolCompleteEvent
from locus.core.messages import Message
from locus.core.state import AgentState
from tests.faults.workers.clerk import Desk
from tests.faults.workers.ledger import Ledger

TURNS = ("pay book; charge book look", "book; pay charge", "charge pay book", "look; book pay", "")


def talk(kind: str, place: str, thread: str, seed: int, mood: str | None = None) -> None:
    """One turn after the other, for ever."""
    chance = random.Random(seed)
    mood = mood or chance.choice(("resend", "resend", "continue", "leave"))
    asyncio.run(_talk(desk_at(kind, place), thread, chance, mood, last=None))


def conclude(kind: str, place: str, thread: str) -> None:
    """Say what was not answered yet, one thing more, and stop."""
    asyncio.run(_talk(desk_at(kind, place), thread, random.Random(0), "resend", last=2))


def desk_at(kind: str, place: str) -> Desk:
    """Where the caller works: on a disk that is waited for, with tools that take their time."""
    return Desk(kind, Path(place), sync=True, pause=0.005)


async def _talk(desk: Desk, thread: str, chance: random.Random, mood: str, last: int | None) -> None:
    checkpointer = desk.checkpointer()
    agent = desk.agent(checkpointer, reflexion=True, checkpoint_every_n_iterations=chance.choice((1, 2)))
    number = _next_number(desk.told, thread)
    if mood == "continue" and await agent.get_state(thread) is not None:
        await _listen(desk.told, thread, agent.continue_turn(thread))
    elif mood == "leave":  # this caller never speaks of the turn before again; the agent has to
        desk.told.note(thread=thread, left=number)
        number += 1
    while last is None or last > 0:
        name = f"{thread}.{number}"
        prompt = f"{name}: {TURNS[number % len(TURNS)]}"
        await _listen(desk.told, thread, agent.run(prompt, thread_id=thread, turn_id=name))
        await _save_aside(agent, desk.told, thread, number)
        number += 1
        last = None if last is None else last - 1
    await checkpointer.close()


def _next_number(told: Ledger, thread: str) -> int:
    """The first turn after those that were answered, or left."""
    mine = [one for one in told.entries() if one["thread"] == thread]
    answered = [int(one["answer"].split()[0].rpartition(".")[2]) for one in mine if one.get("answer")]
    left = [one["left"] for one in mine if "left" in one]
    return max([*answered, *left], default=-1) + 1


async def _listen(told: Ledger, thread: str, events: AsyncIterator[Event]) -> None:
    async for event in events:
        if isinstance(event, TerminateEvent):
            told.note(thread=thread, answer=event.final_message, reason=event.reason, error=event.error)
        elif isinstance(event, ThinkEvent):
            told.note(thread=thread, calls=[call.id for call in event.tool_calls])
        elif isinstance(event, ToolCompleteEvent):
            told.note(thread=thread, call=event.tool_call_id, result=event.result, error=event.error)


async def _save_aside(agent: Agent, told: Ledger, thread: str, number: int) -> None:
    """A plain checkpoint in a thread of its own."""
    aside = f"{thread} aside"
    assert agent.checkpointer is not None
    state = await agent.checkpointer.load(aside) or AgentState(agent_id="aside")
    state = state.with_message(Message.user(f"note {number}"))
    told.note(thread=aside, checkpoint=await agent.checkpointer.save(state, aside), messages=len(state.messages))
