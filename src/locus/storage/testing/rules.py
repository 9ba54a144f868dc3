"""What the rules of the contract are written with: capability marks and short ways to say an operation."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from locus.storage.base import ANY, IfRev, Key, Op, PartPage, Put, Query, Record, Space, Span, Storage
from locus.storage.sync import SyncStorage
from locus.storage.testing.wrapped import WrappedStorage

__all__ = ["AsyncFacade", "MakeStorage", "all_parts", "key", "needs", "one", "put", "refuses", "sorts"]

MakeStorage: TypeAlias = Callable[[], Storage]
Test = TypeVar("Test", bound=Callable[..., Awaitable[None]])

NOTES = "notes"
PART = ("thread",)


def needs(capability: str) -> Callable[[Test], Test]:
    """Run a test where the storage declares `capability`; elsewhere its `refuses` twin is the proof."""
    return _only_if(capability, declared=True)


def refuses(capability: str) -> Callable[[Test], Test]:
    """Run a test where the storage declares that it lacks `capability`."""
    return _only_if(capability, declared=False)


def _only_if(capability: str, *, declared: bool) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        @functools.wraps(test)
        async def run(self: object, storage: Storage, **fixtures: object) -> None:
            if bool(getattr(storage.capabilities, capability)) == declared:
                await test(self, storage=storage, **fixtures)

        return run  # type: ignore[return-value]  # pytest reads the wrapped signature

    return mark


def key(sort: str, part: tuple[str, ...] = PART, space: str = NOTES) -> Key:
    """A key in the usual part."""
    return Key(space, part, sort)


async def put(
    storage: Storage,
    sort: str,
    body: dict[str, Any] | None = None,  # JSON
    *,
    part: tuple[str, ...] = PART,
    space: str = NOTES,
    if_rev: IfRev = ANY,
    **fields: Any,  # passed to Put
) -> str:
    """Put one record and return its rev."""
    revs = await storage.commit([Put(Key(space, part, sort), body or {}, if_rev, **fields)])
    assert len(revs) == 1
    assert revs[0] is not None
    return revs[0]


async def one(storage: Storage, sort: str, part: tuple[str, ...] = PART, space: str = NOTES) -> Record | None:
    """The record at a key."""
    (record,) = await storage.get([Key(space, part, sort)])
    return record


async def sorts(storage: Storage, part: tuple[str, ...] = PART, space: str = NOTES) -> list[str]:
    """The sorts of a part in the order of a scan."""
    (records,) = await storage.scan([Span(space, part)])
    return [record.key.sort for record in records]


async def all_parts(
    storage: Storage, space: str = NOTES, prefix: tuple[str, ...] = (), *, limit: int = 100
) -> list[tuple[str, ...]]:
    """Every page of `parts` together."""
    found: list[tuple[str, ...]] = []
    cursor = None
    while True:
        page = await storage.parts(space, prefix, cursor=cursor, limit=limit)
        assert len(page.parts) <= limit
        found += page.parts
        cursor = page.cursor
        if cursor is None:
            return found


async def found(storage: Storage, query: Query) -> list[str]:
    """The sorts of a query's hits in their order."""
    return [hit.record.key.sort for hit in await storage.search(query)]


class AsyncFacade(WrappedStorage):
    """`SyncStorage` behind `await`, so that the same tests run on it."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._sync = SyncStorage(storage)

    async def setup(self, *spaces: Space) -> None:
        self._sync.setup(*spaces)

    async def verify(self) -> list[str]:
        return self._sync.verify()

    async def get(self, keys: Sequence[Key]) -> list[Record | None]:
        return self._sync.get(keys)

    async def scan(self, spans: Sequence[Span]) -> list[list[Record]]:
        return self._sync.scan(spans)

    async def parts(
        self, space: str, prefix: tuple[str, ...] = (), *, cursor: str | None = None, limit: int = 100
    ) -> PartPage:
        return self._sync.parts(space, prefix, cursor=cursor, limit=limit)

    async def commit(self, ops: Sequence[Op]) -> list[str | None]:
        return self._sync.commit(ops)

    async def search(self, query: Query) -> list[Any]:
        return self._sync.search(query)

    async def purge(self) -> int:
        return self._sync.purge()

    async def close(self) -> None:
        self._sync.close()
