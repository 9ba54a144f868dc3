"""Write the golden databases of the present format: `python scripts/make_golden.py`.

They hold a thread of every kind, as this version writes it, and what must be read from them. Every later version reads
them (tests/memory/test_golden.py), so a format that has been released is never written anew: raise its number instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from locus.core.messages import FilePart, ImagePart, Message, TextPart, ToolCall
from locus.core.state import AgentState, ToolExecution
from locus.memory.durable import DurableCheckpointer
from locus.memory.log.record import FORMAT
from locus.memory.log.run import begin
from locus.memory.run import Turn
from locus.memory.saver import CheckpointSaver
from locus.storage.base import Storage
from locus.storage.file import FileStorage
from locus.storage.sqlite import SQLiteStorage

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
NOW = 1_700_000_000.0
MOMENT = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
HOSTILE = [
    "a:b",
    "../../x",
    "latest",
    "it's",
    'say "hi"',
    "😀",
    "line\nbreak",
    "nul\0",
    "\ud800",
    "x" * 2000,
    "A",
    "a",
    "a ",
]
WORDS = ("umbrella", "wardrobe", "Reykjavik", "walnuts", "almonds", "replaced", "interrupted")


def storages(folder: Path) -> dict[str, Callable[[], Storage]]:
    """How each golden storage is opened."""
    return {"sqlite": lambda: SQLiteStorage(folder / "threads.db"), "file": lambda: FileStorage(folder / "files")}


def state(*messages: Message | str, **fields: Any) -> AgentState:
    """A state with nothing in it that differs from run to run."""
    said = tuple(Message.user(one) if isinstance(one, str) else one for one in messages)
    return AgentState(run_id="run", agent_id="golden", messages=said, started_at=MOMENT, updated_at=MOMENT, **fields)


async def fill(storage: Storage) -> None:
    """A thread of every kind."""
    checkpointer = DurableCheckpointer(storage)
    await _conversation(checkpointer)
    await _removals(checkpointer)
    await _branches(checkpointer)
    for n, thread in enumerate(HOSTILE):
        await checkpointer.save(state(f"thread {n}"), thread, thread, {"n": n})
    long = [f"message {n} " + "word " * 10 for n in range(24)]
    for count in range(1, 25):
        await checkpointer.save(state(*long[:count]), "long")
    await _turn(checkpointer, "unfinished", ("asked", "replied"))
    await _turn(checkpointer, "finished", ("asked", "replied", "ran", "done"))
    await _turn(checkpointer, "waiting", ("asked", "replied", "interrupted"))
    await _saver(CheckpointSaver(storage))


async def _conversation(checkpointer: DurableCheckpointer) -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "QUJD==", "deep": [{"n": [1, 2.5, None, True]}]}
    call = ToolCall(id="c1", name="look_up", arguments={"city": "Reykjavik", "days": [1]}, idempotency_key="k1")
    messages = [
        Message.system("be kind"),
        Message.user(
            [TextPart(text="my umbrella?"), ImagePart(url="u", media_type="image/png"), FilePart(file_id="f")]
        ),
        Message.assistant([block, TextPart(text="I look")], tool_calls=[call], metadata={"model": "m"}),
        Message.tool("in the wardrobe \0 \ud800 😀", "c1", name="look_up"),
        Message.assistant("In the wardrobe."),
    ]
    execution = ToolExecution(
        tool_name="look_up", tool_call_id="c1", arguments={"a": 1}, result=["x"], duration_ms=1.5, started_at=MOMENT
    )
    failed = ToolExecution(tool_name="other", tool_call_id="c2", error="boom")
    for count in range(1, 6):
        now = state(*messages[:count], iteration=count, metadata={"mood": {"now": ["calm", count]}})
        if count > 3:
            now = now.with_tool_execution(execution).with_tool_execution(failed).with_confidence(0.15)
            now = now.with_error("odd").with_tokens(10, 5).model_copy(update={"updated_at": MOMENT})
        await checkpointer.save(now, "conversation", metadata={"step": count, "tags": ["a", None]})


async def _removals(checkpointer: DurableCheckpointer) -> None:
    said = ["I like walnuts", "and rain", "and snow", "and fog", "and hail", "and almonds"]
    ids = [await checkpointer.save(state(*said[:count]), "removals") for count in range(1, 7)]
    for place in (0, 2, 5):
        await checkpointer.delete("removals", ids[place])
    await checkpointer.save(state("first"), "removals", "own")
    await checkpointer.save(state("replaced"), "removals", "own", {"version": 2})
    await checkpointer.save(state("gone"), "deleted")
    await checkpointer.delete("deleted")


async def _branches(checkpointer: DurableCheckpointer) -> None:
    trunk = [f"trunk {n}" for n in range(8)]
    await checkpointer.save(state(*trunk), "branches", "trunk")
    for branch in ("left", "right"):
        await checkpointer.save(state(*trunk, branch), "branches", branch)
        await checkpointer.save(state(*trunk[4:], branch, "window"), "branches", f"{branch} window")
    await checkpointer.save(state(*trunk[:3], "edited", *trunk[4:]), "branches", "edited")
    await checkpointer.copy_thread("branches", "copied")


async def _turn(checkpointer: DurableCheckpointer, thread: str, phases: tuple[Any, ...]) -> None:
    run = await begin(checkpointer._log, (thread,), wait_seconds=0.0, seen={}, renew=False)
    said: list[str] = []
    for phase in phases:
        said.append(phase)
        waits = ({"call_id": "call", "payload": {"question": "really?"}},) if phase == "interrupted" else ()
        turn = Turn(f"turn of {thread}", phase, 2, waits, stop_reason="complete" if phase == "done" else None)
        await run.append(state(*said), turn, listed=phase != "asked", metadata={"phase": phase})
        if phase == "replied":
            await run.settle("call 1", {"result": "ok"})
    await run.release()


async def _saver(saver: CheckpointSaver) -> None:
    messages: list[dict[str, Any]] = []
    parent = None
    for n in range(5):
        messages = [*messages, {"role": "user", "content": f"m{n}"}]
        data = {"v": 1, "channel_values": {"messages": messages, "n": n, "deep": {"list": [[n]]}}, "empty": []}
        for space in ("default", ""):
            await saver.put(
                thread_id="graph",
                checkpoint_id=f"s{n}",
                checkpoint_data=data,
                checkpoint_ns=space,
                parent_checkpoint_id=parent,
                metadata={"step": n},
            )
        parent = f"s{n}"
    for task in ("b", "a"):
        writes = [("messages", {"from": task}), ("done", None)]
        await saver.put_writes(thread_id="graph", checkpoint_id="s4", task_id=task, writes=writes)


async def collect(storage: Storage) -> dict[str, Any]:
    """Everything that can be read, as JSON. Takes and gives back leases, so it is done to a copy."""
    checkpointer, saver = DurableCheckpointer(storage), CheckpointSaver(storage)
    threads = {}
    for thread in sorted(await checkpointer.list_threads(1000)):
        newest = await checkpointer.load(thread)
        run = await begin(checkpointer._log, (thread,), wait_seconds=0.0, seen={}, renew=False)
        threads[thread] = {
            "newest": newest.to_checkpoint() if newest else None,
            "turn": repr(run.turn),
            "settled": await run.settled(),
            "checkpoints": [
                await _checkpoint(thread, one, storage) for one in await checkpointer.history(thread, 1000)
            ],
        }
        await run.release()
    found = {word: await checkpointer.search(word) for word in WORDS}
    tagged = [
        await checkpointer.query_by_metadata(name, value, history=True) for name, value in (("step", 3), ("n", 5))
    ]
    spaces = {space: await saver.list_checkpoints(thread_id="graph", checkpoint_ns=space) for space in ("default", "")}
    answer = {
        "threads": threads,
        "found": {
            word: sorted([hit["thread_id"], hit["checkpoint_id"]] for hit in hits) for word, hits in found.items()
        },
        "tagged": [sorted([one["thread_id"], one["checkpoint_id"]] for one in some) for some in tagged],
        "saver": spaces,
        "writes": await saver.get_writes(thread_id="graph", checkpoint_id="s4"),
    }
    return json.loads(json.dumps(answer))  # type: ignore[no-any-return]  # JSON


async def _checkpoint(thread: str, info: dict[str, Any], storage: Storage) -> dict[str, Any]:
    loaded = await DurableCheckpointer(storage).load(thread, info["checkpoint_id"])
    return {**info, "state": loaded.to_checkpoint() if loaded else None}


async def make(folder: Path) -> None:
    """Write the databases and what is read from copies of them."""
    expected = {}
    for opened in storages(folder).values():
        storage = opened()
        storage.clock = lambda: NOW
        await fill(storage)
        await storage.close()
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    try:
        for name, opened in storages(copy).items():
            storage = opened()
            expected[name] = await collect(storage)
            await storage.close()
    finally:
        shutil.rmtree(copy)
    text = json.dumps(expected, indent=0, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="ascii")


def main() -> None:
    """Write the folder of the present format anew."""
    os.urandom = Random(FORMAT).randbytes  # noqa: S311  # the same ids each time
    folder = GOLDEN / f"format_{FORMAT}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asyncio.run(make(folder))


if __name__ == "__main__":
    main()
