"""Deltas: a save stores what is new, whatever the change, and every old state stays whole."""

from __future__ import annotations

from random import Random

from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.durable import DurableCheckpointer
from locus.memory.testing.rules import Open, assert_holds, said, weight
from locus.storage.base import Storage


def long_texts(count: int) -> list[str]:
    """Messages of about 300 characters, each another."""
    return [f"message {n} " + f"word{n} " * 35 for n in range(count)]


def edited(rng: Random, messages: tuple[Message, ...], serial: int) -> tuple[Message, ...]:
    """The messages after some change: grown, cut, edited, moved, or read anew and so made of other objects."""
    items = list(messages)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(items))
        match rng.randrange(7):
            case 0 | 1 | 2:
                items.append(Message.user(f"new {serial} {rng.random()}"))
            case 3:
                items.insert(at, Message.assistant(f"between {serial} {rng.random()}"))
            case 4:
                del items[at : at + rng.randint(1, 3)]
            case 5:
                items[at : at + 1] = [Message.user(f"edited {serial}"), *items[:1]]
            case _:
                items = [Message.model_validate(item.model_dump()) for item in items]
    return tuple(items)


async def cost(checkpointer: DurableCheckpointer, storage: Storage, before: AgentState, after: AgentState) -> int:
    """The bytes that saving `after` adds to a thread that `before` was saved in."""
    await checkpointer.save(before, "measured")
    had = await weight(storage, "measured")
    await checkpointer.save(after, "measured")
    assert await checkpointer.load("measured") == after
    added = await weight(storage, "measured") - had
    await checkpointer.delete("measured")
    return added


class DeltaRules:
    async def test_a_save_costs_what_is_new(self, checkpointer: DurableCheckpointer, storage: Storage) -> None:
        base = said(*long_texts(100))
        whole = len(base.model_dump_json())
        messages = base.messages
        changes = {
            "appended": (*messages, Message.user("more")),
            "window": (*messages[10:], Message.user("more")),
            "edited": (*messages[:50], Message.user("other"), *messages[51:]),
            "removed": (*messages[:30], *messages[31:]),
            "inserted": (*messages[:30], Message.user("more"), *messages[30:]),
            "swapped": (*messages[50:], *messages[:50]),
            "cut back": messages[:20],
            "summarised": (Message.system("what was said"), *messages[-10:]),
        }
        for name, changed in changes.items():
            added = await cost(checkpointer, storage, base, base.model_copy(update={"messages": changed}))
            assert added < 1000 < whole / 10, name

    async def test_a_state_that_was_read_anew_is_compared_by_content(
        self, checkpointer: DurableCheckpointer, storage: Storage
    ) -> None:
        base = said(*long_texts(100))
        again = AgentState.from_checkpoint(base.to_checkpoint())
        moved = again.model_copy(update={"messages": (*again.messages[20:], Message.user("more"))})
        assert await cost(checkpointer, storage, base, said("more", after=again)) < 1000
        assert await cost(checkpointer, storage, base, moved) < 1000

    async def test_any_sequence_of_edits_loads_as_it_was_saved(
        self, checkpointer: DurableCheckpointer, another: Open
    ) -> None:
        for seed in range(3):
            rng, thread = Random(seed), f"thread {seed}"
            state = AgentState(agent_id="contract")
            saved: dict[str, AgentState] = {}
            for serial in range(25):
                state = state.model_copy(update={"messages": edited(rng, state.messages, serial)})
                if rng.random() < 0.3:
                    state = state.with_confidence(rng.random())
                if rng.random() < 0.2:
                    state = rng.choice([state, *saved.values()])
                saved[await checkpointer.save(state, thread)] = state
            await assert_holds(another(), thread, saved)

    async def test_what_a_thread_costs_grows_with_its_text_alone(
        self, checkpointer: DurableCheckpointer, storage: Storage
    ) -> None:
        state = AgentState(agent_id="contract")
        for text in long_texts(150):
            state = said(text, after=state)
            await checkpointer.save(state, "thread")
        assert await weight(storage, "thread") < 8 * len(state.model_dump_json())

    async def test_a_message_said_twice_is_two_messages(self, checkpointer: DurableCheckpointer, another: Open) -> None:
        same = Message.user("again")
        state = said(same, same, "x", same)
        saved = {await checkpointer.save(state, "thread"): state}
        for messages in ((same,) * 5, (same,), (Message.user("again"), same, Message.user("x")), ()):
            state = state.model_copy(update={"messages": messages})
            saved[await checkpointer.save(state, "thread")] = state
        await assert_holds(another(), "thread", saved)
