"""The base of storages whose drivers block: their functions run on threads, or inline for sync callers."""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

from locus._sync import is_inline
from locus.storage.base import Hit, Key, Op, PartPage, Query, Record, Space, Span, Storage

__all__ = ["BlockingStorage"]

T = TypeVar("T")


class BlockingStorage(Storage):
    """Base for drivers that block: hooks are plain functions, named `do_...`.

    Under an event loop they run on worker threads; for sync callers they run inline.
    """

    blocking: bool = True
    workers: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_owner = 0

    @abstractmethod
    def do_setup(self, spaces: Sequence[Space]) -> None: ...

    @abstractmethod
    def do_verify(self) -> list[str]: ...

    @abstractmethod
    def do_get(self, keys: list[Key]) -> list[Record | None]: ...

    @abstractmethod
    def do_scan(self, spans: list[Span]) -> list[list[Record]]: ...

    @abstractmethod
    def do_parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage: ...

    @abstractmethod
    def do_commit(self, ops: list[Op]) -> list[str | None]: ...

    @abstractmethod
    def do_search(self, query: Query) -> list[Hit]: ...

    @abstractmethod
    def do_purge(self) -> int: ...

    @abstractmethod
    def do_close(self) -> None: ...

    async def _setup(self, spaces: Sequence[Space]) -> None:
        await self.offload(self.do_setup, spaces)

    async def _verify(self) -> list[str]:
        return await self.offload(self.do_verify)

    async def _get(self, keys: list[Key]) -> list[Record | None]:
        return await self.offload(self.do_get, keys)

    async def _scan(self, spans: list[Span]) -> list[list[Record]]:
        return await self.offload(self.do_scan, spans)

    async def _parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage:
        return await self.offload(self.do_parts, space, prefix, cursor, limit)

    async def _commit(self, ops: list[Op]) -> list[str | None]:
        return await self.offload(self.do_commit, ops)

    async def _search(self, query: Query) -> list[Hit]:
        return await self.offload(self.do_search, query)

    async def _purge(self) -> int:
        return await self.offload(self.do_purge)

    async def _close(self) -> None:
        try:
            await self.offload(self.do_close)  # it may wait for the disk, or for another process
        finally:
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.shutdown(wait=False)

    async def compute(self, function: Callable[[], T]) -> T:
        """Do work that takes long on a worker thread."""
        return await self.offload(function)

    async def offload(self, function: Callable[..., T], *args: Any) -> T:  # Any: passed through to `function`
        """Run a blocking function here for a sync caller, on a worker thread otherwise."""
        if is_inline():
            return function(*args)
        if self._pool is None or self._pool_owner != os.getpid():  # threads do not survive a fork
            self._pool_owner = os.getpid()
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="locus-storage")
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
