"""What is particular to memory: no event loop is needed, nothing is shared, and growth costs nothing."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from locus.storage import ABSENT, Key, Put, Span, SyncStorage
from locus.storage.memory import MemoryStorage


def test_every_object_is_a_storage_of_its_own() -> None:
    with SyncStorage(MemoryStorage()) as one, SyncStorage(MemoryStorage()) as other:
        one.commit([Put(Key("notes", ("a",), "1"), {})])
        assert len(one.scan([Span("notes", ("a",))])[0]) == 1
        assert other.scan([Span("notes", ("a",))]) == [[]]


async def test_a_call_does_not_give_way_to_other_coroutines() -> None:
    storage = MemoryStorage()
    others: list[int] = []
    task = asyncio.ensure_future(_note(others))
    await storage.commit([Put(Key("notes", ("a",), "1"), {})])
    assert others == []
    await task


async def _note(others: list[int]) -> None:
    others.append(1)


def test_sync_calls_work_inside_a_running_loop() -> None:
    async def inside() -> int:
        storage = SyncStorage(MemoryStorage())
        storage.commit([Put(Key("notes", ("a",), "1"), {})])
        return len(storage.parts("notes").parts)

    assert asyncio.run(inside()) == 1


def _fastest(function: object, times: int = 7) -> float:
    assert callable(function)
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        function()
        took.append(time.perf_counter() - begun)
    return min(took)


@pytest.mark.alone
def test_loading_a_long_part_costs_little_more_than_parsing_it() -> None:
    storage = SyncStorage(MemoryStorage())
    body = {"messages": [{"role": "user", "content": "hello " * 60}], "n": 3}
    storage.commit([Put(Key("notes", ("a",), f"{n:06d}"), body, ABSENT) for n in range(2000)])
    text = json.dumps([body] * 2000)
    assert len(storage.scan([Span("notes", ("a",))])[0]) == 2000
    parse = _fastest(lambda: json.loads(text))
    assert _fastest(lambda: storage.scan([Span("notes", ("a",))])) < 4 * parse


@pytest.mark.alone
def test_an_append_costs_the_same_on_a_long_part() -> None:
    storage = SyncStorage(MemoryStorage())
    count = 0

    def append() -> None:
        nonlocal count
        for _ in range(200):
            count += 1
            storage.commit([Put(Key("notes", ("a",), f"{count:09d}"), {"n": count}, ABSENT)])

    short = _fastest(append)
    storage.commit([Put(Key("notes", ("a",), f"{n:09d}"), {}) for n in range(10_000, 60_000)])
    count = 100_000
    assert _fastest(append) < 3 * short
