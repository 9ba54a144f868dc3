"""Many at once: coroutines, threads and event loops on one storage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from locus.errors import ConflictError
from locus.storage.base import ABSENT, Delete, Put, Storage
from locus.storage.testing.rules import key, one, put, sorts

THREADS = 8


async def _creates(storage: Storage, sort: str, who: int) -> bool:
    try:
        await put(storage, sort, {"who": who}, if_rev=ABSENT)
    except ConflictError:
        return False
    return True


async def _adds_one(storage: Storage) -> None:
    while True:
        record = await one(storage, "count")
        count = record.body["count"] if record else 0
        try:
            await put(storage, "count", {"count": count + 1}, if_rev=record.rev if record else ABSENT)
        except ConflictError:
            continue
        return


async def _in_threads(work: Callable[[int], Awaitable[None]]) -> None:
    """Do `work` in eight threads at once, each with an event loop of its own."""

    async def run(number: int) -> None:
        await work(number)

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, run(number)) for number in range(THREADS)))


class ConcurrencyRules:
    async def test_of_many_that_create_one_key_exactly_one_wins(self, storage: Storage) -> None:
        for sort in ("1", "2", "3"):
            won = await asyncio.gather(*(_creates(storage, sort, who) for who in range(20)))
            assert won.count(True) == 1
            record = await one(storage, sort)
            assert record is not None
            assert record.body == {"who": won.index(True)}

    async def test_no_conditional_change_is_lost(self, storage: Storage) -> None:
        await asyncio.gather(*(_adds_one(storage) for _ in range(12)))
        record = await one(storage, "count")
        assert record is not None
        assert record.body == {"count": 12}

    async def test_threads_with_loops_of_their_own_lose_nothing(self, storage: Storage) -> None:
        won: list[tuple[str, int]] = []

        async def work(number: int) -> None:
            for step in range(4):
                await put(storage, f"own-{number}-{step}", {"n": number}, if_rev=ABSENT)
                if await _creates(storage, f"shared-{step}", number):
                    won.append((f"shared-{step}", number))
            await _adds_one(storage)

        await _in_threads(work)
        assert sorted(sort for sort, _ in won) == [f"shared-{step}" for step in range(4)]
        for sort, number in won:
            record = await one(storage, sort)
            assert record is not None
            assert record.body == {"who": number}
        count = await one(storage, "count")
        assert count is not None
        assert count.body == {"count": THREADS}
        assert len(await sorts(storage)) == 4 * THREADS + 4 + 1

    async def test_one_object_serves_one_event_loop_after_another(self, storage: Storage) -> None:
        for number in range(3):
            await asyncio.to_thread(asyncio.run, _creates(storage, str(number), number))
        assert await sorts(storage) == ["0", "1", "2"]

    async def test_parts_that_are_emptied_while_others_write_lose_nothing(self, storage: Storage) -> None:
        async def work(number: int) -> None:
            for step in range(4):
                part = (f"p{step}",)
                await put(storage, f"gone-{number}", part=part)
                await put(storage, f"kept-{number}", part=(f"p{step + 1}",), if_rev=ABSENT)
                record = await one(storage, f"gone-{number}", part)
                assert record is not None
                await storage.commit([Put(key(f"gone-{number}", part), {}, record.rev)])
                await storage.commit([Delete(key(f"gone-{number}", part))])

        await _in_threads(work)
        for step in range(1, 5):
            assert await sorts(storage, (f"p{step}",)) == [f"kept-{number}" for number in range(THREADS)]
        assert await sorts(storage, ("p0",)) == []

    async def test_a_cancelled_call_leaves_the_storage_usable(self, storage: Storage) -> None:
        tasks = [asyncio.ensure_future(put(storage, f"{n}", {"n": n})) for n in range(8)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await put(storage, "after", {"n": 1})
        assert set(await sorts(storage)) >= {"1", "3", "5", "7", "after"}
