"""A run's hold on its thread keeps the contract on every storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from locus.memory.testing import RunContract
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing.rules import MakeStorage


class TestMemory(RunContract):
    @pytest.fixture
    def make_storage(self) -> MakeStorage:
        return MemoryStorage


class TestFile(RunContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: FileStorage(tmp_path / "threads")


class TestSQLite(RunContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: SQLiteStorage(tmp_path / "threads.db")
