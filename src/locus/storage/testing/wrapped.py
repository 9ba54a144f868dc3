"""A storage around another one, doing a commit in as many steps as its declared level allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from locus.errors import ConflictError
from locus.storage.base import Capabilities, Hit, Key, Op, PartPage, Query, Record, Space, Span, Storage

__all__ = ["Atomic", "WrappedStorage"]

Atomic: TypeAlias = Literal["record", "part", "store"]


class WrappedStorage(Storage):
    """Passes everything on to `inner`, a commit in the steps that a storage of level `atomic` may be stopped between.

    Subclasses say what happens around a step: `_read` before each read, `_write` for each step of a change.
    """

    def __init__(self, inner: Storage, *, atomic: Atomic | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.blocking = inner.blocking
        self._atomic: Atomic = atomic or inner.capabilities.atomic
        self._spaces = inner._spaces

    @property
    def clock(self) -> Callable[[], float]:  # the inner storage stamps the records
        """The inner storage's clock."""
        return self.inner.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        self.inner.clock = clock

    @property
    def capabilities(self) -> Capabilities:
        """Those of the inner storage at the level of this one."""
        return replace(self.inner.capabilities, atomic=self._atomic)

    async def _read(self) -> None:
        """Called before each read."""

    async def _write(self, ops: list[Op]) -> list[str | None]:
        """Do one step of a commit."""
        return await self.inner.commit(ops)

    async def _setup(self, spaces: Sequence[Space]) -> None:
        await self.inner.setup(*spaces)

    async def _verify(self) -> list[str]:
        return await self.inner.verify()

    async def _get(self, keys: list[Key]) -> list[Record | None]:
        await self._read()
        return await self.inner.get(keys)

    async def _scan(self, spans: list[Span]) -> list[list[Record]]:
        await self._read()
        return await self.inner.scan(spans)

    async def _parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage:
        await self._read()
        return await self.inner.parts(space, prefix, cursor=cursor, limit=limit)

    async def _search(self, query: Query) -> list[Hit]:
        await self._read()
        return await self.inner.search(query)

    async def _commit(self, ops: list[Op]) -> list[str | None]:
        revs: list[str | None] = []
        for step in self._steps(ops):
            try:
                revs += await self._write(step)
            except ConflictError as error:
                place = None if error.op_index is None else error.op_index + len(revs)
                raise ConflictError(str(error), op_index=place) from error
        return revs

    async def _purge(self) -> int:
        return await self.inner.purge()

    async def _close(self) -> None:
        await self.inner.close()

    def _steps(self, ops: list[Op]) -> Iterator[list[Op]]:
        """Neighbours that this level does together."""
        step: list[Op] = []
        for op in ops:
            if step and not self._together(step[-1], op):
                yield step
                step = []
            step.append(op)
        yield step

    def _together(self, one: Op, other: Op) -> bool:
        if self._atomic == "part":
            return one.key[:2] == other.key[:2]
        return self._atomic == "store"
