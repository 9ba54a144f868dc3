"""What a later run makes of the calls that an earlier one left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from locus.agent.outcome import UNKNOWN, Outcome
from locus.core.messages import ToolCall
from locus.errors import InputError
from locus.tools import ToolSet

__all__ = ["Plan", "UnknownOutcome", "Verdict", "plan", "responses"]


CONFIRMED = "The run was interrupted; the user confirms that this was done."


@dataclass(slots=True)
class Plan:
    """Each open call goes one of these ways."""

    known: dict[str, Outcome] = field(default_factory=dict)
    """On record; used as they are."""
    lost: dict[str, Outcome] = field(default_factory=dict)
    """May have happened and must not be repeated; the model is told so."""
    again: list[ToolCall] = field(default_factory=list)
    """Run, because that is safe."""
    asked: list[ToolCall] = field(default_factory=list)
    """May have happened; a person is asked."""


def plan(calls: Sequence[ToolCall], settled: Mapping[str, Mapping[str, Any]], tools: ToolSet, *, ask: bool) -> Plan:
    """Sort the open calls of an unfinished reply."""
    result = Plan()
    for call in calls:
        tool = tools.get(call.name)
        if call.id in settled:
            result.known[call.id] = Outcome.from_json(settled[call.id])
        elif tool is None:
            result.lost[call.id] = Outcome(call.name, error=f"{UNKNOWN} The tool {call.name!r} is no longer there.")
        elif tool.idempotent:
            result.again.append(call)
        elif ask:
            result.asked.append(call)
        else:
            result.lost[call.id] = Outcome(call.name, error=UNKNOWN)
    return result


class Verdict(BaseModel):
    """A person's answer to `UnknownOutcome`; a plain true or false will do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    happened: bool | None
    """None: the person does not know either."""
    result: str | None = None
    """What came of it, if it happened and that is known."""

    @classmethod
    def of(cls, response: object) -> Verdict:
        """Read an answer; `InputError` says what it should be."""
        try:
            return cls(happened=response) if isinstance(response, bool | None) else cls.model_validate(response)
        except ValidationError as error:
            raise InputError(
                f"whether a call happened is answered with True, False, None or {{'happened': ..., 'result': ...}}, "
                f"not {response!r}"
            ) from error

    def outcome(self, call: ToolCall) -> Outcome | None:
        """What the verdict settles; None when the call did not happen and can be run."""
        if self.happened is None:
            return Outcome(call.name, error=UNKNOWN)
        if self.happened:
            return Outcome(call.name, result=self.result or CONFIRMED)
        return None


class UnknownOutcome(BaseModel):
    """What a person is asked when nobody knows whether a call happened. Answered with a `Verdict`."""

    model_config = ConfigDict(frozen=True)

    question: str
    tool_name: str
    arguments: dict[str, Any]  # JSON, as the model wrote it
    idempotency_key: str | None = None

    @classmethod
    def interrupt(cls, call: ToolCall) -> dict[str, Any]:
        """The interrupt that asks about a call."""
        payload = cls(
            question=f"The run was interrupted while {call.name!r} may have been running. Did it happen?",
            tool_name=call.name,
            arguments=call.arguments,
            idempotency_key=call.idempotency_key,
        )
        return {
            "call_id": call.id,
            "tool_name": call.name,
            "kind": "unknown_outcome",
            "payload": payload.model_dump(mode="json"),
            "response_schema": Verdict.model_json_schema(),
        }


def responses(interrupts: Sequence[Mapping[str, Any]], response: Any) -> dict[str, Any]:  # JSON of the person's
    """Whose answer is whose: one for the only question, or a dict by call id for several."""
    ids = [str(question["call_id"]) for question in interrupts]
    if isinstance(response, Mapping) and response and set(response) <= set(ids):
        return dict(response)
    if len(ids) == 1:
        return {ids[0]: response}
    raise InputError(f"{len(ids)} questions are open; answer with a dict by call id: {', '.join(ids)}")
