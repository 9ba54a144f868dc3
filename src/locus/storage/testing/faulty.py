"""A storage that fails on purpose, at a chosen write: before it, after it, or by doing it twice."""

from __future__ import annotations

from typing import Literal, TypeAlias

from locus.errors import UnavailableError
from locus.storage.base import Op, Storage
from locus.storage.testing.wrapped import Atomic, WrappedStorage

__all__ = ["Fault", "FaultyStorage", "Stopped"]

Fault: TypeAlias = Literal["fail", "stop", "lose", "repeat"]


class Stopped(BaseException):
    """The process was killed here. No `except Exception` outlives it."""


class FaultyStorage(WrappedStorage):
    """Counts the steps of what it passes on and misbehaves at those it is told to.

    A step is what level `atomic` does all-or-none: at `record` each operation of a commit, at `part` neighbours of one
    part, at `store` the whole commit; a purge is one step too. At write step n (the first is 1, see `writes`):

    - `fail`: `UnavailableError`, nothing is done
    - `stop`: `Stopped`, nothing is done, and nothing after it: every later call raises `Stopped` until `restart()`
    - `lose`: it is done, but the answer is lost: `UnavailableError`
    - `repeat`: it is sent twice, as by a driver that retries; the second answer counts

    While `outage` is true every step, of reads too, fails.
    """

    def __init__(self, inner: Storage, *, atomic: Atomic = "record") -> None:
        super().__init__(inner, atomic=atomic)
        self.reads = 0
        self.writes = 0
        self.outage = False
        self.stopped = False
        self._faults: dict[int, Fault] = {}

    def at(self, step: int, fault: Fault) -> FaultyStorage:
        """Misbehave at write step `step`, counted from the first ever; returns the storage."""
        self._faults[step] = fault
        return self

    def next(self, fault: Fault) -> FaultyStorage:
        """Misbehave at the next write step; returns the storage."""
        return self.at(self.writes + 1, fault)

    def restart(self) -> None:
        """A new process on the same medium: no faults, counts from zero."""
        self.reads = self.writes = 0
        self.outage = self.stopped = False
        self._faults.clear()

    async def _read(self) -> None:
        self._alive()
        self.reads += 1
        self._reachable()

    async def _write(self, ops: list[Op]) -> list[str | None]:
        fault = self._begin()
        revs = await self.inner.commit(ops)
        if fault == "repeat":
            revs = await self.inner.commit(ops)
        self._end(fault)
        return revs

    async def _purge(self) -> int:
        fault = self._begin()
        gone = await self.inner.purge()
        if fault == "repeat":
            gone = await self.inner.purge()
        self._end(fault)
        return gone

    def _begin(self) -> Fault | None:
        self._alive()
        self.writes += 1
        self._reachable()
        fault = self._faults.get(self.writes)
        if fault == "stop":
            self.stopped = True
            raise Stopped(f"stopped before write step {self.writes}")
        if fault == "fail":
            raise UnavailableError(f"write step {self.writes} was made to fail")
        return fault

    def _end(self, fault: Fault | None) -> None:
        if fault == "lose":
            raise UnavailableError(f"the answer of write step {self.writes} was made to be lost")

    def _alive(self) -> None:
        if self.stopped:
            raise Stopped("this process was stopped; call restart(), or put a new storage around the same medium")

    def _reachable(self) -> None:
        if self.outage:
            raise UnavailableError("the storage was made unreachable")
