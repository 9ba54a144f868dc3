"""Time travel: look at a thread's past, branch off from it, and leave the present as it is.

    python examples/branching.py

It needs no key and no network, and leaves no files.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from locus.agent import Agent
from locus.memory.backends import SQLiteCheckpointer
from locus.models import MockModel


async def main(database: Path) -> None:
    checkpointer = SQLiteCheckpointer(database)
    agent = Agent(model=MockModel(), checkpointer=checkpointer)
    for prompt in ("My name is Iris.", "My favorite color is green.", "My favorite color is blue."):
        await agent.arun(prompt, thread_id="main")

    print("The thread's checkpoints, newest first:")
    history = await agent.get_state_history("main", limit=10)
    for checkpoint_id, state in history:
        print(f"  {checkpoint_id}  {len(state.messages)} messages, newest: {state.messages[-1].text}")

    # The newest checkpoint from before the second opinion.
    past = next(one for one in history if len(one.state.messages) == 4)
    await agent.fork("main", "what-if", past.checkpoint_id)
    print("\nA fork of it does not know what came later:")
    for thread_id in ("main", "what-if"):
        answer = await agent.arun("What's my favorite color?", thread_id=thread_id)
        print(f"  {thread_id}: {answer.message}")

    # A fork begins with one checkpoint. A copy has the whole history, under the same checkpoint ids.
    await checkpointer.copy_thread("main", "archive")
    copied = await checkpointer.list_checkpoints("archive", limit=100)
    print(f"\nA copy has all {len(copied)} checkpoints of its source, and is a thread of its own:")
    await agent.update_state("archive", metadata={"closed": True})
    for thread_id in await checkpointer.list_threads():
        newest = await agent.get_state(thread_id)
        print(f"  {thread_id}: {newest and newest.metadata}")
    await checkpointer.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="locus-") as directory:
        asyncio.run(main(Path(directory) / "branching.db"))
