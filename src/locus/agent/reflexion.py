"""How an agent judges its own progress: a confidence that tools earn and lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Reflection", "reflect"]

SUCCESS = 0.15
ERROR = -0.2
LOOP = -0.3


@dataclass(frozen=True, slots=True)
class Reflection:
    """What one iteration did to the confidence."""

    assessment: str
    delta: float
    confidence: float
    guidance: str | None


def reflect(confidence: float, errors: Sequence[str | None], *, looping: bool) -> Reflection:
    """Judge the tools of one iteration; `errors` has None for each that succeeded.

    A gain is worth less the more confidence there is already, a loss always its full amount.
    """
    failed = [error for error in errors if error is not None]
    worked = len(errors) - len(failed)
    delta = SUCCESS * worked + ERROR * len(failed) + (LOOP if looping else 0.0)
    if delta > 0:
        delta *= 1.0 - confidence
    new = min(1.0, max(0.0, confidence + delta))
    return Reflection(_assess(worked, len(failed), looping), new - confidence, new, _guide(failed, looping))


def _assess(worked: int, failed: int, looping: bool) -> str:
    parts = [f"{worked} of {worked + failed} tool calls succeeded"]
    if looping:
        parts.append("the same calls are being repeated")
    return "; ".join(parts)


def _guide(failed: Sequence[str], looping: bool) -> str | None:
    if looping:
        return "The same call keeps being made. Use what it returned, or try another way."
    if failed:
        return f"A tool failed: {failed[0][:200]}. Correct the arguments or try another way."
    return None
