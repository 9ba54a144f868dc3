"""Many at once: nothing that was acknowledged is lost, and old knowledge decides nothing."""

from __future__ import annotations

import asyncio

from locus.memory.durable import DurableCheckpointer
from locus.memory.sync import SyncCheckpointer
from locus.memory.testing.rules import Open, assert_holds, every_id, said, save_each, texts
from locus.storage.base import Storage


class ConcurrencyRules:
    async def test_concurrent_saves_are_all_kept(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        states = [said(f"number {n}") for n in range(20)]
        ids = await asyncio.gather(*(checkpointer.save(state, "thread") for state in states))
        cold = another()
        assert sorted(await every_id(cold, "thread")) == sorted(ids)
        for checkpoint_id, state in zip(ids, states, strict=True):
            assert await cold.load("thread", checkpoint_id) == state

    async def test_saves_of_threads_without_a_loop_are_all_kept(self, storage: Storage, another: Open) -> None:
        shared = SyncCheckpointer(DurableCheckpointer(storage, owns_storage=False))

        def work(number: int) -> list[tuple[str, str]]:
            return [(shared.save(said(f"{number}.{n}"), "thread"), f"{number}.{n}") for n in range(6)]

        done = await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(4)))
        saved = dict(one for some in done for one in some)
        assert len(saved) == 24
        cold = another()
        assert sorted(await every_id(cold, "thread")) == sorted(saved)
        for checkpoint_id, text in saved.items():
            assert texts(await cold.load("thread", checkpoint_id)) == [text]

    async def test_of_concurrent_saves_and_deletes_each_does_what_it_said(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 8)
        doomed = list(saved)[::2]
        others = [another() for _ in range(2)]
        states = [said(f"more {n}") for n in range(6)]
        added, gone = await asyncio.gather(
            asyncio.gather(*(others[n % 2].save(state, "thread") for n, state in enumerate(states))),
            asyncio.gather(*(checkpointer.delete("thread", one) for one in doomed)),
        )
        assert gone == [True] * 4
        cold = another()
        expected = {**saved, **dict(zip(added, states, strict=True))}
        assert sorted(await every_id(cold, "thread")) == sorted(set(expected) - set(doomed))
        for checkpoint_id, state in expected.items():
            assert await cold.load("thread", checkpoint_id) == (None if checkpoint_id in doomed else state)

    async def test_a_checkpointer_that_knows_an_old_end_appends_at_the_true_one(self, another: Open) -> None:
        one, two = another(), another()
        saved = await save_each(one, "thread", 2)
        assert await two.load("thread") is not None
        for n in range(4):
            for checkpointer in (one, two, two, one):
                state = said(f"more {n}", after=list(saved.values())[-1])
                saved[await checkpointer.save(state, "thread")] = state
        await assert_holds(another(), "thread", saved)
        await assert_holds(one, "thread", saved)

    async def test_a_checkpointer_that_knows_what_was_deleted_does_not_bring_it_back(self, another: Open) -> None:
        one, two = another(), another()
        saved = await save_each(one, "thread", 4)
        newest = list(saved)[-1]
        assert await two.load("thread") == saved[newest]
        await two.delete("thread", newest)
        assert await one.load("thread", newest) is None
        state = said("goes on", after=saved[newest])
        saved[await one.save(state, "thread")] = state
        await assert_holds(two, "thread", saved, without=[newest])
        await two.delete("thread")
        assert await one.load("thread") is None
        new = said("anew")
        after = await one.save(new, "thread")
        await assert_holds(two, "thread", {**saved, after: new}, without=saved)

    async def test_of_concurrent_copies_onto_one_thread_one_is_made(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        sources = {name: await save_each(checkpointer, name, 3) for name in ("a", "b", "c")}
        outcomes = await asyncio.gather(
            *(another().copy_thread(name, "copy") for name in sources), return_exceptions=True
        )
        made = [name for name, outcome in zip(sources, outcomes, strict=True) if outcome is True]
        assert len(made) <= 1
        if made:
            await assert_holds(another(), "copy", sources[made[0]])
        else:
            assert await another().load("copy") is None
        for name, saved in sources.items():
            await assert_holds(another(), name, saved)
