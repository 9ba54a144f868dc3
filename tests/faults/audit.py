"""What must be true of a desk after its processes were killed, read by a process that had no part in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from locus.core.messages import Message, Role, ToolCall
from locus.core.state import AgentState
from locus.errors import ModelError
from locus.memory.durable import DurableCheckpointer
from locus.models.history import check_history
from tests.faults.workers.clerk import Desk, answer_to, durable_at, name_of

__all__ = ["Findings", "audit"]


@dataclass
class Findings:
    """Each list names what went wrong, and should be empty; the numbers say how much was looked at."""

    lost_checkpoints: list[str] = field(default_factory=list)
    lost_answers: list[str] = field(default_factory=list)
    changed_results: list[str] = field(default_factory=list)
    questions_off_record: list[str] = field(default_factory=list)
    effects_off_record: list[str] = field(default_factory=list)
    repeated_effects: list[str] = field(default_factory=list)
    refused_histories: list[str] = field(default_factory=list)
    doubled_messages: list[str] = field(default_factory=list)
    failed_turns: list[str] = field(default_factory=list)
    checkpoints: int = 0
    answers: int = 0
    effects: int = 0
    unknown_outcomes: int = 0
    runs_again: int = 0

    @property
    def wrong(self) -> dict[str, list[str]]:
        """What went wrong."""
        lists = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: found for name, found in lists.items() if isinstance(found, list) and found}

    def __str__(self) -> str:
        return (
            f"{self.checkpoints} acknowledged checkpoints ({len(self.lost_checkpoints)} lost), "
            f"{self.answers} answers ({len(self.lost_answers)} lost), {self.effects} effects of tools "
            f"({len(self.effects_off_record)} off the record, {len(self.repeated_effects)} repeated), "
            f"{len(self.refused_histories)} histories refused; "
            f"{self.unknown_outcomes} calls of unknown outcome, {self.runs_again} idempotent calls run again"
        )


async def audit(desk: Desk, threads: Iterable[str], checkpointer: DurableCheckpointer | None = None) -> Findings:
    """Look at all that was acknowledged and all that was done."""
    found = Findings()
    checkpointer = checkpointer or durable_at(desk.kind, desk.place)
    states = {thread: await checkpointer.load(thread) or AgentState() for thread in threads}
    await _checkpoints(found, desk, checkpointer)
    _answers(found, desk, states)
    _questions(found, desk, states)
    _effects(found, desk, states)
    for thread, state in states.items():
        _history(found, thread, state)
    found.runs_again = sum(1 for one in desk.attempts.entries() if one["attempt"] > 1)
    await checkpointer.close()
    return found


async def _checkpoints(found: Findings, desk: Desk, checkpointer: DurableCheckpointer) -> None:
    for told in desk.told.entries():
        if "checkpoint" in told:
            found.checkpoints += 1
            state = await checkpointer.load(told["thread"], told["checkpoint"])
            if state is None or len(state.messages) != told["messages"]:
                found.lost_checkpoints.append(f"{told['thread']}: {told['checkpoint']}")


def _answers(found: Findings, desk: Desk, states: dict[str, AgentState]) -> None:
    """Every answer, call and result that a caller was told of is in the thread, as it was told."""
    said = {thread: Counter(m.text for m in state.messages) for thread, state in states.items()}
    done = {one.tool_call_id: one for state in states.values() for one in state.tool_executions}
    for told in desk.told.entries():
        if "answer" in told:
            found.answers += 1
            if told["reason"] != "complete":
                found.failed_turns.append(str(told))
            elif said[told["thread"]][told["answer"]] != 1:
                found.lost_answers.append(told["answer"])
        for call in told.get("calls", ()):
            if call not in done:
                found.lost_answers.append(f"call {call}")
        if "call" in told:
            one = done.get(told["call"])
            if one is None or (one.result, one.error) != (told["result"], told["error"]):
                found.changed_results.append(f"{told} is now {one}")


def _questions(found: Findings, desk: Desk, states: dict[str, AgentState]) -> None:
    """The model was asked nothing that is not on record."""
    said = {name_of(m) for state in states.values() for m in state.messages if m.role is Role.USER}
    found.questions_off_record += sorted({one["turn"] for one in desk.asked.entries()} - said)


def _effects(found: Findings, desk: Desk, states: dict[str, AgentState]) -> None:
    """Nothing was done that is not on record, and nothing twice: neither by its key nor by what it was for."""
    on_record = {call.idempotency_key: (thread, call) for thread, call in _calls(states)}
    effects = desk.effects.entries()
    found.effects = len(effects)
    for effect in effects:
        thread, call = on_record.get(effect["key"], ("", None))
        if call is None or (thread, call.id, call.name) != (effect["thread"], effect["call"], effect["tool"]):
            found.effects_off_record.append(str(effect))
    for by in ("key", "ref"):
        counts = Counter(effect[by] for effect in effects)
        found.repeated_effects += [str(what) for what, count in counts.items() if count > 1]


def _calls(states: dict[str, AgentState]) -> Iterable[tuple[str, ToolCall]]:
    for thread, state in states.items():
        for message in state.messages:
            for call in message.tool_calls:
                yield thread, call


def _history(found: Findings, thread: str, state: AgentState) -> None:
    try:
        check_history([*state.messages, Message.user("and now?")])
    except ModelError as error:
        found.refused_histories.append(f"{thread}: {error}")
    names = [name_of(message) for message in state.messages if message.role is Role.USER]
    if len(set(names)) != len(names):
        found.doubled_messages.append(f"{thread}: {names}")
    answers = [m.text for m in state.messages if m.role is Role.ASSISTANT and not m.tool_calls]
    if answers != [answer_to(name) for name in names]:
        found.lost_answers.append(f"{thread}: of {names} only {answers}")
    executed: list[Any] = [one.tool_call_id for one in state.tool_executions]
    if sorted(executed) != sorted(call.id for _, call in _calls({thread: state})):
        found.changed_results.append(f"{thread}: the tool executions do not match the calls")
    found.unknown_outcomes += sum(1 for one in state.tool_executions if "outcome unknown" in (one.error or ""))
