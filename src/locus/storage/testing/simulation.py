"""Many writers in one thread, interleaved by a seed: the same seed gives the same history."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from random import Random
from typing import Any, TypeVar

from locus._sync import _inline
from locus.storage.base import Op, Storage
from locus.storage.testing.wrapped import Atomic, WrappedStorage

__all__ = ["FakeClock", "SteppedStorage", "run_schedule"]

T = TypeVar("T")


class FakeClock:
    """A clock that stands still until it is moved: `storage.clock = FakeClock()`."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.now += seconds


class _Switch:
    """Where another coroutine may go on."""

    def __await__(self) -> Generator[_Switch, None, None]:
        yield self


class SteppedStorage(WrappedStorage):
    """A storage at each of whose steps `run_schedule` may switch to another coroutine.

    The switch comes before the step, so what a coroutine read may be old by the time it writes. At level `record` the
    operations of a commit are steps of their own. `inner` must not need an event loop: memory, or any blocking driver.
    """

    def __init__(self, inner: Storage, *, atomic: Atomic | None = None) -> None:
        super().__init__(inner, atomic=atomic)
        self.steps = 0

    async def _read(self) -> None:
        await self._switch()

    async def _write(self, ops: list[Op]) -> list[str | None]:
        await self._switch()
        return await self.inner.commit(ops)

    async def _purge(self) -> int:
        await self._switch()
        return await self.inner.purge()

    async def _switch(self) -> None:
        self.steps += 1
        await _Switch()


def run_schedule(
    coroutines: Sequence[Coroutine[Any, Any, T]],
    rng: Random,
    *,
    clock: FakeClock | None = None,
    tick: float = 0.0,
    steps: int = 1_000_000,
) -> list[T | BaseException]:
    """Run all to their ends, taking turns as `rng` says; returns each one's result or exception.

    With a `clock`, each turn moves it by up to `tick` seconds. `asyncio.sleep(0)` is a place to switch too; awaiting
    anything that needs an event loop is an error. More than `steps` turns is taken for a livelock.
    """
    results: list[T | BaseException] = [RuntimeError("not finished")] * len(coroutines)
    waiting = list(range(len(coroutines)))
    mark = _inline.set(True)
    try:
        while waiting:
            steps -= 1
            if steps < 0:
                raise RuntimeError(f"coroutines {waiting} were not finished after all allowed steps: a livelock?")
            if clock is not None and tick:
                clock.advance(rng.random() * tick)
            chosen = rng.randrange(len(waiting))
            outcome = _step(coroutines[waiting[chosen]])
            if outcome is not None:
                results[waiting.pop(chosen)] = outcome[0]
    finally:
        _inline.reset(mark)
        for coroutine in coroutines:
            coroutine.close()
    return results


def _step(coroutine: Coroutine[Any, Any, T]) -> tuple[T | BaseException] | None:
    """Drive to the next switch (None), or to the end."""
    try:
        paused = coroutine.send(None)
        if paused is not None and not isinstance(paused, _Switch):
            coroutine.throw(RuntimeError(f"a simulated coroutine awaited {paused!r}, which needs an event loop"))
    except StopIteration as stop:
        return (stop.value,)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # Stopped is one, and is a result here
        return (error,)
    return None
