"""Every rule of a turn is tried on each kind of checkpointer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from locus.memory.backends import FileCheckpointer, MemoryCheckpointer, SQLiteCheckpointer
from locus.memory.checkpointer import BaseCheckpointer
from tests.agent.foreign import ForeignCheckpointer


@pytest.fixture(params=["foreign", "memory", "sqlite", "file"])
async def checkpointer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCheckpointer]:
    made: BaseCheckpointer
    if request.param == "foreign":
        made = ForeignCheckpointer()
    elif request.param == "memory":
        made = MemoryCheckpointer()
    elif request.param == "sqlite":
        made = SQLiteCheckpointer(str(tmp_path / "threads.db"))
    else:
        made = FileCheckpointer(base_dir=str(tmp_path / "threads"))
    yield made
    await made.close()
