"""Every storage keeps the contract, async and sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from locus.storage import Storage
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing import FaultyStorage, StorageContract
from locus.storage.testing.rules import MakeStorage


@pytest.mark.backend("memory")
class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def make_storage(self) -> MakeStorage:
        return MemoryStorage


@pytest.mark.backend("file")
class TestFileStorage(StorageContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: FileStorage(tmp_path / "records")


@pytest.mark.backend("sqlite")
class TestSQLiteStorage(StorageContract):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> MakeStorage:
        return lambda: SQLiteStorage(tmp_path / "records.db")


class TestFaultlessFaultyStorage(StorageContract):
    """A wrapper that is told no faults is the storage it wraps, at its own level."""

    @pytest.fixture(params=["record", "part"])
    def make_storage(self, request: pytest.FixtureRequest) -> MakeStorage:
        def make() -> Storage:
            return FaultyStorage(MemoryStorage(), atomic=request.param)

        return make
