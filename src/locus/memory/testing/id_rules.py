"""Ids: any non-empty string, kept apart from all others and given back exactly; anything else refused harmlessly."""

from __future__ import annotations

from typing import Any

import pytest

from locus.errors import InputError
from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import Open, assert_holds, every_id, said, save_each, texts

HOSTILE_IDS = [
    "a:b", "a:b:c", "../../x", "..", ".", "/", "latest", "lease", "touch", "n000000000001", "'", '"', "';--", "`", "%", "_",
    "*", "?", "[x]", "😀", "line\nbreak", "line\r\nbreak", "a\0b", "\0", "\ud800", "x\udfff", "x" * 2000, "x" * 1999,
    "é" * 2000, "thread", "Thread", "THREAD", "thread ", " thread", "é", "e\u0301", "ß", "ss", "中文", "a/b", "a\\b", "-rf",
    "null", "None", "0", "c00000001-0123456789", "c00000002-0123456789", "c000000000001-0123456789", "a b", "1 a",
]  # fmt: skip
NO_IDS: list[Any] = ["", None, 0, 1, 1.5, True, b"x", ["x"], ("x",), {}]


class IdRules:
    async def test_any_thread_id_is_kept_apart_and_given_back_exactly(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        for n, name in enumerate(HOSTILE_IDS):
            await checkpointer.save(said(f"thread{n}"), name, metadata={"n": n})
        cold = another()
        assert sorted(await cold.list_threads(1000)) == sorted(HOSTILE_IDS)
        for n, name in enumerate(HOSTILE_IDS):
            assert texts(await cold.load(name)) == [f"thread{n}"]
            assert len(await every_id(cold, name)) == 1
            [found] = await cold.query_by_metadata("n", n)
            assert found["thread_id"] == name
        for hit in await cold.search("thread7 thread20"):
            assert hit["thread_id"] in (HOSTILE_IDS[7], HOSTILE_IDS[20])
        assert sorted(info["thread_id"] for info in await cold.list_with_metadata(1000)) == sorted(HOSTILE_IDS)

    async def test_deleting_one_hostile_thread_leaves_its_twins(self, checkpointer: DurableCheckpointer) -> None:
        for name in HOSTILE_IDS:
            await checkpointer.save(said(name), name)
        for name in HOSTILE_IDS[::2]:
            assert await checkpointer.delete(name)
        assert sorted(await checkpointer.list_threads(1000)) == sorted(HOSTILE_IDS[1::2])
        for name in HOSTILE_IDS[1::2]:
            assert texts(await checkpointer.load(name)) == [name]

    async def test_any_checkpoint_id_is_kept_apart_and_given_back_exactly(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = {name: said(f"checkpoint {n}") for n, name in enumerate(HOSTILE_IDS)}
        for name, state in saved.items():
            assert await checkpointer.save(state, "thread", name) == name
        await assert_holds(another(), "thread", saved)
        for name in HOSTILE_IDS[::2]:
            assert await checkpointer.delete("thread", name)
        await assert_holds(another(), "thread", saved, without=HOSTILE_IDS[::2])

    async def test_an_id_that_looks_generated_does_not_hide_the_one_that_is(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        for n, look in enumerate(("c00000001-0123456789", "c00000004-0123456789", "c00000002-0123456789")):
            saved[look] = said(f"looks generated {n}")
            await checkpointer.save(saved[look], "thread", look)
        await assert_holds(another(), "thread", saved)
        await checkpointer.delete("thread", "c00000001-0123456789")
        await assert_holds(another(), "thread", saved, without=["c00000001-0123456789"])

    async def test_the_same_checkpoint_id_in_two_threads_is_two_checkpoints(
        self, checkpointer: DurableCheckpointer
    ) -> None:
        await checkpointer.save(said("one"), "first", "mine")
        await checkpointer.save(said("two"), "second", "mine")
        assert await checkpointer.delete("first", "mine")
        assert texts(await checkpointer.load("second", "mine")) == ["two"]

    async def test_what_can_be_no_id_is_refused_and_harms_nothing(self, checkpointer: DurableCheckpointer) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        for bad in NO_IDS:
            asked = [
                checkpointer.save(said("x"), bad),
                checkpointer.load(bad),
                checkpointer.list_checkpoints(bad),
                checkpointer.history(bad),
                checkpointer.exists(bad),
                checkpointer.delete(bad),
                checkpointer.get_metadata(bad),
                checkpointer.copy_thread(bad, "copy"),
                checkpointer.copy_thread("thread", bad),
            ]
            if bad is not None:
                asked += [
                    checkpointer.save(said("x"), "thread", bad),
                    checkpointer.load("thread", bad),
                    checkpointer.exists("thread", bad),
                    checkpointer.delete("thread", bad),
                    checkpointer.get_metadata("thread", bad),
                ]
            for ask in asked:
                with pytest.raises(InputError, match=r"(thread|checkpoint)_id must"):
                    await ask
        await assert_holds(checkpointer, "thread", saved)
        assert await checkpointer.list_threads() == ["thread"]

    async def test_a_pattern_is_a_string(self, checkpointer: DurableCheckpointer) -> None:
        bad: list[Any] = [None, 3, ["*"]]
        for pattern in bad:
            with pytest.raises(InputError, match="pattern"):
                await checkpointer.list_threads(pattern=pattern)
