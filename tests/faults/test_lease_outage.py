"""A lease through outages: what was lost on the way costs nobody the thread, and what is over is given back."""

from __future__ import annotations

import pytest

from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ThreadBusyError, UnavailableError
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.run import Turn
from locus.storage.base import Key
from locus.storage.memory import MemoryStorage
from locus.storage.testing import FaultyStorage

THREAD = "thread"
STATE = AgentState().with_message(Message.user("hello"))


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage(MemoryStorage())


async def holder(storage: FaultyStorage) -> object:
    [record] = await storage.get([Key(DEFAULT_TABLE, (THREAD,), "lease")])
    assert record is not None
    return record.body["holder"]


async def test_a_renewal_whose_answer_was_lost_does_not_cost_the_thread(storage: FaultyStorage) -> None:
    run = await DurableCheckpointer(storage).begin(THREAD)
    storage.next("lose")
    run._lease.renew()
    run._lease.renew()
    run.check()
    await run.append(STATE, Turn("turn", "asked"))
    await run.release()
    assert await holder(storage) is None


@pytest.mark.parametrize("fault", ["fail", "lose"])
async def test_a_thread_that_could_not_be_given_back_is_free_for_the_next_run_of_this_process(
    fault: str, storage: FaultyStorage
) -> None:
    checkpointer = DurableCheckpointer(storage)
    run = await checkpointer.begin(THREAD)
    storage.next("fail" if fault == "fail" else "lose")
    with pytest.raises(UnavailableError):
        await run.release()
    await (await checkpointer.begin(THREAD)).release()


async def test_a_thread_that_was_taken_without_our_hearing_of_it_is_free_for_the_next_run(
    storage: FaultyStorage,
) -> None:
    checkpointer = DurableCheckpointer(storage)
    storage.next("lose")
    with pytest.raises(UnavailableError):
        await checkpointer.begin(THREAD)
    assert await holder(storage) is not None
    run = await checkpointer.begin(THREAD)
    with pytest.raises(ThreadBusyError):  # a run that goes on is still waited for
        await checkpointer.begin(THREAD)
    await run.release()


async def test_a_run_that_met_a_plain_save_gives_the_thread_back(storage: FaultyStorage) -> None:
    checkpointer = DurableCheckpointer(storage)
    run = await checkpointer.begin(THREAD)
    await DurableCheckpointer(storage).save(STATE, THREAD)
    with pytest.raises(ThreadBusyError, match="a plain"):
        await run.append(STATE, Turn("turn", "asked"))
    await run.release()
    assert await holder(storage) is None
