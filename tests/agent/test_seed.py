"""The conversation scripts that Locus was made for, on SQLite with the offline model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from locus.agent import Agent
from locus.memory.backends import SQLiteCheckpointer
from locus.models import MockModel
from locus.tools import tool


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "agents.db")


@pytest.fixture
def agent_on() -> Iterator[Callable[..., Agent]]:
    opened: list[SQLiteCheckpointer] = []

    def make(database: str, **options: Any) -> Agent:
        opened.append(SQLiteCheckpointer(database))
        return Agent(model=MockModel(), checkpointer=opened[-1], **options)

    yield make
    for checkpointer in opened:
        asyncio.run(checkpointer.close())


def test_the_second_turn_knows_what_the_first_was_told(database: str, agent_on: Callable[..., Agent]) -> None:
    agent = agent_on(database, system_prompt="You are a helpful assistant. Remember what the user tells you.")
    agent.run_sync("My name is Alice.", thread_id="conversation_001")
    assert "Alice" in agent.run_sync("What's my name?", thread_id="conversation_001").message
    assert "Alice" not in agent.run_sync("What's my name?", thread_id="another").message


def test_notes_are_taken_with_a_checkpoint_for_each_iteration(database: str, agent_on: Callable[..., Agent]) -> None:
    notes: list[str] = []

    @tool
    def save_note(content: str) -> str:
        """Save a note for later reference."""
        notes.append(content)
        return f"Note saved: {content}"

    @tool
    def get_notes() -> str:
        """Get all saved notes."""
        return "\n".join(f"- {note}" for note in notes) or "No notes saved yet."

    agent = agent_on(database, tools=[save_note, get_notes], checkpoint_every_n_iterations=1)
    first = agent.run_sync("Save a note: Buy groceries", thread_id="notes")
    assert first.metrics.tool_calls == 1
    assert notes == ["Buy groceries"]
    second = agent.run_sync("What notes do I have?", thread_id="notes")
    assert "Buy groceries" in second.message


def test_a_second_process_goes_on_with_the_thread(database: str) -> None:
    script = (
        "import sys\n"
        "from locus.agent import Agent\n"
        "from locus.memory.backends import SQLiteCheckpointer\n"
        "from locus.models import MockModel\n"
        "agent = Agent(model=MockModel(), checkpointer=SQLiteCheckpointer(sys.argv[1]))\n"
        "print(agent.run_sync(sys.argv[2], thread_id='chat').message)\n"
    )

    def process(prompt: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, database, prompt], capture_output=True, text=True, check=True
        )
        return done.stdout

    process("Remember: The secret code is 42.")
    assert "42" in process("What was the secret code?")


def test_two_people_in_one_database_are_kept_apart(database: str, agent_on: Callable[..., Agent]) -> None:
    agent = agent_on(database)
    agent.run_sync("I'm Alice and I like pizza.", thread_id="alice")
    agent.run_sync("I'm Bob and I like sushi.", thread_id="bob")
    alice = agent.run_sync("What's my favorite food?", thread_id="alice").message
    bob = agent.run_sync("What's my favorite food?", thread_id="bob").message
    assert "pizza" in alice
    assert "sushi" not in alice
    assert "sushi" in bob
    assert "pizza" not in bob


async def test_the_inspected_state_has_earned_confidence(database: str) -> None:
    facts: list[str] = []

    @tool
    def record_fact(fact: str) -> str:
        """Persist a fact the user has shared so the agent can remember it."""
        facts.append(fact)
        return f"Recorded fact #{len(facts)}: {fact}"

    checkpointer = SQLiteCheckpointer(database)
    agent = Agent(
        agent_id="inspector",
        model=MockModel(),
        system_prompt="Whenever the user shares a fact about themselves, call record_fact exactly once.",
        tools=[record_fact],
        checkpointer=checkpointer,
        reflexion=True,
    )
    agent.run_sync("Hello, my name is Charlie.", thread_id="inspect")
    agent.run_sync("I work as a data scientist.", thread_id="inspect")
    state = await checkpointer.load("inspect")
    assert state is not None
    assert (state.agent_id, len(state.tool_history)) == ("inspector", 2)
    assert state.confidence > 0.25
    assert len(state.confidence_history) == 2
    assert [message.role.value for message in state.messages] == ["user", "assistant", "tool", "assistant"] * 2
    await checkpointer.close()
