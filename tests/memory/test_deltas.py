"""Any change of a sequence can be stored as what is new, and any sequence of changes be read back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from locus._sync import drive
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.delta import Change, apply, diff, from_json
from locus.memory.log.record import Ranges
from locus.storage.memory import MemoryStorage
from locus.storage.testing import FaultyStorage

items = st.lists(st.integers(0, 12), max_size=30)
spans = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), max_size=6)
# An edit: where, how many go, what comes instead, and whether all is read anew (equal, but other objects).
edits = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 4), st.lists(st.integers(0, 5), max_size=3), st.booleans()),
    max_size=12,
)


def stored(change: Change, old: Sequence[int]) -> list[int]:
    """The new sequence as it is read back from JSON."""
    written = json.loads(json.dumps(change.to_json(list, len(old))))
    if written is None:
        return list(old)
    return [*old, *written["+"]] if "+" in written else apply(old, from_json(written["="]))


@given(items, items)
def test_what_is_new_is_enough_to_rebuild_the_rest(old: list[int], new: list[int]) -> None:
    change = diff(tuple(old), tuple(new), lambda item: item)
    assert apply(old, change) == new
    assert stored(change, old) == new


@given(items, st.lists(st.integers(100, 120), max_size=5))
def test_an_append_stores_what_was_appended(old: list[int], added: list[int]) -> None:
    assert diff(tuple(old), (*old, *added), lambda item: item).new_items == added


@given(spans, spans)
def test_ranges_are_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def as_set(pairs: list[tuple[int, int]]) -> set[int]:
        return {position for low, more in pairs for position in range(low, low + more + 1)}

    def as_ranges(pairs: list[tuple[int, int]]) -> Ranges:
        return Ranges((low, low + more) for low, more in pairs)

    a, b = as_ranges(one), as_ranges(other)
    assert a | b == Ranges.of(as_set(one) | as_set(other))
    assert a - b == Ranges.of(as_set(one) - as_set(other))
    assert [position for position in range(40) if position in a] == sorted(as_set(one))
    assert bool(a) == bool(one)
    if one:
        assert a.lowest == min(as_set(one))


def edited(state: AgentState, at: int, cut: int, added: list[int], anew: bool) -> AgentState:
    messages = [*state.messages]
    messages[at : at + cut] = [Message.user(f"message {n}") for n in added]
    if anew:
        messages = [Message.model_validate(message.model_dump()) for message in messages]
    return state.model_copy(update={"messages": tuple(messages), "iteration": state.iteration + 1})


@given(edits, st.lists(st.integers(0, 11), max_size=6), st.integers(1, 4))
def test_any_sequence_of_edits_and_deletes_is_read_back(
    changes: list[tuple[int, int, list[int], bool]], deletes: list[int], chain: int
) -> None:
    async def trial() -> None:
        storage = MemoryStorage()
        checkpointer = DurableCheckpointer(FaultyStorage(storage))
        state, saved = AgentState(), dict[str, AgentState]()
        for change in changes:
            state = edited(state, *change)
            saved[await checkpointer.save(state, "thread")] = state
        for place in deletes:
            if place < len(saved):
                doomed = list(saved)[place]
                assert await DurableCheckpointer(storage).delete("thread", doomed)
                del saved[doomed]
                if place % chain == 0:  # with what it knew before the removal
                    state = edited(state, place, 1, [place], False)
                    saved[await checkpointer.save(state, "thread")] = state
        cold = DurableCheckpointer(storage)
        assert await cold.list_checkpoints("thread", 1000) == list(saved)[::-1]
        for checkpoint_id, expected in saved.items():
            assert await DurableCheckpointer(storage).load("thread", checkpoint_id) == expected
            assert await cold.load("thread", checkpoint_id) == expected
        assert await checkpointer.load("thread") == (list(saved.values())[-1] if saved else None)

    drive(trial())
