"""What the versioned saver promises, as tests; see `locus.memory.testing.checkpointer` for how to run them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from locus.errors import ConfigError, ConflictError, CorruptRecordError, InputError
from locus.memory.durable import DurableCheckpointer
from locus.memory.saver import DEFAULT_SAVER_TABLE, CheckpointSaver
from locus.memory.testing.id_rules import HOSTILE_IDS, NO_IDS
from locus.memory.testing.medium import Medium
from locus.memory.testing.rules import SaverFacade, said, texts, weight
from locus.storage.base import Delete, Key, Put, Storage
from locus.storage.testing.rules import MakeStorage
from locus.storage.testing.simulation import FakeClock

__all__ = ["SaverContract"]

OpenSaver = Callable[..., CheckpointSaver]
DATA: dict[str, Any] = {
    "v": 1,
    "ts": "2024-01-01T00:00:00",
    "channel_values": {"messages": [{"role": "user", "content": "hi"}], "n": None, "deep": {"list": [[1], {"a": []}]}},
    "channel_versions": {"messages": "0001.5", "😀": 2},
    "empty": [],
    "nested": {"a": {"b": {"c": {"d": {"e": [1, 2, {"f": []}]}}}}},
    "pending": [None, True, 1.5, "x\0\ud800"],
    "": {"": [""]},
}


async def put(
    saver: CheckpointSaver, checkpoint_id: str, data: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """Put a checkpoint into the usual thread."""
    data = dict(data) if data is not None else {"id": checkpoint_id}
    await saver.put(**{"thread_id": "thread", "checkpoint_id": checkpoint_id, "checkpoint_data": data, **options})


async def get(saver: CheckpointSaver, checkpoint_id: str | None = None, **options: Any) -> dict[str, Any] | None:
    """The data of a checkpoint of the usual thread."""
    found = await saver.get(**{"thread_id": "thread", "checkpoint_id": checkpoint_id, **options})
    return found["checkpoint"] if found else None


async def ids(saver: CheckpointSaver, **options: Any) -> list[str]:
    """The checkpoint ids of the usual thread."""
    found = await saver.list_checkpoints(**{"thread_id": "thread", "limit": 1000, **options})
    return [one["checkpoint_id"] for one in found]


class SaverContract(Medium):
    """Every rule of the versioned saver, once."""

    @pytest.fixture(params=["async", "sync"])
    def kind(self, request: pytest.FixtureRequest) -> type[CheckpointSaver]:
        """The saver itself, or its sync twin behind `await`."""
        return SaverFacade if request.param == "sync" else CheckpointSaver

    @pytest.fixture
    async def another(
        self, storage: Storage, make_storage: MakeStorage, kind: type[CheckpointSaver]
    ) -> AsyncIterator[OpenSaver]:
        """Makes a further saver, as another process would have it where the medium can be shared."""
        made: list[CheckpointSaver] = []

        def open_one(**options: Any) -> CheckpointSaver:
            on = make_storage() if storage.capabilities.shared else storage
            on.clock = storage.clock
            made.append(kind(on, **options))
            return made[-1]

        yield open_one
        for saver in made:
            await saver.close()

    @pytest.fixture
    async def saver(self, storage: Storage, kind: type[CheckpointSaver]) -> AsyncIterator[CheckpointSaver]:
        """The saver under test."""
        saver = kind(storage, owns_storage=False)
        yield saver
        await saver.close()

    async def test_a_checkpoint_comes_back_exactly(
        self, saver: CheckpointSaver, another: OpenSaver, clock: FakeClock
    ) -> None:
        await put(saver, "one", DATA, metadata={"step": 1, "tags": ["a"]}, parent_checkpoint_id="zero")
        for one in (saver, another()):
            assert await one.get(thread_id="thread", checkpoint_id="one") == {
                "checkpoint_id": "one",
                "parent_checkpoint_id": "zero",
                "checkpoint": DATA,
                "metadata": {"step": 1, "tags": ["a"]},
                "created_at": clock(),
            }
            assert await get(one) == DATA

    async def test_what_is_not_there_is_none(self, saver: CheckpointSaver) -> None:
        assert await get(saver) is None
        assert await get(saver, "one") is None
        assert await ids(saver) == []
        assert await saver.get_writes(thread_id="thread", checkpoint_id="one") == []
        assert await saver.delete_thread("thread") is False
        await put(saver, "one")
        assert await get(saver, "two") is None
        assert await get(saver, thread_id="other") is None
        assert await get(saver, checkpoint_ns="other") is None

    async def test_checkpoints_are_listed_newest_first(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        names = [f"{n:02}" for n in range(25)]
        parent = None
        for name in names:
            await put(saver, name, {"n": [name]}, parent_checkpoint_id=parent)
            parent = name
        for one in (saver, another()):
            assert await ids(one) == names[::-1]
            found = await one.list_checkpoints(thread_id="thread")
            assert [info["checkpoint"] for info in found] == [{"n": [name]} for name in names[:14:-1]]
            assert [info["parent_checkpoint_id"] for info in found] == names[-2:13:-1]
            assert await ids(one, limit=0) == []
            assert await ids(one, before="05") == ["04", "03", "02", "01", "00"]
            assert await ids(one, before="05", limit=2) == ["04", "03"]
            assert await ids(one, before="00") == []
            assert await ids(one, before="not there") == []
            assert await get(one) == {"n": ["24"]}

    async def test_namespaces_are_apart(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        spaces = ["default", "", "inner", "inner|deeper", "ns:", "Inner", "inner ", "😀", "a/b", "x" * 2000]
        for space in spaces:
            await put(saver, "one", {"space": space}, checkpoint_ns=space)
            await saver.put_writes(
                thread_id="thread", checkpoint_id="one", task_id="t", writes=[("c", space)], checkpoint_ns=space
            )
        cold = another()
        for space in spaces:
            assert await get(cold, checkpoint_ns=space) == {"space": space}
            assert await ids(cold, checkpoint_ns=space) == ["one"]
            writes = await cold.get_writes(thread_id="thread", checkpoint_id="one", checkpoint_ns=space)
            assert [write["value"] for write in writes] == [space]

    async def test_the_same_put_again_is_a_retry_and_another_is_a_conflict(
        self, saver: CheckpointSaver, another: OpenSaver
    ) -> None:
        await put(saver, "one", DATA, metadata={"a": (1, 2)}, parent_checkpoint_id="zero")
        await put(saver, "two", {"x": 1})
        for one in (saver, another()):
            await put(one, "one", DATA, metadata={"a": [1, 2]}, parent_checkpoint_id="zero")
            await put(one, "one", DATA, metadata={"a": (1, 2)}, parent_checkpoint_id="zero")
            others: list[dict[str, Any]] = [
                {"data": {**DATA, "v": 2}, "metadata": {"a": [1, 2]}, "parent_checkpoint_id": "zero"},
                {"data": DATA, "metadata": {"a": [1]}, "parent_checkpoint_id": "zero"},
                {"data": DATA, "metadata": {"a": [1, 2]}},
            ]
            for other in others:
                with pytest.raises(ConflictError, match="'one'"):
                    await put(one, "one", **other)
            assert await ids(one) == ["two", "one"]
            assert await get(one, "one") == DATA

    async def test_of_many_puts_under_one_id_one_is_kept(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        await asyncio.gather(*(put(saver, "same", {"x": 1}) for _ in range(6)))
        assert await ids(another()) == ["same"]
        tries = [put(saver, "contested", {"x": n}) for n in range(6)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if outcome] == [ConflictError] * 5
        assert await ids(another()) == ["contested", "same"]

    async def test_concurrent_puts_are_all_kept(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        savers = [saver, another()]
        await asyncio.gather(*(put(savers[n % 2], f"{n}", {"list": [n] * n}) for n in range(12)))
        cold = another()
        assert sorted(await ids(cold)) == sorted(f"{n}" for n in range(12))
        for n in range(12):
            assert await get(cold, f"{n}") == {"list": [n] * n}

    async def test_what_is_put_is_not_changed_by_the_caller(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        data: dict[str, Any] = {"messages": [{"content": "one"}], "n": {"m": 1}}
        await put(saver, "one", data)
        data["messages"][0]["content"] = "changed in place"
        data["messages"].append({"content": "two"})
        data["n"]["m"] = 2
        await put(saver, "two", data)
        read = await get(saver, "two")
        assert read == data
        read["messages"].clear()
        for one in (saver, another()):
            assert await get(one, "one") == {"messages": [{"content": "one"}], "n": {"m": 1}}
            assert await get(one, "two") == data

    async def test_a_list_that_grows_costs_what_is_new(
        self, saver: CheckpointSaver, another: OpenSaver, storage: Storage
    ) -> None:
        data: dict[str, Any] = {"channel_values": {"messages": []}}
        for n in range(60):
            grown = [*data["channel_values"]["messages"], {"id": n, "content": f"message {n} " + "x" * 300}]
            data = {"channel_values": {"messages": grown}, "step": n}
            await put(saver, f"{n}", data)
        total = await weight(storage, "thread", "ns:default", table=DEFAULT_SAVER_TABLE)
        assert total < 60 * 1400
        cold = another()
        assert await get(cold) == data
        middle = await get(cold, "30")
        assert middle is not None
        assert len(middle["channel_values"]["messages"]) == 31

    async def test_lists_may_change_into_anything(self, saver: CheckpointSaver, another: OpenSaver) -> None:
        shapes: list[dict[str, Any]] = [
            {"a": [1, 2, 3]}, {"a": []}, {}, {"a": {"b": [1]}}, {"a": [{"b": [1]}]}, {"a": None}, {"a": [3, 2, 1]},
            {"a": ["1", 1, 1.0, True, None]}, {"b": {"a": [1]}}, {"a": [1, 2, 3], "b": [1, 2, 3]}, {'["a"]': [1]},
            {"a.b": [1], "a": {"b": [2]}},
        ]  # fmt: skip
        for n, shape in enumerate(shapes):
            await put(saver, f"{n}", shape)
        cold = another()
        for n, shape in enumerate(shapes):
            assert repr(await get(cold, f"{n}")) == repr(shape)

    async def test_pending_writes_are_kept_in_the_order_of_task_and_index(
        self, saver: CheckpointSaver, another: OpenSaver
    ) -> None:
        await put(saver, "one")
        for task in ("b", "a", "B"):
            await saver.put_writes(
                thread_id="thread",
                checkpoint_id="one",
                task_id=task,
                writes=[("messages", {"from": task}), ("messages", [1]), ("😀", None)],
            )
        await saver.put_writes(thread_id="thread", checkpoint_id="two", task_id="a", writes=[("x", 1)])
        for one in (saver, another()):
            found = await one.get_writes(thread_id="thread", checkpoint_id="one")
            assert [(row["task_id"], row["idx"]) for row in found] == [
                (task, idx) for task in ("B", "a", "b") for idx in range(3)
            ]
            assert found[0] == {"task_id": "B", "idx": 0, "channel": "messages", "value": {"from": "B"}}
            only = await one.get_writes(thread_id="thread", checkpoint_id="one", task_id="a")
            assert [row["value"] for row in only] == [{"from": "a"}, [1], None]

    async def test_writes_of_a_task_again_take_the_place_of_the_first(self, saver: CheckpointSaver) -> None:
        for writes in ([("a", 1), ("b", 2)], [("a", 1), ("b", 2)], [("c", 3)]):
            await saver.put_writes(thread_id="thread", checkpoint_id="one", task_id="t", writes=writes)
            found = await saver.get_writes(thread_id="thread", checkpoint_id="one")
            assert [(row["channel"], row["value"]) for row in found] == writes

    async def test_deleting_a_thread_reaches_all_its_namespaces_and_writes(
        self, saver: CheckpointSaver, another: OpenSaver
    ) -> None:
        for thread in ("thread", "other"):
            for space in ("default", "", "inner"):
                for name in ("one", "two"):
                    await put(saver, name, thread_id=thread, checkpoint_ns=space)
                    await saver.put_writes(
                        thread_id=thread, checkpoint_id=name, task_id="t", writes=[("a", 1)], checkpoint_ns=space
                    )
        await saver.put_writes(thread_id="writes only", checkpoint_id="x", task_id="t", writes=[("a", 1)])
        assert await saver.delete_thread("thread") is True
        assert await saver.delete_thread("thread") is False
        assert await saver.delete_thread("writes only") is True
        for one in (saver, another()):
            for space in ("default", "", "inner"):
                assert await ids(one, checkpoint_ns=space) == []
                assert await one.get_writes(thread_id="thread", checkpoint_id="one", checkpoint_ns=space) == []
                assert await ids(one, thread_id="other", checkpoint_ns=space) == ["two", "one"]
                kept = await one.get_writes(thread_id="other", checkpoint_id="one", checkpoint_ns=space)
                assert len(kept) == 1
        await put(another(), "one", {"new": 1})
        assert await get(saver) == {"new": 1}

    async def test_any_id_is_kept_apart_and_given_back_exactly(
        self, saver: CheckpointSaver, another: OpenSaver
    ) -> None:
        for n, name in enumerate(HOSTILE_IDS):
            await put(saver, "one", {"n": n}, thread_id=name, checkpoint_ns="another")
            await put(saver, name, {"n": n})
            await saver.put_writes(thread_id="thread", checkpoint_id=name, task_id=name, writes=[(name, n)])
        cold = another()
        assert await ids(cold) == HOSTILE_IDS[::-1]
        for n, name in enumerate(HOSTILE_IDS):
            assert await get(cold, thread_id=name, checkpoint_ns="another") == {"n": n}
            assert await get(cold, name) == {"n": n}
            [row] = await cold.get_writes(thread_id="thread", checkpoint_id=name)
            assert row == {"task_id": name, "idx": 0, "channel": name, "value": n}

    async def test_what_can_be_no_id_is_refused_and_harms_nothing(self, saver: CheckpointSaver) -> None:
        await put(saver, "one")
        for bad in NO_IDS:
            asked: list[Awaitable[object]] = [put(saver, "x", thread_id=bad), put(saver, bad, {})]
            asked.append(get(saver, thread_id=bad))
            asked.append(saver.put_writes(thread_id="thread", checkpoint_id=bad, task_id="t", writes=[]))
            asked.append(saver.put_writes(thread_id="thread", checkpoint_id="one", task_id=bad, writes=[]))
            asked.append(saver.put_writes(thread_id="thread", checkpoint_id="one", task_id="t", writes=[(bad, 1)]))
            asked += [saver.get_writes(thread_id="thread", checkpoint_id=bad), saver.delete_thread(bad)]
            if bad is not None:
                asked += [get(saver, bad), put(saver, "x", parent_checkpoint_id=bad), ids(saver, before=bad)]
            if not isinstance(bad, str):
                asked += [put(saver, "x", checkpoint_ns=bad), ids(saver, checkpoint_ns=bad)]
            for ask in asked:
                with pytest.raises(InputError):
                    await ask
        assert await ids(saver) == ["one"]
        assert await saver.get_writes(thread_id="thread", checkpoint_id="one") == []

    async def test_what_is_not_json_is_refused_and_harms_nothing(self, saver: CheckpointSaver) -> None:
        await put(saver, "one")
        unstorable: list[Any] = [math.nan, math.inf, object(), {1: 2}, {1, 2}, b"x"]
        for value in unstorable:
            for ask in (
                put(saver, "x", {"list": [value]}),
                put(saver, "x", {"value": value}),
                put(saver, "x", {}, metadata={"value": value}),
                saver.put_writes(thread_id="thread", checkpoint_id="one", task_id="t", writes=[("c", value)]),
            ):
                with pytest.raises(InputError):
                    await ask
        wrong: list[Any] = [[], "text", 3, None]
        for value in wrong:
            with pytest.raises(InputError):
                await saver.put(thread_id="thread", checkpoint_id="x", checkpoint_data=value)
        with pytest.raises(InputError):
            await put(saver, "x", {}, metadata=[1])
        for limit in (-1, 1.5, True):
            with pytest.raises(InputError, match="limit"):
                await ids(saver, limit=limit)
        assert await ids(saver) == ["one"]

    async def test_a_damaged_checkpoint_is_reported(
        self, saver: CheckpointSaver, another: OpenSaver, storage: Storage
    ) -> None:
        for name in ("one", "two", "three"):
            await put(saver, name, {"list": [name]})
        key = Key(DEFAULT_SAVER_TABLE, ("thread", "ns:default"), "n000000000002")
        (record,) = await storage.get([key])
        assert record is not None
        for body in ({"hello": "world"}, {**record.body, "small": None}, {**record.body, "small": {"lists": ["x"]}}):
            await storage.commit([Put(key, body)])
            with pytest.raises(CorruptRecordError):
                await another().list_checkpoints(thread_id="thread")
        await storage.commit([Delete(key)])
        assert await get(another(), "one") == {"list": ["one"]}
        assert await another().delete_thread("thread")
        assert await ids(another()) == []

    async def test_a_saver_and_a_checkpointer_share_a_storage_without_meeting(
        self, saver: CheckpointSaver, storage: Storage
    ) -> None:
        checkpointer = DurableCheckpointer(storage, owns_storage=False)
        await put(saver, "one", {"x": 1})
        await checkpointer.save(said("hello"), "thread", "one")
        assert await saver.delete_thread("thread")
        assert texts(await checkpointer.load("thread", "one")) == ["hello"]
        await put(saver, "one", {"x": 2})
        await checkpointer.delete("thread")
        assert await get(saver, "one") == {"x": 2}

    async def test_a_sweep_leaves_nothing_of_a_thread_that_was_deleted_a_day_ago(
        self, saver: CheckpointSaver, storage: Storage, clock: FakeClock
    ) -> None:
        for name in ("one", "two", "three"):
            await put(saver, name, thread_id="gone")
            await put(saver, name)
        assert await saver.delete_thread("gone")
        await saver.sweep()
        assert len((await storage.parts(DEFAULT_SAVER_TABLE)).parts) == 2
        clock.advance(2 * 86_400)
        await saver.sweep()
        assert (await storage.parts(DEFAULT_SAVER_TABLE)).parts == [("thread", "ns:default")]
        assert await ids(saver) == ["three", "two", "one"]

    async def test_a_thread_expires_after_its_last_use(self, another: OpenSaver, clock: FakeClock) -> None:
        saver = another(ttl_seconds=100)
        await put(saver, "one")
        clock.advance(90)
        await put(saver, "two")
        clock.advance(90)
        assert await ids(another()) == ["two", "one"]
        clock.advance(11)
        assert await ids(saver) == []
        await put(saver, "three")
        assert await ids(another()) == ["three"]
        bad: list[Any] = [0, -5]
        for ttl in bad:
            with pytest.raises(ConfigError, match="ttl_seconds"):
                another(ttl_seconds=ttl)
