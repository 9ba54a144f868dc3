"""Removing: at once for every reader, without harm to what is left, and really."""

from __future__ import annotations

import json
from random import Random

from locus.core.state import AgentState
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.testing.rules import Open, assert_holds, bodies, every_id, kinds, said, save_each, texts
from locus.storage.base import Query, Storage


class DeleteRules:
    async def test_deleting_the_first_leaves_the_rest(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        saved = await save_each(checkpointer, "thread", 5)
        first = next(iter(saved))
        assert await checkpointer.delete("thread", first)
        await assert_holds(checkpointer, "thread", saved, without=[first])
        await assert_holds(another(), "thread", saved, without=[first])

    async def test_deleting_in_the_middle_leaves_what_is_built_on_it(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 6)
        ids = list(saved)
        for removed in ([ids[2]], [ids[2], ids[3]]):
            assert await checkpointer.delete("thread", removed[-1])
            await assert_holds(checkpointer, "thread", saved, without=removed)
            await assert_holds(another(), "thread", saved, without=removed)

    async def test_deleting_the_newest_uncovers_the_one_before(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 4)
        *_, before, newest = saved
        assert await checkpointer.delete("thread", newest)
        await assert_holds(checkpointer, "thread", saved, without=[newest])
        state = said("another way", after=saved[before])
        cold = another()
        after = await cold.save(state, "thread")
        assert after not in saved
        await assert_holds(checkpointer, "thread", {**saved, after: state}, without=[newest])
        [info, *_] = await cold.history("thread")
        assert info["parent_checkpoint_id"] == before

    async def test_deleting_the_last_one_left_ends_the_thread(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        [only] = await save_each(checkpointer, "thread", 1)
        assert await checkpointer.delete("thread", only)
        for one in (checkpointer, another()):
            assert await one.load("thread") is None
            assert await one.list_threads() == []
            assert await one.list_with_metadata() == []
            assert not await one.exists("thread")
            assert await one.delete("thread") is False

    async def test_deleting_a_thread_leaves_nothing_of_it_and_all_of_the_others(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 3)
        other = await save_each(checkpointer, "other", 3)
        assert await checkpointer.delete("thread") is True
        for one in (checkpointer, another()):
            await assert_holds(one, "thread", saved, without=saved)
            await assert_holds(one, "other", other)
            assert await one.list_threads() == ["other"]
            assert [hit["thread_id"] for hit in await one.search("thing1")] == ["other"]

    async def test_deleting_what_is_not_there_is_false(self, checkpointer: DurableCheckpointer) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        first, _ = saved
        assert await checkpointer.delete("nobody") is False
        assert await checkpointer.delete("nobody", first) is False
        assert await checkpointer.delete("thread", "nothing") is False
        assert await checkpointer.delete("thread", first) is True
        assert await checkpointer.delete("thread", first) is False
        assert await checkpointer.delete("thread") is True
        assert await checkpointer.delete("thread") is False
        assert await checkpointer.list_threads() == []

    async def test_a_thread_may_be_begun_again_after_its_end(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        old = await save_each(checkpointer, "thread", 2)
        await checkpointer.delete("thread")
        new = await save_each(another(), "thread", 2)
        assert not set(old) & set(new)
        await assert_holds(checkpointer, "thread", {**old, **new}, without=old)

    async def test_a_deleted_id_may_be_used_again(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        [first, second] = await save_each(checkpointer, "thread", 2)
        await checkpointer.delete("thread", first)
        await checkpointer.save(said("under an old name"), "thread", first)
        assert await every_id(another(), "thread") == [first, second]
        assert texts(await another().load("thread", first)) == ["under an old name"]
        assert await checkpointer.delete("thread", first)
        assert await every_id(another(), "thread") == [second]

    async def test_what_is_deleted_is_gone_from_the_medium(
        self, checkpointer: DurableCheckpointer, storage: Storage
    ) -> None:
        secret = said("the password is swordfish")
        await checkpointer.save(said("hello"), "thread")
        doomed = await checkpointer.save(secret, "thread", metadata={"note": "swordfish"})
        kept = await checkpointer.save(said("goodbye"), "thread")
        assert await checkpointer.delete("thread", doomed)
        records = await bodies(storage, "thread")
        assert "swordfish" not in json.dumps([[record.body, record.text, dict(record.tags)] for record in records])
        assert kinds(records) == ["state", "stub", "state", "mark"]
        assert await storage.search(Query(DEFAULT_TABLE, text="swordfish")) == []
        assert texts(await checkpointer.load("thread", kept)) == ["goodbye"]

    async def test_checkpoints_can_be_deleted_in_any_order(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        for seed in range(2):
            rng, thread = Random(seed), f"thread {seed}"
            saved = await save_each(checkpointer, thread, 8)
            order = rng.sample(list(saved), 8)
            for count in range(1, 9):
                assert await checkpointer.delete(thread, order[count - 1])
                await assert_holds(checkpointer, thread, saved, without=order[:count])
                if count in (3, 7):
                    await assert_holds(another(), thread, saved, without=order[:count])

    async def test_saves_and_deletes_may_alternate(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        rng, state = Random(7), AgentState(agent_id="contract")
        saved: dict[str, AgentState] = {}
        removed: list[str] = []
        for n in range(25):
            state = said(f"message {n}", after=state)
            saved[await checkpointer.save(state, "thread")] = state
            if n % 3 == 2:
                removed.append(rng.choice([one for one in saved if one not in removed]))
                assert await another().delete("thread", removed[-1])
        await assert_holds(checkpointer, "thread", saved, without=removed)
        await assert_holds(another(), "thread", saved, without=removed)
