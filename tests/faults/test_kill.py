"""SIGKILL at any moment: nothing acknowledged is lost, nothing is done twice or off the record."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.faults.audit import audit
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Desk

KILLS, KILLS_TO_CERTIFY = 25, 200  # on each storage
KILLS_PER_THREAD = 5
LONGEST_LIFE = 0.35  # seconds, in which a process takes several turns


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_an_agent_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(
    kind: str, lives: LifeServer, tmp_path: Path, certify: bool
) -> None:
    kills = KILLS_TO_CERTIFY if certify else KILLS
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    log = tmp_path / "log"
    threads: list[str] = []
    for number in range(kills):
        thread = f"thread-{number // KILLS_PER_THREAD}"
        life = lives.start("talking:talk", log, kind=kind, place=str(tmp_path), thread=thread, seed=chance.randrange(10**6))
        time.sleep(chance.uniform(0.0, LONGEST_LIFE))
        assert life.kill() == -9, life.output()
        if thread not in threads:
            threads.append(thread)
    for thread in threads:
        lives.start("talking:conclude", log, kind=kind, place=str(tmp_path), thread=thread, seed=0).succeed()
    found = await audit(Desk(kind, tmp_path), threads)
    print(f"\n{kind}, {kills} kills (seed {seed}): {found}")
    assert not found.wrong, f"seed {seed}: {found.wrong}"
    # The kills met what they were meant to meet: tools that were running.
    assert found.unknown_outcomes + found.runs_again > 0
    assert found.answers >= 2 * len(threads)
