"""Edges of threads: logs that begin anew, ids that are replaced, states larger than a record, removals half done."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from locus.core.messages import Message
from locus.core.state import AgentState
from locus.errors import ConflictError, InputError
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.saver import CheckpointSaver
from locus.storage.base import Capabilities, Hit, Key, Query, Record, Span
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing import FaultyStorage, Stopped
from locus.storage.testing.simulation import FakeClock


class Meddled(MemoryStorage):
    """Counts what it is asked for, and lets somebody else act once in front of a read."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], Awaitable[Any]]] = {}
        self.scans = 0

    async def _act(self, what: str) -> None:
        if act := self.before.pop(what, None):
            await act()

    async def _search(self, query: Query) -> list[Hit]:
        await self._act("search")
        return await super()._search(query)

    async def _get(self, keys: list[Key]) -> list[Record | None]:
        await self._act("get")
        return await super()._get(keys)

    async def _scan(self, spans: list[Span]) -> list[list[Record]]:
        self.scans += 1
        return await super()._scan(spans)


class Narrow(MemoryStorage):
    """A storage whose records hold a megabyte."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, max_record_bytes=1_000_000)


async def grown(checkpointer: DurableCheckpointer, thread: str) -> AgentState:
    """Save a state that no single record can hold, a message at a time."""
    state = AgentState()
    for number in range(20):
        state = state.with_message(Message.user(f"{number} " + "x" * 60_000))
        await checkpointer.save(state, thread)
    return state


def said(*texts: str) -> AgentState:
    return AgentState(messages=tuple(map(Message.user, texts)))


def texts(state: AgentState | None) -> list[str]:
    return [message.text for message in state.messages] if state else []


async def test_a_thread_that_expired_and_began_anew_under_the_same_ids_is_read_anew() -> None:
    storage = MemoryStorage()
    storage.clock = clock = FakeClock()
    one, other = (DurableCheckpointer(storage, ttl_seconds=100) for _ in range(2))
    await one.save(said("before"), "thread", "latest")
    clock.advance(200)
    await other.save(said("after"), "thread", "latest")
    assert texts(await one.load("thread")) == ["after"]


async def test_a_checkpoint_is_not_built_on_one_that_expired_under_the_same_id() -> None:
    storage = MemoryStorage()
    storage.clock = clock = FakeClock()
    one, other = (CheckpointSaver(storage, ttl_seconds=100) for _ in range(2))
    await one.put(thread_id="t", checkpoint_id="1", checkpoint_data={"list": ["a", "b"]})
    clock.advance(200)
    await other.put(thread_id="t", checkpoint_id="1", checkpoint_data={"list": ["z"]})
    await one.put(thread_id="t", checkpoint_id="2", checkpoint_data={"list": ["a", "b", "c"]})
    found = await other.get(thread_id="t")
    assert found is not None
    assert found["checkpoint"] == {"list": ["a", "b", "c"]}


async def test_a_put_that_differs_in_the_kind_of_a_value_is_a_conflict() -> None:
    saver = CheckpointSaver(MemoryStorage())
    await saver.put(thread_id="t", checkpoint_id="1", checkpoint_data={"value": 1, "other": 2})
    await saver.put(thread_id="t", checkpoint_id="1", checkpoint_data={"other": 2, "value": 1})
    with pytest.raises(ConflictError):
        await saver.put(thread_id="t", checkpoint_id="1", checkpoint_data={"value": True, "other": 2})


async def test_a_replaced_id_does_not_make_later_saves_dearer(tmp_path: Path) -> None:
    async with SQLiteStorage(tmp_path / "edges.db") as storage:
        checkpointer = DurableCheckpointer(storage)
        for number in range(30):
            await checkpointer.save(said("word", f"number{number}"), "thread")
            await checkpointer.save(said("word", f"latest{number}"), "thread", "latest")
        [[last]] = await storage.scan([Span("locus_checkpoints", ("thread",), "n", "o", reverse=True, limit=1)])
        assert "gone" not in last.body
        assert [hit["checkpoint_id"] for hit in await checkpointer.search("latest29")] == ["latest"]
        assert await checkpointer.search("latest28") == []
        assert texts(await DurableCheckpointer(storage).load("thread", "latest")) == ["word", "latest29"]
        assert len(await checkpointer.list_checkpoints("thread", 100)) == 31


async def test_an_id_that_is_replaced_while_it_is_looked_for_is_found() -> None:
    storage = Meddled()
    checkpointer, other = DurableCheckpointer(storage), DurableCheckpointer(storage)
    await checkpointer.save(said("one"), "thread", "mine")

    def replaced(text: str) -> Callable[[], Awaitable[Any]]:
        return lambda: other.save(said(text), "thread", "mine")

    storage.before["search"] = replaced("two")
    assert texts(await checkpointer.load("thread", "mine")) == ["two"]
    storage.before["search"] = replaced("three")
    assert await checkpointer.exists("thread", "mine")
    storage.before["search"] = replaced("four")
    assert await checkpointer.get_metadata("thread", "mine") is not None


async def test_a_thread_whose_newest_is_deleted_meanwhile_still_has_metadata() -> None:
    storage = Meddled()
    checkpointer, other = DurableCheckpointer(storage), DurableCheckpointer(storage)
    first, *later = [await checkpointer.save(said(str(number)), "thread") for number in range(3)]
    storage.before["get"] = lambda: other.delete("thread", later[1])
    found = await checkpointer.get_metadata("thread")
    assert found is not None
    assert found["checkpoint_id"] == later[0]
    storage.before["get"] = lambda: other.delete("thread", later[0])
    assert [one["checkpoint_id"] for one in await checkpointer.list_with_metadata()] == [first]


async def test_a_removal_that_was_killed_hides_nothing_that_is_left() -> None:
    inner = MemoryStorage()
    checkpointer = DurableCheckpointer(inner)
    first = await checkpointer.save(said("apple"), "thread", metadata={"kind": "fruit"})
    second = await checkpointer.save(said("apple", "apple pie"), "thread", metadata={"kind": "fruit"})
    faulty = FaultyStorage(inner).at(2, "stop")  # the mark is on record, and so is the content of what it removes
    with pytest.raises(Stopped):
        await DurableCheckpointer(faulty).delete("thread", second)
    assert await checkpointer.list_checkpoints("thread") == [first]
    assert [one["checkpoint_id"] for one in await checkpointer.query_by_metadata("kind", "fruit")] == [first]
    assert [one["checkpoint_id"] for one in await checkpointer.search("apple")] == [first]


async def test_a_state_larger_than_a_record_can_still_grow() -> None:
    storage = Narrow()
    checkpointer = DurableCheckpointer(storage)
    state = await grown(checkpointer, "large")
    for number in range(150):
        state = state.with_message(Message.user(f"more {number}"))
        await checkpointer.save(state, "large")
    loaded = await DurableCheckpointer(storage).load("large")
    assert texts(loaded) == texts(state)


async def test_what_cannot_be_re_based_does_not_keep_vacuum_from_other_threads() -> None:
    storage = Narrow()
    storage.clock = clock = FakeClock()
    checkpointer = DurableCheckpointer(storage)
    state = await grown(checkpointer, "a large one")
    await checkpointer.save(said("old"), "old")
    clock.advance(86_400)
    await checkpointer.save(state, "a large one")
    with pytest.raises(InputError):
        await checkpointer.vacuum(0.5)
    assert await checkpointer.list_threads() == ["a large one"]
    assert texts(await DurableCheckpointer(storage).load("a large one")) == texts(state)


async def test_a_pattern_of_many_stars_is_answered_at_once() -> None:
    checkpointer = DurableCheckpointer(MemoryStorage())
    await checkpointer.save(said("text"), "a" * 30)
    began = time.perf_counter()
    assert await checkpointer.list_threads(pattern="*a" * 12 + "*b") == []
    assert time.perf_counter() - began < 1.0
    for pattern in ("*a" * 30, "a*" * 30, "**", "*a*a*", "a" * 30):
        assert await checkpointer.list_threads(pattern=pattern) == ["a" * 30]
    for pattern in ("*a" * 31, "a" * 16 + "*" + "a" * 15, "", "b*", "*b"):
        assert await checkpointer.list_threads(pattern=pattern) == []


async def test_metadata_that_refers_to_itself_is_refused() -> None:
    checkpointer = DurableCheckpointer(MemoryStorage())
    itself: list[Any] = []
    itself.append(itself)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in (itself, deep):
        with pytest.raises(InputError):
            await checkpointer.save(said("text"), "thread", metadata={"value": value})
    assert not await checkpointer.exists("thread")


async def test_a_read_puts_off_the_end_of_a_thread_once_in_a_while() -> None:
    storage = MemoryStorage()
    storage.clock = clock = FakeClock()
    checkpointer = DurableCheckpointer(storage, ttl_seconds=100)
    saved = await checkpointer.save(said("text"), "thread")
    clock.advance(20)
    await checkpointer.load("thread")
    touched = Key("locus_checkpoints", ("thread",), "touch")
    [first] = await storage.get([touched])
    await checkpointer.load("thread")
    [second] = await storage.get([touched])
    assert first is not None
    assert first == second
    for _ in range(5):
        clock.advance(60)
        assert texts(await checkpointer.load("thread", saved)) == ["text"]


async def test_a_hit_that_only_old_checkpoints_hold_is_found_in_few_round_trips() -> None:
    storage = Meddled()
    checkpointer = DurableCheckpointer(storage)
    window: tuple[Message, ...] = ()
    ids: list[str] = []
    for number in range(200):
        window = (*window, Message.user(f"word{number}"))[-5:]
        ids.append(await checkpointer.save(AgentState(messages=window), "thread"))
    storage.scans = 0
    assert [hit["checkpoint_id"] for hit in await checkpointer.search("word3")] == [ids[7]]
    assert storage.scans < 20


async def test_a_checkpoint_of_a_thread_larger_than_a_record_is_deleted_with_its_content() -> None:
    storage = Narrow()
    checkpointer = DurableCheckpointer(storage)
    state = await grown(checkpointer, "thread")
    ids = (await checkpointer.list_checkpoints("thread", 100))[::-1]
    assert await checkpointer.delete("thread", ids[17])
    cold = DurableCheckpointer(storage)
    assert await cold.load("thread", ids[17]) is None
    for number, checkpoint_id in enumerate(ids):
        if number != 17:
            assert texts(await cold.load("thread", checkpoint_id)) == texts(state)[: number + 1]
    (record,) = await storage.get([Key(DEFAULT_TABLE, ("thread",), "n000000000018")])
    assert record is not None
    assert record.body["kind"] == "stub"
    assert (await cold.search("17"))[0]["checkpoint_id"] == ids[19]
