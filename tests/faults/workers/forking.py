"""A program that uses an agent and then forks, as gunicorn with preloading and Celery do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from locus.agent import Agent
from tests.faults.workers.clerk import Desk

CHILDREN = 4
TURNS = 2


def preload_and_fork(kind: str, place: str) -> None:
    """Everybody uses the same agent object, on a thread of their own and on one of all."""
    desk = Desk(kind, Path(place))
    agent = desk.agent(desk.checkpointer(), wait_seconds=60)
    _turn(desk, agent, "shared", "before.0")
    asyncio.run(_async_turn(desk, agent, "shared", "before.1"))
    children = [_fork(desk, agent, f"child{number}") for number in range(CHILDREN)]
    _turns(desk, agent, "parent")
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _fork(desk: Desk, agent: Agent, me: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _turns(desk, agent, me)
        asyncio.run(_async_turn(desk, agent, me, f"{me}.{2 * TURNS}"))
        code = 0
    finally:
        os._exit(code)


def _turns(desk: Desk, agent: Agent, me: str) -> None:
    for number in range(TURNS):
        _turn(desk, agent, me, f"{me}.{2 * number}")
        _turn(desk, agent, "shared", f"{me}.{2 * number + 1}")


def _turn(desk: Desk, agent: Agent, thread: str, name: str) -> None:
    result = agent.run_sync(f"{name}: pay book", thread_id=thread)
    desk.told.note(thread=thread, answer=result.message, reason=result.stop_reason, error=result.error)


async def _async_turn(desk: Desk, agent: Agent, thread: str, name: str) -> None:
    result = await agent.arun(f"{name}: charge", thread_id=thread)
    desk.told.note(thread=thread, answer=result.message, reason=result.stop_reason, error=result.error)
