"""Async once, sync for free: run a coroutine to its end from ordinary code.

Features await nothing but their storage. With a blocking driver such a coroutine never really suspends, so it can be
driven inline for about a microsecond. With a network driver it runs on one event-loop thread that the whole process
shares, so pools are never tied to a loop that has ended.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_inline: ContextVar[bool] = ContextVar("locus_inline", default=False)


def is_inline() -> bool:
    """Whether the running coroutine is being driven inline, so that a driver may block."""
    return _inline.get()


def run(coro: Coroutine[Any, Any, T], *, blocking: bool) -> T:
    """Run `coro` to its end: inline when its storage is a blocking driver, else on the shared loop thread."""
    return drive(coro) if blocking else _loop_thread().run(coro)


def drive(coro: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that never suspends."""
    mark = _inline.set(True)
    try:
        coro.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration.value is untyped
    finally:
        _inline.reset(mark)
        coro.close()
    raise RuntimeError("a coroutine driven inline awaited something other than a blocking storage")


class _LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="locus-sync", daemon=True)
        self.thread.start()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self.thread:
            coro.close()
            raise RuntimeError("a sync call was made from Locus's own loop thread; await the async method instead")
        return asyncio.run_coroutine_threadsafe(coro, self.loop).result()


_shared: _LoopThread | None = None
_guard = threading.Lock()


def _loop_thread() -> _LoopThread:
    global _shared
    with _guard:
        if _shared is None or not _shared.thread.is_alive():
            _shared = _LoopThread()
        return _shared


def _forget_after_fork() -> None:
    global _shared, _guard
    _shared, _guard = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
