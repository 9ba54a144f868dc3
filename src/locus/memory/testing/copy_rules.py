"""Copies and branches: a thread with its whole history under another id, and several ways on within one."""

from __future__ import annotations

import pytest

from locus.errors import ConflictError
from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import DAY, Open, assert_holds, every_id, said, save_each, texts, weight
from locus.storage.base import Storage
from locus.storage.testing.faulty import FaultyStorage, Stopped
from locus.storage.testing.simulation import FakeClock


class CopyRules:
    async def test_a_copy_has_every_checkpoint_under_its_id(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "source", 8)
        saved["own"] = said("mine", after=list(saved.values())[-1])
        await checkpointer.save(saved["own"], "source", "own", {"mood": "glad"})
        assert await checkpointer.copy_thread("source", "copy") is True
        for one in (checkpointer, another()):
            await assert_holds(one, "copy", saved)
            await assert_holds(one, "source", saved)
            assert sorted(await one.list_threads()) == ["copy", "source"]
            info = await one.get_metadata("copy")
            assert info is not None
            assert info["metadata"] == {"mood": "glad"}
            assert {hit["thread_id"] for hit in await one.search("thing3")} == {"source", "copy"}
            assert {hit["thread_id"] for hit in await one.query_by_metadata("mood", "glad")} == {"source", "copy"}
        parents = [info["parent_checkpoint_id"] for info in await another().history("copy", 100)]
        assert parents == [*list(saved)[-2::-1], None]

    async def test_a_copy_and_its_source_go_their_own_ways(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "source", 4)
        first, second, *_, newest = saved
        await checkpointer.copy_thread("source", "copy")
        on_copy = said("only here", after=saved[newest])
        added = await checkpointer.save(on_copy, "copy")
        await checkpointer.delete("copy", second)
        await another().delete("source", first)
        await assert_holds(another(), "copy", {**saved, added: on_copy}, without=[second])
        await assert_holds(another(), "source", saved, without=[first])
        await checkpointer.delete("source")
        await assert_holds(another(), "copy", {**saved, added: on_copy}, without=[second])

    async def test_a_copy_leaves_out_what_was_deleted(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        saved = await save_each(checkpointer, "source", 7)
        ids = list(saved)
        removed = [ids[0], ids[3], ids[6]]
        for checkpoint_id in removed:
            await checkpointer.delete("source", checkpoint_id)
        assert await another().copy_thread("source", "copy")
        await assert_holds(another(), "copy", saved, without=removed)
        assert {hit["thread_id"] for hit in await another().search("thing1")} == {"source", "copy"}

    async def test_copying_what_is_not_there_is_false(self, checkpointer: DurableCheckpointer) -> None:
        assert await checkpointer.copy_thread("nobody", "copy") is False
        await save_each(checkpointer, "gone", 1)
        await checkpointer.delete("gone")
        assert await checkpointer.copy_thread("gone", "copy") is False
        assert await checkpointer.list_threads() == []

    async def test_copying_onto_a_thread_is_refused_and_harms_neither(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        source = await save_each(checkpointer, "source", 3)
        dest = await save_each(checkpointer, "dest", 2)
        for name in ("dest", "source"):
            with pytest.raises(ConflictError, match="exists"):
                await checkpointer.copy_thread("source", name)
        await assert_holds(another(), "source", source)
        await assert_holds(another(), "dest", dest)

    async def test_a_thread_that_was_deleted_can_be_copied_onto(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        source = await save_each(checkpointer, "source", 3)
        dest = await save_each(checkpointer, "dest", 2)
        await checkpointer.delete("dest")
        assert await checkpointer.copy_thread("source", "dest")
        await assert_holds(another(), "dest", {**dest, **source}, without=dest)

    async def test_a_long_thread_is_copied_whole(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        saved = await save_each(checkpointer, "source", 120)
        await checkpointer.delete("source", list(saved)[50])
        assert await checkpointer.copy_thread("source", "copy")
        cold = another()
        assert await every_id(cold, "copy") == [one for one in list(saved)[::-1] if one != list(saved)[50]]
        for at in (0, 49, 51, 99, 119):
            checkpoint_id = list(saved)[at]
            assert await cold.load("copy", checkpoint_id) == saved[checkpoint_id]

    async def test_a_copy_of_a_copy_is_a_copy(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        saved = await save_each(checkpointer, "one", 4)
        await checkpointer.copy_thread("one", "two")
        await another().copy_thread("two", "three")
        await assert_holds(another(), "three", saved)

    async def test_a_killed_copy_is_not_seen_and_can_be_made_again(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage, clock: FakeClock
    ) -> None:
        saved = await save_each(checkpointer, "source", 4)
        for step in range(1, 6):
            killed = FaultyStorage(storage).at(step, "stop")
            with pytest.raises(Stopped):
                await another(killed, owns_storage=False).copy_thread("source", "copy")
            cold = another()
            assert await cold.load("copy") is None
            assert await cold.list_threads() == ["source"]
            assert not await cold.exists("copy", next(iter(saved)))
            assert len(await cold.search("thing1")) == 1
        clock.advance(2 * DAY)
        await checkpointer.vacuum(30)
        assert await checkpointer.list_threads() == ["source"]
        assert await checkpointer.copy_thread("source", "copy")
        await assert_holds(another(), "copy", saved)

    async def test_a_save_on_the_leavings_of_a_killed_copy_begins_a_thread(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        await save_each(checkpointer, "source", 4)
        with pytest.raises(Stopped):
            await another(FaultyStorage(storage).at(4, "stop"), owns_storage=False).copy_thread("source", "copy")
        new = await save_each(another(), "copy", 2)
        await assert_holds(checkpointer, "copy", new)

    async def test_branches_within_a_thread_stay_small_and_whole(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        trunk = said(*(f"{n} " + "x" * 500 for n in range(40)))
        saved = {await checkpointer.save(trunk, "thread"): trunk}
        before = await weight(storage, "thread")
        root = next(iter(saved))
        for n in range(6):
            state = await another().load("thread", root)
            assert state is not None
            for m in range(2):
                state = said(f"branch {n}.{m}", after=state)
                saved[await checkpointer.save(state, "thread")] = state
        await assert_holds(another(), "thread", saved)
        assert await weight(storage, "thread") - before < 12 * 1000
        assert texts(await checkpointer.load("thread"))[-2:] == ["branch 5.0", "branch 5.1"]
