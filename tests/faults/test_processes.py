"""Many processes on one thread: a turn is whole and in its place, or its caller was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from locus.core.messages import Role
from tests.faults.audit import audit
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Desk, answer_to, durable_at, name_of

THREAD = "everybody's"
TURNS = 3


def together(lives: LifeServer, place: Path, work: str, count: int, **args: Any) -> None:
    """Let processes begin at the same moment, and see them all end well."""
    logs = [place / f"log {me}" for me in range(count)]
    started = [lives.start(f"crowd:{work}", log, place=str(place), me=me, **args) for me, log in enumerate(logs)]
    (place / "begin").touch()
    for life in started:
        life.succeed()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("count", [2, 4, 8])
async def test_processes_that_wait_for_each_other_all_have_their_turns(
    kind: str, count: int, lives: LifeServer, tmp_path: Path
) -> None:
    together(lives, tmp_path, "take_turns", count, kind=kind, thread=THREAD, turns=TURNS, wait_seconds=60)
    desk = Desk(kind, tmp_path)
    found = await audit(desk, [THREAD])
    assert not found.wrong, found.wrong
    assert found.answers == count * TURNS
    await assert_whole_turns(desk, {f"{me}.{number}" for me in range(count) for number in range(TURNS)})


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_processes_that_do_not_wait_are_told_so_and_leave_no_trace(
    kind: str, lives: LifeServer, tmp_path: Path
) -> None:
    together(lives, tmp_path, "take_turns", 4, kind=kind, thread=THREAD, turns=4, wait_seconds=0)
    desk = Desk(kind, tmp_path)
    refused = {one["refused"] for one in desk.told.entries() if "refused" in one}
    every = {f"{me}.{number}" for me in range(4) for number in range(4)}
    found = await audit(desk, [THREAD])
    assert not found.wrong, found.wrong
    assert refused
    assert found.answers == len(every - refused) > 0
    await assert_whole_turns(desk, every - refused)


async def assert_whole_turns(desk: Desk, expected: set[str]) -> None:
    """Question, calls, results and answer of a turn follow each other; of each process, in the order it asked."""
    checkpointer = durable_at(desk.kind, desk.place)
    state = await checkpointer.load(THREAD)
    await checkpointer.close()
    assert state is not None
    messages = state.messages
    assert "".join(message.role.value[0] for message in messages) == "uatta" * len(expected)
    names = [name_of(message) for message in messages if message.role is Role.USER]
    assert set(names) == expected
    for place, name in enumerate(names):
        turn = messages[5 * place : 5 * place + 5]
        assert [call.arguments["ref"] for call in turn[1].tool_calls] == [f"{name}/0/pay", f"{name}/0/book"]
        assert (turn[2].text, turn[3].text, turn[4].text) == (
            f"paid {name}/0/pay",
            f"booked {name}/0/book",
            answer_to(name),
        )
    for me in {name.partition(".")[0] for name in names}:
        mine = [name for name in names if name.partition(".")[0] == me]
        assert mine == sorted(mine)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_checkpoints_that_processes_save_at_the_same_time_are_all_kept(
    kind: str, lives: LifeServer, tmp_path: Path
) -> None:
    together(lives, tmp_path, "save", 4, kind=kind, thread=THREAD, saves=10)
    told = Desk(kind, tmp_path).told.entries()
    checkpointer = durable_at(kind, tmp_path)
    assert len({one["checkpoint"] for one in told}) == len(told) == 40
    assert set(await checkpointer.list_checkpoints(THREAD, limit=100)) == {one["checkpoint"] for one in told}
    for one in told:
        state = await checkpointer.load(THREAD, one["checkpoint"])
        assert state is not None
        writer = one["writer"]
        assert state.agent_id == f"writer {writer}"
        assert [m.text for m in state.messages] == [f"{writer}.{number}" for number in range(one["messages"])]
    await checkpointer.close()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_eight_processes_may_set_up_the_same_storage_at_once(
    kind: str, lives: LifeServer, tmp_path: Path
) -> None:
    together(lives, tmp_path, "arrive", 8, kind=kind)
    desk = Desk(kind, tmp_path)
    found = await audit(desk, [])
    assert not found.wrong, found.wrong
    assert found.checkpoints == 8
    checkpointer = durable_at(kind, tmp_path)
    assert sorted(await checkpointer.list_threads()) == [f"thread {me}" for me in range(8)]
    assert await checkpointer.storage.verify() == []
    await checkpointer.close()
