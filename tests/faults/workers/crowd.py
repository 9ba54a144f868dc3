"""One of many processes that use the same thread at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ThreadBusyError
from tests.faults.workers.clerk import Desk
from tests.faults.workers.faulted import pass_gate


def take_turns(kind: str, place: str, thread: str, me: int, turns: int, wait_seconds: float) -> None:
    """Take turns with everybody else."""
    asyncio.run(_take_turns(Desk(kind, Path(place)), thread, me, turns, wait_seconds))


async def _take_turns(desk: Desk, thread: str, me: int, turns: int, wait_seconds: float) -> None:
    checkpointer = desk.checkpointer()
    agent = desk.agent(checkpointer, wait_seconds=wait_seconds)
    pass_gate(desk.place, "begin")
    for number in range(turns):
        name = f"{me}.{number}"
        try:
            result = await agent.arun(f"{name}: pay book", thread_id=thread)
        except ThreadBusyError as error:
            desk.told.note(refused=name, text=str(error))
        else:
            desk.told.note(thread=thread, answer=result.message, reason=result.stop_reason, error=result.error)
    await checkpointer.close()


def save(kind: str, place: str, thread: str, me: int, saves: int) -> None:
    """Save checkpoints of one's own, beside everybody else's."""
    asyncio.run(_save(Desk(kind, Path(place)), thread, me, saves))


async def _save(desk: Desk, thread: str, me: int, saves: int) -> None:
    checkpointer = desk.checkpointer()
    state = AgentState(agent_id=f"writer {me}")
    pass_gate(desk.place, "begin")
    for number in range(saves):
        state = state.with_message(Message.user(f"{me}.{number}"))
        made = await checkpointer.save(state, thread)
        desk.told.note(thread=thread, checkpoint=made, messages=len(state.messages), writer=me)
    await checkpointer.close()


def arrive(kind: str, place: str, me: int) -> None:
    """Be one of those that find nothing there and set it up."""
    asyncio.run(_arrive(Desk(kind, Path(place)), me))


async def _arrive(desk: Desk, me: int) -> None:
    pass_gate(desk.place, "begin")
    checkpointer = desk.checkpointer()
    made = await checkpointer.save(AgentState(agent_id=f"writer {me}"), f"thread {me}")
    desk.told.note(thread=f"thread {me}", checkpoint=made, messages=0)
    await checkpointer.close()
