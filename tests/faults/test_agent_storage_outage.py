"""A storage that fails at any write of a turn: the caller is told, the thread loads, the turn sent again is finished."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from locus.errors import UnavailableError
from locus.memory.durable import DurableCheckpointer
from locus.storage.memory import MemoryStorage
from locus.storage.testing import Fault, FaultyStorage, Stopped
from locus.storage.testing.wrapped import Atomic
from tests.faults.audit import audit
from tests.faults.workers.clerk import Desk, answer_to

THREAD = "thread"
PROMPT = "pay book; charge book look"


async def say(desk: Desk, checkpointer: DurableCheckpointer, number: int) -> None:
    name = f"{THREAD}.{number}"
    # Nobody else holds the thread, so nobody is to be waited for.
    agent = desk.agent(checkpointer, wait_seconds=0)
    result = await agent.arun(f"{name}: {PROMPT}", thread_id=THREAD, turn_id=name)
    assert result.message == answer_to(name)
    desk.told.note(thread=THREAD, answer=result.message, reason=result.stop_reason, error=result.error)


@pytest.mark.parametrize(
    ("fault", "atomic"),
    [("fail", "record"), ("lose", "record"), ("stop", "record"), ("repeat", "record"), ("lose", "store")],
)
async def test_a_write_that_goes_wrong_costs_no_more_than_the_turn_sent_again(
    fault: Fault, atomic: Atomic, tmp_path: Path
) -> None:
    told = 0
    for step in itertools.count(1):
        desk = Desk("memory", tmp_path / str(step), pause=0)
        desk.place.mkdir()
        storage = FaultyStorage(MemoryStorage(), atomic=atomic).at(step, fault)
        first, second = (desk.watched(DurableCheckpointer(storage)) for _ in range(2))
        try:
            await say(desk, first, 0)
        except (UnavailableError, Stopped):
            told += 1
        over = storage.writes < step
        storage.restart()
        # What was stopped is no more; after any other fault the same object goes on.
        await say(desk, second if fault == "stop" else first, 0)
        await say(desk, second, 1)
        found = await audit(desk, [THREAD], DurableCheckpointer(storage))
        assert not found.wrong, f"{fault} at write {step}: {found.wrong}"
        if over:
            break
    assert step > 8
    assert told >= (0 if fault == "repeat" else 8)


async def test_an_outage_at_the_beginning_is_told_and_never_read_as_a_thread_without_history(tmp_path: Path) -> None:
    desk = Desk("memory", tmp_path, pause=0)
    storage = FaultyStorage(MemoryStorage())
    checkpointer = desk.watched(DurableCheckpointer(storage))
    await say(desk, checkpointer, 0)
    storage.outage = True
    with pytest.raises(UnavailableError):
        await say(desk, checkpointer, 1)
    with pytest.raises(UnavailableError):
        await checkpointer.load(THREAD)
    storage.outage = False
    await say(desk, checkpointer, 1)
    found = await audit(desk, [THREAD], checkpointer)
    assert not found.wrong, found.wrong
