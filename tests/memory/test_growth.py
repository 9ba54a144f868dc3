"""What a long thread costs, in bytes and in questions asked of the storage; `benchmarks` has what it costs in time."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from locus.core import codec
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.durable import DurableCheckpointer
from locus.memory.saver import DEFAULT_SAVER_TABLE, CheckpointSaver
from locus.memory.testing.rules import bodies, every_id
from locus.storage.base import Key, Record, Span, Storage
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing.wrapped import WrappedStorage
from tests.backends.sqlite_files import WORDS, transactions, wal_of

LENGTH = 400


def message(number: int) -> Message:
    """400 characters that are not said twice."""
    chosen = random.Random(number)
    text = ""
    while len(text) < LENGTH:
        text += chosen.choice(WORDS) + " "
    return Message.user(text[:LENGTH])


async def grow(checkpointer: DurableCheckpointer, count: int, state: AgentState | None = None) -> AgentState:
    """One save after each of so many messages more."""
    state = state or AgentState(agent_id="growing")
    for n in range(len(state.messages), len(state.messages) + count):
        state = state.with_message(message(n))
        await checkpointer.save(state, "thread")
    return state


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class CountingStorage(WrappedStorage):
    """Counts the questions asked and the bytes of the answers."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.calls = self.commits = self.bytes = 0

    async def _scan(self, spans: list[Span]) -> list[list[Record]]:
        found = await super()._scan(spans)
        self._count([record for records in found for record in records])
        return found

    async def _get(self, keys: list[Key]) -> list[Record | None]:
        found = await super()._get(keys)
        self._count([record for record in found if record])
        return found

    async def _read(self) -> None:
        self.calls += 1

    async def _write(self, ops: list[object]) -> list[str | None]:  # type: ignore[override]  # passed on
        self.commits += 1
        return await super()._write(ops)  # type: ignore[arg-type]

    def _count(self, records: list[Record]) -> None:
        self.bytes += sum(len(json.dumps(record.body)) for record in records)

    def reset(self) -> None:
        self.calls = self.commits = self.bytes = 0


@dataclass
class Medium:
    """A storage and how many bytes lie on its medium."""

    storage: CountingStorage
    size: Callable[[], int]


@pytest.fixture(params=["memory", "file", "sqlite"])
async def medium(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Medium]:
    made: dict[str, Callable[[], Storage]] = {
        "memory": MemoryStorage,
        "file": lambda: FileStorage(tmp_path / "threads"),
        "sqlite": lambda: SQLiteStorage(tmp_path / "threads.db", durability="process"),
    }
    storage = CountingStorage(made[request.param]())
    yield Medium(storage, lambda: on_disk(tmp_path))
    await storage.close()


async def stored_bytes(medium: Medium) -> int:
    records = await bodies(medium.storage.inner, "thread")
    return sum(len(json.dumps(record.body)) + len(record.text or "") for record in records)


async def test_two_thousand_messages_take_at_most_4_mb_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    checkpointer = DurableCheckpointer(SQLiteStorage(path, durability="process"))
    state = await grow(checkpointer, 2000)
    await checkpointer.close()
    assert on_disk(tmp_path) <= 4 * 1024 * 1024
    again = DurableCheckpointer(SQLiteStorage(path))
    assert await again.load("thread") == state
    assert len(await again.search(state.messages[1234].text.split()[0])) == 1
    await again.close()


async def test_the_bytes_of_a_save_do_not_depend_on_how_long_the_thread_is(medium: Medium) -> None:
    checkpointer = DurableCheckpointer(medium.storage)
    state, sizes, places = None, [0], [0]
    for _ in range(3):
        state = await grow(checkpointer, 150, state)
        sizes.append(await stored_bytes(medium))
        await checkpointer.close()
        places.append(medium.size())
    assert state is not None
    first, second, third = (after - before for before, after in pairwise(sizes))
    assert max(second, third) < 2 * first
    assert sizes[-1] < 5 * len(state.model_dump_json())
    assert places[-1] < 450 * 2500
    assert await DurableCheckpointer(medium.storage).load("thread") == state


async def test_a_save_at_a_known_end_is_one_commit_and_no_question(medium: Medium) -> None:
    checkpointer = DurableCheckpointer(medium.storage)
    state = await grow(checkpointer, 300)
    medium.storage.reset()
    await grow(checkpointer, 20, state)
    assert (medium.storage.calls, medium.storage.commits) == (0, 20)


async def test_a_save_is_one_transaction_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    checkpointer = DurableCheckpointer(SQLiteStorage(path))
    state = await grow(checkpointer, 3)
    before = transactions(path)
    assert wal_of(path).exists()
    await grow(checkpointer, 6, state)  # so few that the log is not begun anew meanwhile
    assert transactions(path) - before == 6
    await checkpointer.close()


async def test_history_is_listed_without_loading_states(medium: Medium) -> None:
    state = await grow(DurableCheckpointer(medium.storage), 400)
    whole = len(state.model_dump_json())
    cold = DurableCheckpointer(medium.storage)
    medium.storage.reset()
    assert len(await cold.list_checkpoints("thread", 100)) == 100
    assert medium.storage.calls <= 3
    assert medium.storage.bytes < 300 * 1000 < 100 * whole / 10
    medium.storage.reset()
    assert len(await cold.list_with_metadata()) == 1
    assert medium.storage.calls <= 4
    assert medium.storage.bytes < 5000


async def test_the_newest_state_is_loaded_in_two_questions(medium: Medium) -> None:
    state = await grow(DurableCheckpointer(medium.storage), 300)
    cold = DurableCheckpointer(medium.storage)
    medium.storage.reset()
    assert await cold.load("thread") == state
    assert medium.storage.calls == 2
    assert medium.storage.bytes < 5 * len(state.model_dump_json())
    medium.storage.reset()
    assert await cold.load("thread") == state
    assert medium.storage.calls == 1
    assert medium.storage.bytes < 5000


async def test_a_window_that_slides_costs_what_is_new(medium: Medium) -> None:
    checkpointer = DurableCheckpointer(medium.storage)
    messages: list[Message] = []
    for n in range(200):
        messages = [*messages, message(n)][-40:]
        await checkpointer.save(AgentState(run_id="r", messages=tuple(messages)), "thread")
    assert await stored_bytes(medium) < 200 * 4 * LENGTH
    assert len(await every_id(checkpointer, "thread")) == 200


async def test_a_saver_with_a_growing_channel_costs_what_is_new(medium: Medium) -> None:
    saver = CheckpointSaver(medium.storage)
    messages: list[dict[str, str]] = []
    for n in range(150):
        messages = [*(dict(one) for one in messages), {"role": "user", "content": message(n).text}]
        data = {"channel_values": {"messages": messages}, "v": 1}
        await saver.put(thread_id="thread", checkpoint_id=f"{n}", checkpoint_data=data)
    records = await bodies(medium.storage.inner, "thread", "ns:default", table=DEFAULT_SAVER_TABLE)
    assert sum(len(json.dumps(record.body)) + len(record.text or "") for record in records) < 150 * 4 * LENGTH


async def test_space_is_given_back_after_a_thread_is_deleted(medium: Medium) -> None:
    checkpointer = DurableCheckpointer(medium.storage)
    await grow(checkpointer, 150)
    had = await stored_bytes(medium)
    assert await checkpointer.delete("thread")
    assert await stored_bytes(medium) < had / 5


async def test_a_large_state_is_encoded_and_decoded_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: dict[str, set[bool]] = {"dump": set(), "load": set()}
    dump, load, loop_thread = codec.dump_items, codec.load_items, threading.get_ident()

    def dumped(field: str, items: Sequence[Any]) -> list[Any]:
        if len(items) > 1000:
            where["dump"].add(threading.get_ident() == loop_thread)
        return dump(field, items)

    def loaded(field: str, items: Sequence[Any]) -> tuple[Any, ...]:
        if len(items) > 1000:
            where["load"].add(threading.get_ident() == loop_thread)
        return load(field, items)

    monkeypatch.setattr(codec, "dump_items", dumped)
    monkeypatch.setattr(codec, "load_items", loaded)
    checkpointer = DurableCheckpointer(SQLiteStorage(tmp_path / "threads.db", durability="process"))
    state = AgentState().with_messages([message(n) for n in range(1001)])
    await checkpointer.save(state, "thread")
    for n in range(1001, 2010):
        state = state.with_message(message(n))
        await checkpointer.save(state, "thread")
    assert await DurableCheckpointer(checkpointer.storage).load("thread") == state
    assert where == {"dump": {False}, "load": {False}}
    await checkpointer.close()
