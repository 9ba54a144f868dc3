"""A disk that is really full: the error says so, what is there can be read, and with space again it goes on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locus.agent import Agent
from locus.core.messages import Message, Role
from locus.errors import UnavailableError
from locus.models.history import check_history
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Desk, durable_at, name_of

THREAD = "thread"


@pytest.fixture
def small_disk(require_root: Callable[[str], None], tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    require_root("a full disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"not run: a full disk: mounting is not permitted here ({mounted.stderr.decode().strip()})")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


async def until_told(agent: Agent, number: int) -> int:
    """Take turns until one fails; some still fit into what the storage has reserved. Its number."""
    told: UnavailableError | None = None
    while told is None:
        try:
            await agent.arun(f"t.{number}: pay book", thread_id=THREAD, turn_id=f"t.{number}")
            number += 1
        except UnavailableError as error:
            told = error
    assert re.search("(?i)(full|no space).*free some space", str(told))
    return number


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_full_disk_is_told_and_when_there_is_space_again_the_thread_goes_on(
    kind: str, small_disk: Path, lives: LifeServer, tmp_path: Path
) -> None:
    desk = Desk(kind, tmp_path, pause=0)
    checkpointer = durable_at(kind, small_disk)
    agent = desk.agent(checkpointer, wait_seconds=0)
    answered = 0
    ballast = small_disk / "ballast"
    for _ in range(3):
        await agent.arun(f"t.{answered}: pay book", thread_id=THREAD, turn_id=f"t.{answered}")
        answered += 1
        fill(ballast)
        answered = await until_told(agent, answered)
        state = await durable_at(kind, small_disk).load(THREAD)
        assert state is not None
        ballast.unlink()
        result = await agent.arun(f"t.{answered}: pay book", thread_id=THREAD, turn_id=f"t.{answered}")
        answered += 1
        names = [name_of(message) for message in result.state.messages if message.role is Role.USER]
        assert names == [f"t.{number}" for number in range(answered)]
        check_history([*result.state.messages, Message.user("and now?")])
    refs = [one["ref"] for one in desk.effects.entries()]
    assert len(refs) == len(set(refs))
    await checkpointer.close()
    place = {"kind": kind, "place": str(small_disk)}
    lives.start("faulted:wrap_up", tmp_path / "log", **place, thread=THREAD, number=answered).succeed()
