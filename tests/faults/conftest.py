"""Where processes are started from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.lives import LifeServer


@pytest.fixture(scope="session")
def lives() -> Iterator[LifeServer]:
    with LifeServer() as server:
        yield server


@pytest.fixture
def quick_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose fsync costs nothing, for tests that count calls and do not need the disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield Path(place)
