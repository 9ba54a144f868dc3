"""SIGTERM gives the thread back; a process that was paused for too long does nothing more."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from locus.agent import Agent
from locus.core.messages import Message
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.log import lease
from locus.models.history import check_history
from locus.storage.base import Key, Space
from locus.tools import tool
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Clerk, Desk, durable_at

THREAD = "held"
LEASE_SECONDS = 0.6


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


async def holder_of(checkpointer: DurableCheckpointer) -> str | None:
    """Who holds the thread, as the record has it."""
    await checkpointer.storage.setup(Space(DEFAULT_TABLE, log=True))
    [record] = await checkpointer.storage.get([Key(DEFAULT_TABLE, (THREAD,), "lease")])
    assert record is not None
    holder = record.body["holder"]
    assert holder is None or isinstance(holder, str)
    return holder


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize(
    ("how", "code"),
    [("waiting", -signal.SIGTERM), ("blocking", -signal.SIGTERM), ("cancelling", 0), ("exiting", 0)],
)
async def test_a_process_that_is_told_to_end_gives_its_thread_back(
    kind: str, how: str, code: int, lives: LifeServer, tmp_path: Path
) -> None:
    desk = Desk(kind, tmp_path)
    life = lives.start("holding:hold", tmp_path / "log", kind=kind, place=str(tmp_path), thread=THREAD, how=how)
    wait_for(lambda: bool(desk.effects.entries()))
    checkpointer = durable_at(kind, tmp_path)
    assert await holder_of(checkpointer) is not None
    life.signal(signal.SIGTERM)
    assert life.wait(10) == code, life.output()
    assert await holder_of(checkpointer) is None
    agent = desk.agent(checkpointer, wait_seconds=0)
    result = await agent.arun("next.0: pay", thread_id=THREAD)
    assert result.message == "next.0 is done"
    check_history([*result.state.messages, Message.user("and now?")])
    assert "outcome unknown" in str(result.state.tool_executions[0].error)
    await checkpointer.close()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_paused_process_whose_thread_was_taken_over_starts_no_tool_and_is_told(
    kind: str, lives: LifeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(kind, tmp_path)
    args = {"kind": kind, "place": str(tmp_path), "thread": THREAD, "lease_seconds": LEASE_SECONDS}
    life = lives.start("holding:be_paused", tmp_path / "log", **args)
    wait_for(lambda: bool(desk.effects.entries()))
    life.signal(signal.SIGSTOP)
    monkeypatch.setattr(lease, "LEASE_SECONDS", LEASE_SECONDS)
    checkpointer = durable_at(kind, tmp_path)
    began = time.monotonic()
    result = await _taker(checkpointer).arun("taken.0:", thread_id=THREAD)
    assert time.monotonic() - began >= LEASE_SECONDS
    (tmp_path / "wake").touch()
    life.signal(signal.SIGCONT)
    life.succeed()
    assert [one for one in desk.told.entries() if "refused" in one], life.output()
    # The call that was running when the process was paused came to its end; no other began.
    assert [{**one, "ref": one["ref"].rpartition("/")[2]} for one in desk.effects.entries()] == [
        {"ref": "first", "begun": True},
        {"ref": "first", "ended": True},
    ]
    state = await checkpointer.load(THREAD)
    assert state is not None
    assert state.messages == result.state.messages
    check_history([*state.messages, Message.user("and now?")])
    await checkpointer.close()


def _taker(checkpointer: DurableCheckpointer) -> Agent:
    @tool
    async def first(ref: str) -> str:
        return "not called by this one"

    @tool
    async def second(ref: str) -> str:
        return "called by this one"

    return Agent(Clerk(), tools=[first, second], checkpointer=checkpointer, wait_seconds=20)
