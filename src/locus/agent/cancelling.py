"""Stopping a run from outside, and finishing what must not be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["Cancellation", "Cancelled", "end_tasks", "unstoppable"]

T = TypeVar("T")


class Cancelled(Exception):  # noqa: N818  # an outcome, not an error
    """`Agent.cancel` was called for this run."""


class Cancellation:
    """The wish that a run stops, from any thread. Made inside the run's loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wanted = asyncio.Event()
        self._requested = False

    def request(self) -> None:
        """Ask the run to stop; it settles what is open, records that it was cancelled, and ends."""
        self._requested = True  # seen at once; the event only wakes who waits
        self._loop.call_soon_threadsafe(self._wanted.set)

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._requested

    async def wait(self) -> None:
        """Return when somebody asks."""
        await self._wanted.wait()

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` unless the wish comes first: then it is stopped and `Cancelled` is raised."""
        task = asyncio.ensure_future(work)
        wish = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, wish}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Cancelled
            if task.cancelled():  # not by us: a `CancelledError` of its own must not pass for one of the caller's
                raise RuntimeError("the work cancelled itself")
            return task.result()
        finally:
            await end_tasks((task, wish))


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and see it end. Their errors are not raised here: whoever wants them asks the task."""
    every = list(tasks)
    for task in every:
        task.cancel()
    if every:
        await unstoppable(_ended(every))


async def _ended(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in (await asyncio.wait(list(tasks)))[0]:
        if not task.cancelled():
            task.exception()  # counts as seen, so that asyncio does not report it as forgotten


async def unstoppable(work: Coroutine[Any, Any, T]) -> T:
    """See `work` to its end even when the caller is cancelled meanwhile; the cancellation is raised after it."""
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            stopped = error
        except BaseException:  # noqa: BLE001  # the task's own, raised below
            break
    if stopped is not None:
        if not task.cancelled():
            task.exception()  # seen: the cancellation matters more
        raise stopped
    return task.result()
