"""Schedules of writers with old knowledge: none breaks a thread, and the simulation would tell if one did."""

from __future__ import annotations

from typing import get_args

import pytest

from locus.memory.log import removal
from locus.memory.testing import simulate
from locus.storage.testing.wrapped import Atomic

ATOMIC: tuple[Atomic, ...] = get_args(Atomic)
BATCHES = 6


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_schedule_of_writers_breaks_a_thread(batch: int, certify: bool) -> None:
    looked_at = 0
    for seed in range(batch, 60_000 if certify else 600, BATCHES):
        looked_at += simulate(seed, atomic=ATOMIC[seed // BATCHES % len(ATOMIC)])
    assert looked_at > 500


def test_a_schedule_is_the_same_for_the_same_seed() -> None:
    assert [simulate(seed) for seed in range(5)] == [simulate(seed) for seed in range(5)]


def is_broken(seed: int) -> bool:
    try:
        simulate(seed)
    except AssertionError:
        return True
    return False


async def nothing(*_: object) -> None:
    """What a careless remover does about those that depend on what it removes."""


def test_the_simulation_finds_a_removal_that_forgets_what_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_rebase", nothing)
    assert any(is_broken(seed) for seed in range(300))
