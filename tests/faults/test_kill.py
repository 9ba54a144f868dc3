"""SIGKILL at any moment: nothing acknowledged is lost, nothing is done twice or off the record."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.audit import audit
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Desk
from tests.faults.workers.ledger import Ledger

KILLS, KILLS_TO_CERTIFY = 25, 200  # on each storage
KILLS_PER_THREAD = 5
LONGEST_LIFE = 0.35  # seconds, in which a process takes several turns
LONGEST_WAIT = 30.0  # for something to begin


def begins(ledger: Ledger) -> Callable[[], bool]:
    """Whether something was added since."""
    before = len(ledger.entries())
    return lambda: len(ledger.entries()) > before


def live(desk: Desk, lives: LifeServer, thread: str, place: int, chance: random.Random) -> None:
    """A life that ends by SIGKILL. Most end by chance, some when the model was just asked, or a tool has just begun."""
    moment = {0: begins(desk.asked), 2: begins(desk.attempts)}.get(place)
    mood = "leave" if place == 1 else None
    args = {"kind": desk.kind, "place": str(desk.place), "thread": thread, "mood": mood}
    life = lives.start("talking:talk", desk.place / "log", **args, seed=chance.randrange(10**6))
    deadline = time.monotonic() + (LONGEST_WAIT if moment else chance.uniform(0.0, LONGEST_LIFE))
    while time.monotonic() < deadline and not (moment and moment()):
        time.sleep(0.001)
    assert life.kill() == -signal.SIGKILL, life.output()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_an_agent_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(
    kind: str, lives: LifeServer, tmp_path: Path, certify: bool, record_property: Callable[[str, object], None]
) -> None:
    kills = KILLS_TO_CERTIFY if certify else KILLS
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    desk = Desk(kind, tmp_path)
    threads = [f"thread-{number}" for number in range(kills // KILLS_PER_THREAD)]
    for thread in threads:
        for place in range(KILLS_PER_THREAD):
            live(desk, lives, thread, place, chance)
    for thread in threads:
        args = {"kind": kind, "place": str(tmp_path), "thread": thread}
        lives.start("talking:conclude", tmp_path / "log", **args).succeed()
    found = await audit(desk, threads)
    record_property("campaign", f"{kind}: {kills} kills (seed {seed}): {found}")
    assert not found.wrong, f"seed {seed}: {found.wrong}"
    # The kills met what they were meant to meet: tools that were running.
    assert found.unknown_outcomes + found.runs_again > 0
    assert found.answers >= 2 * len(threads)
