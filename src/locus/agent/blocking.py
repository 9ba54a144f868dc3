"""Running a coroutine to its end from ordinary code, also from code that a loop is running."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["run_blocking"]

T = TypeVar("T")


class _Keeper:
    """A thread's own loop, kept from call to call: a client that a model made in one call still works in the next."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        self.runner.close()


class _Mine(threading.local):
    keeper: _Keeper | None = None


_mine = _Mine()
_inherited: list[_Keeper] = []


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run on this thread's own loop; inside a running loop, on a loop and thread made for the purpose.

    The caller's context variables are seen. Ctrl-C, and a signal handler that raises `SystemExit`, cancel the work and
    see it end, so that a thread is given back.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if _mine.keeper is None:
            _mine.keeper = _Keeper()
        try:
            return _mine.keeper.runner.run(work, context=contextvars.copy_context())
        except SystemExit:
            # Raised past the work, which still waits in the loop. Later, at exit, it could start no thread to end with.
            keeper, _mine.keeper = _mine.keeper, None
            keeper.runner.close()
            raise
    return _on_own_thread(work)


def _on_own_thread(work: Coroutine[Any, Any, T]) -> T:
    job: Future[T] = Future()
    context = contextvars.copy_context()

    def target() -> None:
        try:
            with asyncio.Runner() as runner:
                job.set_result(runner.run(work, context=context))
        except BaseException as error:  # noqa: BLE001  # the waiting caller's
            job.set_exception(error)

    worker = threading.Thread(target=target, name="locus-run-sync")
    worker.start()
    worker.join()
    return job.result()


def _close() -> None:
    _mine.keeper = None


def _leave_behind() -> None:
    # A loop shares its kernel objects with the parent's: closing it here would silence the parent's.
    if _mine.keeper is not None:
        _inherited.append(_mine.keeper)
        _mine.keeper = None


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)
