"""The fixtures of the memory contracts: a storage, and objects on it that know nothing of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import CheckpointerFacade, Open
from locus.storage.base import Storage
from locus.storage.testing.rules import MakeStorage
from locus.storage.testing.simulation import FakeClock

__all__ = ["CheckpointerFixtures", "Medium"]


class Medium:
    """One storage for each test."""

    @pytest.fixture
    def make_storage(self) -> MakeStorage:
        """How a storage on this test's own medium is made; each backend's class gives its own."""
        raise NotImplementedError(f"a subclass of {type(self).__name__} defines the fixture make_storage")

    @pytest.fixture
    async def storage(self, make_storage: MakeStorage) -> AsyncIterator[Storage]:
        """The storage itself, to look at what is on it."""
        storage = make_storage()
        yield storage
        await storage.close()

    @pytest.fixture
    def clock(self, storage: Storage) -> FakeClock:
        """The storage's clock, which stands still until it is moved."""
        clock = FakeClock()
        storage.clock = clock
        return clock


class CheckpointerFixtures(Medium):
    """Checkpointers on that storage, async and sync."""

    @pytest.fixture(params=["async", "sync"])
    def kind(self, request: pytest.FixtureRequest) -> type[DurableCheckpointer]:
        """The checkpointer itself, or its sync twin behind `await`."""
        return CheckpointerFacade if request.param == "sync" else DurableCheckpointer

    @pytest.fixture
    async def another(
        self, storage: Storage, make_storage: MakeStorage, kind: type[DurableCheckpointer]
    ) -> AsyncIterator[Open]:
        """Makes a further checkpointer, as another process would have it where the medium can be shared."""
        first, made = storage, list[DurableCheckpointer]()

        def open_one(storage: Storage | None = None, **options: Any) -> DurableCheckpointer:
            if storage is None:
                storage = make_storage() if first.capabilities.shared else first
                storage.clock = first.clock
            made.append(kind(storage, **options))
            return made[-1]

        yield open_one
        for checkpointer in made:
            await checkpointer.close()

    @pytest.fixture
    async def checkpointer(
        self, storage: Storage, kind: type[DurableCheckpointer]
    ) -> AsyncIterator[DurableCheckpointer]:
        """The checkpointer under test."""
        checkpointer = kind(storage, owns_storage=False)
        yield checkpointer
        await checkpointer.close()
