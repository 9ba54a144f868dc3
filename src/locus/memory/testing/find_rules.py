"""Finding: by metadata, by words, by a pattern of ids; always what is true of the thread now."""

from __future__ import annotations

from typing import Any

import pytest

from locus.core.messages import Message, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.errors import InputError
from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import Open, said, save_each
from locus.storage.testing.simulation import FakeClock

VALUES: list[Any] = [
    "a", "A", "", "1", "true", "null", 1, 2, -1.5, 2**70, True, False, None, [], [1, 2], [2, 1], ["1"], {}, {"a": 1},
    {"a": {"b": [None]}}, "😀", "a\0b", "\ud800",
]  # fmt: skip


async def threads_with(checkpointer: DurableCheckpointer, key: str, value: Any) -> list[str]:
    return sorted(found["thread_id"] for found in await checkpointer.query_by_metadata(key, value))


async def hits(checkpointer: DurableCheckpointer, query: str) -> list[tuple[str, str]]:
    return sorted((hit["thread_id"], hit["checkpoint_id"]) for hit in await checkpointer.search(query))


class FindRules:
    async def test_metadata_is_found_by_any_value_and_kinds_do_not_mix(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        for n, value in enumerate(VALUES):
            await checkpointer.save(said("x"), f"thread {n:02}", metadata={"key": value, "other": n})
        cold = another()
        for n, value in enumerate(VALUES):
            [found] = await cold.query_by_metadata("key", value)
            assert found["thread_id"] == f"thread {n:02}"
            assert found["metadata"] == {"key": value, "other": n}
            assert type(found["metadata"]["key"]) is type(value)
        assert await cold.query_by_metadata("key", "not there") == []
        assert await cold.query_by_metadata("missing", None) == []

    async def test_a_number_is_the_same_however_it_is_written(self, checkpointer: DurableCheckpointer) -> None:
        await checkpointer.save(said("x"), "thread", metadata={"n": 1})
        assert await threads_with(checkpointer, "n", 1.0) == ["thread"]
        assert await threads_with(checkpointer, "n", True) == []

    async def test_a_metadata_query_asks_the_newest_checkpoint_or_all(
        self, checkpointer: DurableCheckpointer, another: Open, clock: FakeClock
    ) -> None:
        ids = []
        for mood in ("sad", "glad", "sad", "calm"):
            ids.append(await checkpointer.save(said(mood), "thread", metadata={"mood": mood}))
            clock.advance(1)
        await checkpointer.save(said("x"), "other", metadata={"mood": "sad"})
        for one in (checkpointer, another()):
            assert await threads_with(one, "mood", "sad") == ["other"]
            assert await threads_with(one, "mood", "calm") == ["thread"]
            found = await one.query_by_metadata("mood", "sad", history=True)
            assert [info["checkpoint_id"] for info in found if info["thread_id"] == "thread"] == [ids[2], ids[0]]
            assert len(found) == 3
            assert len(await one.query_by_metadata("mood", "sad", 2, history=True)) == 2
            assert await one.query_by_metadata("mood", "calm", 0) == []

    async def test_deleting_the_newest_makes_the_metadata_before_it_true_again(
        self, checkpointer: DurableCheckpointer
    ) -> None:
        first = await checkpointer.save(said("x"), "thread", metadata={"mood": "sad"})
        second = await checkpointer.save(said("y"), "thread", metadata={"mood": "glad"})
        assert await threads_with(checkpointer, "mood", "sad") == []
        await checkpointer.delete("thread", second)
        assert await threads_with(checkpointer, "mood", "glad") == []
        assert await threads_with(checkpointer, "mood", "sad") == ["thread"]
        await checkpointer.delete("thread", first)
        assert await checkpointer.query_by_metadata("mood", "sad", history=True) == []

    async def test_many_threads_are_found_page_after_page(self, checkpointer: DurableCheckpointer) -> None:
        for n in range(60):
            await checkpointer.save(said("x"), f"thread {n}", metadata={"even": n % 2 == 0})
            if n % 3 == 0:  # found, and no longer true
                await checkpointer.save(said("y"), f"thread {n}")
        expected = [f"thread {n}" for n in range(60) if n % 2 == 0 and n % 3]
        assert await threads_with(checkpointer, "even", True) == sorted(expected)
        assert len(await checkpointer.query_by_metadata("even", True, 5)) == 5

    async def test_metadata_can_be_asked_for(self, checkpointer: DurableCheckpointer, clock: FakeClock) -> None:
        start = clock()
        first = await checkpointer.save(said("x"), "thread", metadata={"n": 1, "tags": ["a", {"b": None}]})
        clock.advance(5)
        second = await checkpointer.save(said("y"), "thread")
        info = await checkpointer.get_metadata("thread", first)
        assert info == {
            "checkpoint_id": first,
            "created_at": start,
            "updated_at": start,
            "metadata": {"n": 1, "tags": ["a", {"b": None}]},
        }
        newest = await checkpointer.get_metadata("thread")
        assert newest is not None
        assert (newest["checkpoint_id"], newest["metadata"], newest["created_at"]) == (second, {}, start + 5)

    async def test_a_metadata_key_is_a_non_empty_string(self, checkpointer: DurableCheckpointer) -> None:
        bad: list[Any] = ["", None, 3]
        for key in bad:
            with pytest.raises(InputError, match="key"):
                await checkpointer.query_by_metadata(key, 1)

    async def test_threads_are_listed_with_the_metadata_of_their_newest(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        for n in range(5):
            await checkpointer.save(said("x"), f"thread {n}", metadata={"old": n})
            await checkpointer.save(said("y"), f"thread {n}", f"own {n}", {"new": n})
        await checkpointer.delete("thread 3")
        found = await another().list_with_metadata()
        assert sorted((info["thread_id"], info["checkpoint_id"], info["metadata"]["new"]) for info in found) == [
            (f"thread {n}", f"own {n}", n) for n in (0, 1, 2, 4)
        ]
        assert {"created_at", "updated_at"} <= found[0].keys()
        assert len(await another().list_with_metadata(2)) == 2
        assert await another().list_with_metadata(0) == []

    async def test_a_star_in_a_pattern_stands_for_anything_and_nothing_else_does(
        self, checkpointer: DurableCheckpointer
    ) -> None:
        names = ["user:1", "user:2", "user.1", "USER:1", "[a]", "a", "a?b", "axb", "a.b", "line\nbreak", "x(y", "a\\b"]
        for name in names:
            await save_each(checkpointer, name, 1)
        for pattern, expected in (
            ("*", names),
            ("user:*", ["user:1", "user:2"]),
            ("*:1", ["user:1", "USER:1"]),
            ("[a]", ["[a]"]),
            ("a?b", ["a?b"]),
            ("a.b", ["a.b"]),
            ("*(*", ["x(y"]),
            ("line*", ["line\nbreak"]),
            ("*break", ["line\nbreak"]),
            ("a*b", ["a?b", "axb", "a.b", "a\\b"]),
            ("**a**", [name for name in names if "a" in name]),
            ("user", []),
            ("", []),
        ):
            assert sorted(await checkpointer.list_threads(pattern=pattern)) == sorted(expected), pattern
        assert len(await checkpointer.list_threads(3)) == 3
        assert await checkpointer.list_threads(0) == []

    async def test_more_threads_than_a_page_are_all_listed(self, checkpointer: DurableCheckpointer) -> None:
        names = {f"thread {n}" for n in range(130)}
        for name in names:
            await checkpointer.save(said("x"), name)
        assert set(await checkpointer.list_threads(1000)) == names
        assert len(await checkpointer.list_threads()) == 100
        assert {info["thread_id"] for info in await checkpointer.list_with_metadata(1000)} == names

    async def test_search_finds_what_was_said_and_what_a_tool_returned(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        call = ToolCall(id="c", name="look", arguments={"city": "Reykjavik"})
        state = said("Where is my umbrella?")
        await checkpointer.save(state, "thread")
        state = said(Message.assistant("one moment", tool_calls=[call]), after=state)
        await checkpointer.save(state, "thread")
        state = said(Message.tool("in the wardrobe", "c"), after=state)
        execution = ToolExecution(tool_name="look", tool_call_id="d", result={"place": "cloakroom"}, error="jammed")
        newest = await checkpointer.save(state.with_tool_execution(execution), "thread")
        await checkpointer.save(said("nothing of the kind"), "other")
        for one in (checkpointer, another()):
            for word in ("umbrella", "UMBRELLA", "wardrobe", "reykjavik", "cloakroom", "jammed"):
                assert await hits(one, word) == [("thread", newest)], word
            assert await hits(one, "elephant") == []
            [hit] = await one.search("umbrella")
            assert hit.keys() >= {"thread_id", "checkpoint_id", "score", "updated_at"}

    async def test_search_answers_with_the_newest_checkpoint_that_still_holds_it(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        first = said("I like walnuts", "and rain")
        await checkpointer.save(first, "thread")
        second = await checkpointer.save(said("fine", after=first), "thread")
        edited = said("I like almonds", "and rain", "fine", "next")
        third = await checkpointer.save(edited, "thread")
        for one in (checkpointer, another()):
            assert await hits(one, "walnuts") == [("thread", second)]
            assert await hits(one, "almonds") == [("thread", third)]
        await checkpointer.delete("thread", second)
        assert [thread for thread, _ in await hits(another(), "walnuts")] == ["thread"]

    async def test_search_does_not_find_what_is_removed(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        only = await checkpointer.save(said("a pelican"), "one")
        await checkpointer.save(said("a pelican"), "two")
        doomed = await checkpointer.save(said("a pelican"), "three")
        await checkpointer.save(said("a heron"), "three")
        assert [thread for thread, _ in await hits(checkpointer, "pelican")] == ["one", "three", "two"]
        await checkpointer.delete("one", only)
        await checkpointer.delete("two")
        await checkpointer.delete("three", doomed)
        assert await hits(another(), "pelican") == []
        assert [thread for thread, _ in await hits(another(), "heron")] == ["three"]

    async def test_search_still_finds_what_a_removed_checkpoint_handed_on(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 6)
        *rest, newest = saved
        for checkpoint_id in (rest[2], rest[0], rest[3]):
            await checkpointer.delete("thread", checkpoint_id)
            for n in range(1, 7):
                assert await hits(another(), f"thing{n}") == [("thread", newest)], (checkpoint_id, n)

    async def test_a_thread_is_found_once_and_as_many_as_asked_for(self, checkpointer: DurableCheckpointer) -> None:
        for n in range(30):
            await checkpointer.save(said("apples", "more apples"), f"thread {n}")
            await checkpointer.save(said("apples", "more apples", "apples again"), f"thread {n}")
        found = await checkpointer.search("apples", 100)
        assert sorted(hit["thread_id"] for hit in found) == sorted(f"thread {n}" for n in range(30))
        assert len(await checkpointer.search("apples", 7)) == 7
        assert await checkpointer.search("apples", 0) == []
        scores = [hit["score"] for hit in found]
        assert scores == sorted(scores, reverse=True)

    async def test_any_text_may_be_searched_for(self, checkpointer: DurableCheckpointer) -> None:
        await checkpointer.save(said('don\'t "panic" (yet) C++ 50% 中文 naïve'), "thread")
        for query in ("", " ", '"', "'", "a OR", "NEAR(", "*", "panic*", "-", "\0", "\ud800", "x" * 5000, "(", "AND"):
            assert isinstance(await checkpointer.search(query), list)
        for query in ('"panic"', "(yet)", "中文", "naive", "don't"):
            assert len(await checkpointer.search(query)) == 1, query
        bad: list[Any] = [None, 3, ["panic"]]
        for query in bad:
            with pytest.raises(InputError, match="query"):
                await checkpointer.search(query)

    async def test_small_fields_do_not_disturb_what_is_found(self, checkpointer: DurableCheckpointer) -> None:
        await checkpointer.save(AgentState(agent_id="hidden", metadata={"secret": "hidden"}), "thread")
        assert await checkpointer.search("hidden") == []
