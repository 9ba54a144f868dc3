"""The contract as tests: a backend's proof is a subclass that says how to make one.

    class TestMyStorage(StorageContract):
        @pytest.fixture
        def make_storage(self, tmp_path):
            return lambda: MyStorage(tmp_path / "data")

`make_storage()` gives a new object; within one test all of them are on one medium, which no other test uses. Every rule
runs twice, on the storage and on its sync twin. Needs pytest with pytest-asyncio in auto mode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from locus.storage.base import Storage
from locus.storage.testing.concurrency_rules import ConcurrencyRules
from locus.storage.testing.record_rules import RecordRules
from locus.storage.testing.rules import AsyncFacade, MakeStorage
from locus.storage.testing.search_rules import SearchRules
from locus.storage.testing.time_rules import TimeRules
from locus.storage.testing.value_rules import ValueRules

__all__ = ["StorageContract"]


class StorageContract(RecordRules, ValueRules, SearchRules, TimeRules, ConcurrencyRules):
    """Every rule of `locus.storage.base`, once."""

    @pytest.fixture
    def make_storage(self) -> MakeStorage:
        """How a storage on this test's own medium is made; each backend's class gives its own."""
        raise NotImplementedError("a subclass of StorageContract defines the fixture make_storage")

    @pytest.fixture(params=["async", "sync"])
    def seen_as(self, request: pytest.FixtureRequest) -> Callable[[Storage], Storage]:
        """The storage itself, or its sync twin behind `await`."""
        return AsyncFacade if request.param == "sync" else lambda storage: storage

    @pytest.fixture
    async def storage(self, make_storage: MakeStorage, seen_as: Callable[[Storage], Storage]) -> AsyncIterator[Storage]:
        """The storage under test."""
        storage = seen_as(make_storage())
        yield storage
        await storage.close()

    @pytest.fixture
    async def reopened(
        self, make_storage: MakeStorage, seen_as: Callable[[Storage], Storage]
    ) -> AsyncIterator[Storage]:
        """A second object on the medium of `storage`."""
        storage = seen_as(make_storage())
        yield storage
        await storage.close()
