"""A caller whose disk fails during one turn: it is told, and goes on when the disk is well again."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from locus.agent import Agent
from locus.errors import LocusError
from locus.storage.blocking import BlockingStorage
from tests.faults.workers.clerk import Desk

PROMPT = "pay book"


def turn(kind: str, place: str, thread: str, number: int) -> None:
    """Take a turn when the gate opens; when it opens again take the same turn once more, and then the next.

    The first may fail, with an error of Locus. Of the others, none may.
    """
    logging.disable(logging.CRITICAL)  # would be written where the fault is
    desk = Desk(kind, Path(place), pause=0)
    pass_gate(desk.place, "begin")
    asyncio.run(_turn(desk, thread, number))


def wrap_up(kind: str, place: str, thread: str, number: int) -> None:
    """Another process sends the turn again, and takes one more."""
    asyncio.run(_wrap_up(Desk(kind, Path(place), pause=0), thread, number))


def pass_gate(place: Path, name: str) -> None:
    """Wait until the test opens a gate."""
    deadline = time.monotonic() + 60
    while not (place / name).exists():
        assert time.monotonic() < deadline, f"the gate {name!r} was never opened"
        time.sleep(0.002)


async def _turn(desk: Desk, thread: str, number: int) -> None:
    checkpointer = desk.checkpointer()
    BlockingStorage.workers = 1  # strace counts by thread: the n-th call shall be the n-th of the turn
    # A holder that cannot let go would be waited for; here that is too long.
    agent = desk.agent(checkpointer, wait_seconds=5)
    try:
        await _say(agent, desk, thread, number)
    except LocusError as error:
        desk.told.note(failed=type(error).__name__, text=str(error))
    desk.told.note(tried=number)
    pass_gate(desk.place, "passed")
    assert await agent.get_state(thread) is not None or number == 0
    await _say(agent, desk, thread, number)
    await _say(agent, desk, thread, number + 1)
    await checkpointer.close()


async def _wrap_up(desk: Desk, thread: str, number: int) -> None:
    checkpointer = desk.checkpointer()
    agent = desk.agent(checkpointer, wait_seconds=5)
    for each in (number, number + 1):
        await _say(agent, desk, thread, each)
    await checkpointer.close()


async def _say(agent: Agent, desk: Desk, thread: str, number: int) -> None:
    name = f"{thread}.{number}"
    result = await agent.arun(f"{name}: {PROMPT}", thread_id=thread, turn_id=name)
    desk.told.note(thread=thread, answer=result.message, reason=result.stop_reason, error=result.error)
