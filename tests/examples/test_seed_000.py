"""The five parts of the agent-memory example, on SQLite with the offline model."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import agent_memory_sqlite as example


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCUS_MODEL_PROVIDER", "mock")
    return tmp_path / "memory.db"


def test_the_second_turn_knows_what_the_first_was_told(database: Path) -> None:
    result = example.two_turns(database)
    assert "Grace" in result.message
    assert len(result.messages) == 4


def test_notes_are_written_once_with_a_checkpoint_for_each_iteration(database: Path) -> None:
    written, results, checkpoints = example.notes(database)
    assert written == ["water the ferns"]
    assert [result.metrics.tool_calls for result in results] == [1, 1]
    assert "water the ferns" in results[1].message
    # Each turn: the question, the tool's iteration, the answer.
    assert len(checkpoints) == 6


def test_a_second_process_goes_on_with_the_thread(database: Path) -> None:
    assert "7319" in example.another_process(database)


def test_two_people_in_one_database_are_kept_apart(database: Path) -> None:
    answers = example.two_people(database)
    assert "mountains" in answers["alice"]
    assert "sea" not in answers["alice"]
    assert "sea" in answers["bob"]
    assert "mountains" not in answers["bob"]


async def test_the_inspected_state_has_earned_confidence_by_two_tool_turns(database: Path) -> None:
    state = await example.inspected(database)
    assert state.agent_id == "inspector"
    assert state.tool_history == ("record_fact", "record_fact")
    assert 0.25 < state.confidence < 1
    assert state.confidence == state.confidence_history[-1]
    assert [message.role.value for message in state.messages] == ["user", "assistant", "tool", "assistant"] * 2
