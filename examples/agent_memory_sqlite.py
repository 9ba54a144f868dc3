"""Agent memory on SQLite, in five parts: what an agent with a checkpointer knows, and how to look at it.

    python examples/agent_memory_sqlite.py                 # in a temporary database
    python examples/agent_memory_sqlite.py memory.db       # in a file that stays; run it again and it still knows

It needs no key and no network: without LOCUS_MODEL_PROVIDER the offline model answers, by rules.

1. Two turns of one thread: the second knows what the first was told.
2. Tools, with a checkpoint after every iteration.
3. Another process takes the thread up.
4. Two people in one database, kept apart.
5. The saved state, field by field, with the confidence that tools have earned.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from locus.agent import Agent, AgentResult
from locus.core import AgentState
from locus.memory.backends import sqlite_checkpointer
from locus.models import get_model
from locus.tools import tool


def two_turns(database: Path) -> AgentResult:
    agent = Agent(
        model=get_model(max_tokens=100),
        system_prompt="You are friendly, and you remember what people tell you.",
        checkpointer=sqlite_checkpointer(database),
    )
    agent.run_sync("My name is Grace and I live in Lisbon.", thread_id="two-turns")
    return agent.run_sync("What's my name?", thread_id="two-turns")


def notes(database: Path) -> tuple[list[str], list[AgentResult], list[str]]:
    """What the tool wrote down, what came back, and the thread's checkpoints, newest first."""
    written: list[str] = []

    @tool
    def save_note(content: str) -> str:
        """Save a note."""
        written.append(content)
        return f"Saved: {content}"

    @tool
    def get_notes() -> str:
        """Get all notes."""
        return "\n".join(f"- {note}" for note in written) or "There are no notes."

    checkpointer = sqlite_checkpointer(database)
    agent = Agent(
        model=get_model(max_tokens=150),
        tools=[save_note, get_notes],
        system_prompt="You keep notes.",
        checkpointer=checkpointer,
        checkpoint_every_n_iterations=1,
    )
    results = [agent.run_sync(text, thread_id="notes") for text in ("Save a note: water the ferns", "Show me my notes")]
    return written, results, asyncio.run(checkpointer.list_checkpoints("notes"))


def another_process(database: Path) -> str:
    """Tell one process something, and ask the next one."""
    in_a_process(database, "Remember: the gate code is 7319.")
    return in_a_process(database, "What is the gate code?")


def in_a_process(database: Path, prompt: str) -> str:
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), str(database), "--say", prompt],
        stdout=subprocess.PIPE,
        env={"LOCUS_MODEL_PROVIDER": "mock", **os.environ},  # that it is the offline model was said already
        text=True,
        check=True,
    )
    return done.stdout.strip()


def say(database: Path, prompt: str) -> str:
    agent = Agent(model=get_model(max_tokens=100), checkpointer=sqlite_checkpointer(database))
    return agent.run_sync(prompt, thread_id="another-process").message


def two_people(database: Path) -> dict[str, str]:
    agent = Agent(model=get_model(max_tokens=100), checkpointer=sqlite_checkpointer(database))
    agent.run_sync("I'm Alice and I like mountains.", thread_id="alice")
    agent.run_sync("I'm Bob and I like the sea.", thread_id="bob")
    return {name: agent.run_sync("What do I like?", thread_id=name).message for name in ("alice", "bob")}


async def inspected(database: Path) -> AgentState:
    facts: list[str] = []

    @tool
    def record_fact(fact: str) -> str:
        """Record a fact the user has shared."""
        facts.append(fact)
        return f"Fact {len(facts)} recorded: {fact}"

    checkpointer = sqlite_checkpointer(database)
    agent = Agent(
        agent_id="inspector",
        model=get_model(max_tokens=200),
        system_prompt="Whenever the user shares a fact about themselves, call record_fact once with it.",
        tools=[record_fact],
        checkpointer=checkpointer,
        reflexion=True,
    )
    await agent.arun("Hello, my name is Charlie.", thread_id="inspected")
    await agent.arun("I work as a gardener.", thread_id="inspected")
    state = await checkpointer.load("inspected")
    await checkpointer.close()
    if state is None:
        raise SystemExit("the thread was not saved")
    return state


def main(database: Path) -> None:
    print("1. Two turns\n   What's my name?", two_turns(database).message)

    written, results, checkpoints = notes(database)
    print(f"\n2. Tools\n   {results[-1].message}")
    print(f"   {len(written)} note written, {len(checkpoints)} newest checkpoints of the thread: {checkpoints[0]} ...")

    print("\n3. Another process\n   What is the gate code?", another_process(database))

    print("\n4. Two people")
    for name, answer in two_people(database).items():
        print(f"   {name}: What do I like? {answer}")

    state = asyncio.run(inspected(database))
    print(
        f"\n5. The saved state\n   agent {state.agent_id}, iteration {state.iteration}, tools {list(state.tool_history)}"
    )
    print(f"   confidence {state.confidence:.2f}, after {[round(value, 2) for value in state.confidence_history]}")
    for place, message in enumerate(state.messages):
        calls = "".join(f" calls {call.name}" for call in message.tool_calls)
        print(f"   {place}. {message.role.value}: {message.text}{calls}")


if __name__ == "__main__":
    if sys.argv[2:3] == ["--say"]:
        print(say(Path(sys.argv[1]), sys.argv[3]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="locus-") as directory:
            main(Path(directory) / "memory.db")
