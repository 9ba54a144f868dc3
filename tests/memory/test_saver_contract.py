"""The versioned saver keeps its contract on every storage, async and sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from locus.memory.testing import SaverContract
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing.rules import MakeStorage


class TestMemory(SaverContract):
    @pytest.fixture
    def make_storage(self) -> MakeStorage:
        return MemoryStorage


class TestFile(SaverContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: FileStorage(tmp_path / "threads")


class TestSQLite(SaverContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: SQLiteStorage(tmp_path / "threads.db")
