"""Running a blocking function beside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["offload"]

T = TypeVar("T")


async def offload(function: Callable[[], T], *, name: str = "locus-tool") -> T:
    """Run `function` in a thread of its own, with a copy of the caller's context variables.

    Not the loop's shared pool: that has few workers, and a function that never returns would keep one for good and
    hold up the end of the program. A caller that is cancelled stops waiting; the thread itself cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None is a T here

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except BaseException as caught:  # noqa: BLE001  # whatever it was belongs to the waiting caller
            error = _carried(caught)
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(deliver, result, error)
            except RuntimeError:  # the loop closed just now: nobody waits any more
                return

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


def _carried(error: BaseException) -> BaseException:
    # A future refuses StopIteration, and would re-raise SystemExit through the whole loop.
    if isinstance(error, (StopIteration, SystemExit)):
        wrapped = RuntimeError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped
    return error
