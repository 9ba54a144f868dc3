"""A checkpointer of somebody else's: three methods and a dict."""

from __future__ import annotations

from typing import Any

from locus.core.state import AgentState
from locus.memory.checkpointer import BaseCheckpointer


class ForeignCheckpointer(BaseCheckpointer):
    def __init__(self) -> None:
        self.threads: dict[str, list[tuple[str, str]]] = {}

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        saved = self.threads.setdefault(thread_id, [])
        checkpoint_id = checkpoint_id or str(len(saved) + 1)
        saved.append((checkpoint_id, state.model_dump_json()))
        return checkpoint_id

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        for known, text in reversed(self.threads.get(thread_id, [])):
            if checkpoint_id in (None, known):
                return AgentState.model_validate_json(text)
        return None

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        return [known for known, _ in reversed(self.threads.get(thread_id, []))][:limit]
