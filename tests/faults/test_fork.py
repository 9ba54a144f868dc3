"""A program that made its agent before it forked: parent and children go on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.audit import audit
from tests.faults.lives import LifeServer
from tests.faults.workers.clerk import Desk
from tests.faults.workers.forking import CHILDREN, TURNS


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_an_agent_made_before_a_fork_works_in_the_parent_and_in_every_child(
    kind: str, lives: LifeServer, tmp_path: Path
) -> None:
    lives.start("forking:preload_and_fork", tmp_path / "log", kind=kind, place=str(tmp_path)).succeed()
    own = [*(f"child{number}" for number in range(CHILDREN)), "parent"]
    found = await audit(Desk(kind, tmp_path), ["shared", *own])
    assert not found.wrong, found.wrong
    assert found.answers == 2 + len(own) * 2 * TURNS + CHILDREN
