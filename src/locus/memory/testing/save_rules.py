"""Saving and loading: what was acknowledged comes back exactly, newest first, under its id."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from locus.core.messages import FilePart, ImagePart, Message, TextPart, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.errors import InputError
from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import Open, assert_holds, bodies, every_id, kinds, said, save_each, texts, weight
from locus.storage.base import Storage
from locus.storage.testing.simulation import FakeClock


def rich_state() -> AgentState:
    """A state that has something in every field."""
    block = {"type": "thinking", "thinking": "…", "signature": "QUJD==", "deep": [{"n": [1, 2.5, None]}]}
    call = ToolCall(id="c1", name="look_up", arguments={"city": "Zürich", "days": [1, 2]}, idempotency_key="k1")
    state = AgentState(agent_id="rich", run_id="run", metadata={"a": {"b": [1, "x", None]}}, max_iterations=7)
    state = state.with_messages(
        [
            Message.system("be kind"),
            Message.user([TextPart(text="look"), ImagePart(url="https://x/y.png"), FilePart(file_id="f", name="n")]),
            Message.assistant([block, TextPart(text="I look")], tool_calls=[call]),
            Message.tool("sunny \0 \ud800 😀", "c1", name="look_up", metadata={"cached": False}),
            Message.user(""),
            Message.assistant(None, tool_calls=[ToolCall(id="c2", name="other")]),
        ]
    )
    state = state.with_tool_execution(
        ToolExecution(tool_name="look_up", tool_call_id="c1", result={"sky": ["blue"]}, duration_ms=1.5)
    )
    state = state.with_tool_execution(
        ToolExecution(
            tool_name="other", tool_call_id="c2", error="boom", started_at=datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
        )
    )
    return state.with_confidence(0.1).with_confidence(0.25).with_error("bad").with_tokens(3, 4).with_iteration(5)


class SaveRules:
    async def test_a_state_comes_back_exactly_as_it_was_saved(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        state = rich_state()
        checkpoint_id = await checkpointer.save(state, "thread")
        for one in (checkpointer, another()):
            assert await one.load("thread") == state
            assert await one.load("thread", checkpoint_id) == state
        empty = AgentState()
        await checkpointer.save(empty, "empty")
        assert await another().load("empty") == empty

    async def test_every_checkpoint_is_kept_and_the_last_is_the_newest(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 12)
        assert len(saved) == 12
        await assert_holds(checkpointer, "thread", saved)
        await assert_holds(another(), "thread", saved)

    async def test_what_is_not_there_is_none(self, checkpointer: DurableCheckpointer) -> None:
        assert await checkpointer.load("nobody") is None
        assert await checkpointer.load("nobody", "nothing") is None
        assert await checkpointer.list_checkpoints("nobody") == []
        assert await checkpointer.get_metadata("nobody") is None
        assert not await checkpointer.exists("nobody")
        [checkpoint_id] = await save_each(checkpointer, "somebody", 1)
        assert await checkpointer.load("somebody", "nothing") is None
        assert await checkpointer.load("somebody", "c00000099-0123456789") is None
        assert await checkpointer.load("nobody", checkpoint_id) is None
        assert await checkpointer.get_metadata("somebody", "nothing") is None
        assert not await checkpointer.exists("somebody", "nothing")
        assert await checkpointer.exists("somebody")
        assert await checkpointer.exists("somebody", checkpoint_id)

    async def test_a_list_has_the_newest_first_and_at_most_as_many_as_asked_for(
        self, checkpointer: DurableCheckpointer
    ) -> None:
        ids = list(await save_each(checkpointer, "thread", 25))[::-1]
        assert await checkpointer.list_checkpoints("thread") == ids[:10]
        for limit in (0, 1, 17, 25, 400):
            assert await checkpointer.list_checkpoints("thread", limit) == ids[:limit]

    async def test_the_history_names_parents_times_and_metadata(
        self, checkpointer: DurableCheckpointer, clock: FakeClock
    ) -> None:
        times, parent = [], None
        for n in range(3):
            times.append(clock())
            await checkpointer.save(said(f"{n}"), "thread", f"id{n}", {"n": n})
            clock.advance(60)
        history = await checkpointer.history("thread")
        for n, info in enumerate(reversed(history)):
            assert info["thread_id"] == "thread"
            assert (info["checkpoint_id"], info["parent_checkpoint_id"]) == (f"id{n}", parent)
            assert (info["created_at"], info["metadata"]) == (times[n], {"n": n})
            parent = f"id{n}"

    async def test_ids_stay_what_they_were_after_the_medium_is_opened_again(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 3)
        again = another()
        await assert_holds(again, "thread", saved)
        state = said("one more", after=list(saved.values())[-1])
        saved[await again.save(state, "thread")] = state
        assert len(saved) == 4
        await assert_holds(checkpointer, "thread", saved)

    async def test_an_id_of_your_own_is_kept_and_replaced(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        assert await checkpointer.save(said("mine"), "thread", "mine") == "mine"
        first, *_ = saved
        await checkpointer.save(said("later"), "thread", "later")
        await checkpointer.save(said("mine again"), "thread", "mine", {"version": 2})
        cold = another()
        assert await every_id(cold, "thread") == ["mine", "later", *list(saved)[::-1]]
        assert texts(await cold.load("thread", "mine")) == ["mine again"]
        assert texts(await cold.load("thread")) == ["mine again"]
        assert texts(await cold.load("thread", "later")) == ["later"]
        info = await cold.get_metadata("thread", "mine")
        assert info is not None
        assert info["metadata"] == {"version": 2}
        await cold.save(said("a generated id may be replaced too"), "thread", first)
        assert (await every_id(checkpointer, "thread"))[0] == first
        assert len(await every_id(checkpointer, "thread")) == 4

    async def test_the_same_save_again_changes_nothing(
        self, checkpointer: DurableCheckpointer, another: Open, storage: Storage
    ) -> None:
        state = said("once")
        await checkpointer.save(said("before"), "thread")
        for one in (checkpointer, checkpointer, another()):
            assert await one.save(state, "thread", "mine", {"n": 1}) == "mine"
            assert kinds(await bodies(storage, "thread")) == ["state", "state"]
        await checkpointer.save(state, "thread", "mine", {"n": 2})
        info = await checkpointer.get_metadata("thread", "mine")
        assert info is not None
        assert info["metadata"] == {"n": 2}
        assert len(await every_id(checkpointer, "thread")) == 2

    async def test_the_same_state_without_an_id_is_a_checkpoint_each_time(
        self, checkpointer: DurableCheckpointer, storage: Storage
    ) -> None:
        state = said("once" * 1000)
        ids = [await checkpointer.save(state, "thread") for _ in range(3)]
        assert len(set(ids)) == 3
        await assert_holds(checkpointer, "thread", dict.fromkeys(ids, state))
        assert await weight(storage, "thread") < 11_000

    async def test_what_can_be_no_state_is_refused_and_harms_nothing(self, checkpointer: DurableCheckpointer) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        bad: list[Any] = [None, {}, {"messages": []}, "state", Message.user("x"), AgentState]
        for state in bad:
            with pytest.raises(InputError, match="AgentState"):
                await checkpointer.save(state, "thread")
        unstorable: list[Any] = [math.nan, math.inf, object(), {1: 2}, {1, 2}, b"x"]
        for value in unstorable:
            with pytest.raises(InputError):
                await checkpointer.save(said("x").with_metadata(value=value), "thread")
            with pytest.raises(InputError):
                await checkpointer.save(said(Message.user("x", metadata={"value": value})), "thread")
        await assert_holds(checkpointer, "thread", saved)

    async def test_what_can_be_no_metadata_is_refused_and_harms_nothing(
        self, checkpointer: DurableCheckpointer
    ) -> None:
        saved = await save_each(checkpointer, "thread", 1)
        bad: list[Any] = [[], "text", 3, {"x": math.nan}, {"x": object()}, {"x": [math.inf]}, {1: 2}, {"x": {2: 3}}]
        for metadata in bad:
            with pytest.raises(InputError):
                await checkpointer.save(said("x"), "thread", metadata=metadata)
            with pytest.raises(InputError):
                await checkpointer.save(said("x"), "thread", "own", metadata)
        await assert_holds(checkpointer, "thread", saved)

    async def test_a_limit_is_a_whole_number_of_at_least_0(self, checkpointer: DurableCheckpointer) -> None:
        await save_each(checkpointer, "thread", 1)
        bad: list[Any] = [-1, 1.5, "3", None, True]
        for limit in bad:
            for ask in (
                checkpointer.list_checkpoints("thread", limit),
                checkpointer.history("thread", limit),
                checkpointer.list_threads(limit),
                checkpointer.list_with_metadata(limit),
                checkpointer.search("thing1", limit),
                checkpointer.query_by_metadata("a", 1, limit),
            ):
                with pytest.raises(InputError, match="limit"):
                    await ask

    async def test_a_state_that_is_too_large_is_refused_and_harms_nothing(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        large = said("x" * (12 * 1024 * 1024), after=list(saved.values())[-1])
        for checkpoint_id in (None, "own"):
            with pytest.raises(InputError, match="limit"):
                await checkpointer.save(large, "thread", checkpoint_id)
        with pytest.raises(InputError, match="limit"):
            await checkpointer.save(large, "new thread")
        await assert_holds(checkpointer, "thread", saved)
        assert await another().list_threads() == ["thread"]
        state = said("small", after=list(saved.values())[-1])
        saved[await checkpointer.save(state, "thread")] = state
        await assert_holds(another(), "thread", saved)

    async def test_a_closed_checkpointer_can_be_used_again(self, checkpointer: DurableCheckpointer) -> None:
        saved = await save_each(checkpointer, "thread", 2)
        await checkpointer.close()
        await checkpointer.close()
        await assert_holds(checkpointer, "thread", saved)

    async def test_every_capability_is_offered(self, checkpointer: DurableCheckpointer) -> None:
        declared = vars(checkpointer.capabilities)
        assert len(declared) == 8
        assert all(declared.values())
