"""A growing conversation to measure with: messages of 400 characters from a vocabulary of 2,000 words."""

from __future__ import annotations

import random
from collections.abc import Iterator

from locus.core.messages import Message
from locus.core.state import AgentState

__all__ = ["CHARACTERS", "growing"]

CHARACTERS = 400


def growing(messages: int, seed: int = 1) -> Iterator[AgentState]:
    """The states of a thread that grows by a message at a time."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2000)]
    state = AgentState(agent_id="bench")
    for at in range(messages):
        text = " ".join(rng.choices(vocabulary, k=90))[:CHARACTERS]
        state = state.with_message(Message.user(text) if at % 2 == 0 else Message.assistant(text))
        yield state
