"""What the rules of memory are written with: facades, short ways to say a state, and a look at the medium itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.memory.log.record import log_sort
from locus.memory.saver import CheckpointSaver
from locus.memory.sync import SyncCheckpointer, SyncCheckpointSaver
from locus.storage.base import Key, Put, Record, Span, Storage

__all__ = [
    "CheckpointerFacade",
    "Open",
    "SaverFacade",
    "bodies",
    "damage",
    "every_id",
    "said",
    "save_each",
    "texts",
    "weight",
]

DAY = 86_400.0


class Open(Protocol):
    """Makes a checkpointer that knows nothing yet, on the medium of the test (or on `storage`)."""

    def __call__(self, storage: Storage | None = None, **options: Any) -> DurableCheckpointer: ...


class CheckpointerFacade(DurableCheckpointer):
    """`SyncCheckpointer` behind `await`, so that the same tests run on it."""

    def __init__(self, storage: Storage, **options: Any) -> None:
        super().__init__(storage, **options)
        self._twin = SyncCheckpointer(DurableCheckpointer(storage, **options))


class SaverFacade(CheckpointSaver):
    """`SyncCheckpointSaver` behind `await`."""

    def __init__(self, storage: Storage, **options: Any) -> None:
        super().__init__(storage, **options)
        self._twin = SyncCheckpointSaver(CheckpointSaver(storage, **options))


def _through(name: str) -> Callable[..., Any]:
    async def method(self: CheckpointerFacade | SaverFacade, *args: Any, **options: Any) -> Any:
        return getattr(self._twin, name)(*args, **options)

    return method


def _is_method(member: object) -> bool:
    return callable(member) and not isinstance(member, type)


for _facade, _twin in ((CheckpointerFacade, SyncCheckpointer), (SaverFacade, SyncCheckpointSaver)):
    for _name, _member in vars(_twin).items():
        if not _name.startswith("_") and _is_method(_member):
            setattr(_facade, _name, _through(_name))


def said(*messages: str | Message, after: AgentState | None = None, **fields: Any) -> AgentState:
    """A state in which these things were said, the given one's messages before them."""
    state = after or AgentState(agent_id="contract")
    added = [Message.user(one) if isinstance(one, str) else one for one in messages]
    return state.with_messages(added).model_copy(update=fields)


def texts(state: AgentState | None) -> list[str]:
    """What was said in a state."""
    return [message.text for message in state.messages] if state else []


async def save_each(checkpointer: DurableCheckpointer, thread_id: str, count: int) -> dict[str, AgentState]:
    """Save a thread that grows by a message each time; the states by their ids, oldest first."""
    saved: dict[str, AgentState] = {}
    state = AgentState(agent_id="contract")
    for n in range(1, count + 1):
        state = said(f"{thread_id} says thing{n}", after=state).next_iteration()
        saved[await checkpointer.save(state, thread_id)] = state
    return saved


async def every_id(checkpointer: DurableCheckpointer, thread_id: str) -> list[str]:
    """All checkpoint ids, newest first."""
    return await checkpointer.list_checkpoints(thread_id, limit=10_000)


async def assert_holds(
    checkpointer: DurableCheckpointer, thread_id: str, saved: dict[str, AgentState], *, without: Iterable[str] = ()
) -> None:
    """The thread lists and loads exactly these states, and the last of them is its newest."""
    removed = set(without)
    left = {checkpoint_id: state for checkpoint_id, state in saved.items() if checkpoint_id not in removed}
    assert await every_id(checkpointer, thread_id) == list(left)[::-1]
    for checkpoint_id, state in saved.items():
        expected = None if checkpoint_id in removed else state
        assert await checkpointer.load(thread_id, checkpoint_id) == expected
    assert await checkpointer.load(thread_id) == (list(left.values())[-1] if left else None)


async def bodies(storage: Storage, *part: str, table: str = DEFAULT_TABLE) -> list[Record]:
    """The records of a thread as they are stored."""
    (records,) = await storage.scan([Span(table, part)])
    return records


async def weight(storage: Storage, *part: str, table: str = DEFAULT_TABLE) -> int:
    """The bytes of a thread's records: bodies and what they are found by."""
    records = await bodies(storage, *part, table=table)
    return sum(len(json.dumps(record.body)) + len(record.text or "") for record in records)


async def damage(storage: Storage, thread_id: str, position: int, body: dict[str, Any]) -> None:
    """Write rubbish where a record of a thread is."""
    await storage.commit([Put(Key(DEFAULT_TABLE, (thread_id,), log_sort(position)), body)])


def kinds(records: Sequence[Record]) -> list[str]:
    """What the records of a log are: states, marks, stubs."""
    return [str(record.body.get("kind")) for record in records if record.key.sort.startswith("n")]
