"""A process that is in the middle of a slow tool when a signal reaches it."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

from locus.agent import Agent
from locus.errors import ThreadBusyError
from locus.memory.log import lease
from locus.tools import Tool, tool
from tests.faults.workers.clerk import Clerk, Desk
from tests.faults.workers.faulted import pass_gate

SLOW = 30.0


def hold(kind: str, place: str, thread: str, how: str) -> None:
    """Run a slow tool, in a program that ends in one of several ways when it is told to."""
    desk = Desk(kind, Path(place))
    agent = Agent(Clerk(), tools=_slow_tools(desk), checkpointer=desk.checkpointer())
    prompt = "slow.0: wait" if how != "blocking" else "slow.0: block"
    if how == "cancelling":
        asyncio.run(_until_cancelled(agent, prompt, thread))
    elif how == "exiting":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        agent.run_sync(prompt, thread_id=thread)
    else:
        agent.run_sync(prompt, thread_id=thread)


def _slow_tools(desk: Desk) -> list[Tool[..., Any]]:
    @tool(name="wait")
    async def wait(ref: str) -> str:
        desk.effects.note(ref=ref)
        await asyncio.sleep(SLOW)
        return "waited"

    @tool(name="block")
    def block(ref: str) -> str:
        desk.effects.note(ref=ref)
        time.sleep(SLOW)
        return "waited"

    return [wait, block]


async def _until_cancelled(agent: Agent, prompt: str, thread: str) -> None:
    task = asyncio.ensure_future(agent.arun(prompt, thread_id=thread))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait({task})
    assert task.cancelled()


def be_paused(kind: str, place: str, thread: str, lease_seconds: float) -> None:
    """Begin a turn of several calls, one after the other; the first takes until the test lets it end."""
    lease.LEASE_SECONDS = lease_seconds
    asyncio.run(_be_paused(Desk(kind, Path(place)), thread))


async def _be_paused(desk: Desk, thread: str) -> None:
    @tool
    async def first(ref: str) -> str:
        desk.effects.note(ref=ref, begun=True)
        await asyncio.to_thread(pass_gate, desk.place, "wake")
        desk.effects.note(ref=ref, ended=True)
        return "first is done"

    @tool
    async def second(ref: str) -> str:
        desk.effects.note(ref=ref, begun=True)
        return "second is done"

    checkpointer = desk.checkpointer()
    agent = Agent(Clerk(), tools=[first, second], checkpointer=checkpointer, tool_execution="sequential")
    try:
        await agent.arun("paused.0: first second; second", thread_id=thread)
    except ThreadBusyError as error:
        desk.told.note(refused=str(error))
    await checkpointer.close()
