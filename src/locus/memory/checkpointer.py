"""What a checkpointer is: the contract that agents save to and people read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from locus.core.state import AgentState
from locus.errors import UnsupportedError

__all__ = ["BaseCheckpointer", "CheckpointerCapabilities"]


@dataclass
class CheckpointerCapabilities:
    """Which optional methods of a checkpointer work."""

    search: bool = False
    metadata_query: bool = False
    vacuum: bool = False
    branching: bool = False
    ttl: bool = False
    list_threads: bool = False
    list_with_metadata: bool = False
    persistent_checkpoint_ids: bool = False


class BaseCheckpointer(ABC):
    """Saves and loads agent states by thread. Three methods make a checkpointer; the rest are optional.

    Ask `capabilities` before calling an optional method; one that is not offered raises `UnsupportedError`,
    which is also a `NotImplementedError`.
    """

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Which optional methods work here."""
        return CheckpointerCapabilities()

    @abstractmethod
    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Save a state as the thread's newest checkpoint and return its id (made when not given)."""

    @abstractmethod
    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """Return the named state, or the newest one; None if there is none."""

    @abstractmethod
    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """Return checkpoint ids, newest first."""

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete one checkpoint, or the whole thread; False if there was nothing to delete."""
        raise self._unsupported("delete")

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Whether the checkpoint, or any checkpoint of the thread, exists."""
        return await self.load(thread_id, checkpoint_id) is not None

    async def close(self) -> None:
        """Give back connections. Never raises; the checkpointer can be used again."""

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Full-text search: dicts of thread_id, checkpoint_id, score and updated_at, best first."""
        raise self._unsupported("search")

    async def query_by_metadata(self, key: str, value: Any, limit: int = 100) -> list[dict[str, Any]]:
        """Threads whose newest checkpoint has this metadata: thread_id, checkpoint_id, metadata, updated_at."""
        raise self._unsupported("metadata_query")

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """checkpoint_id, created_at, updated_at and metadata of a checkpoint; None if there is none."""
        raise self._unsupported("metadata_query")

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Remove checkpoints older than that and return how many went."""
        raise self._unsupported("vacuum")

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with its history to a new id; False if there is no such thread."""
        raise self._unsupported("branching")

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """Thread ids that match a pattern in which `*` stands for anything."""
        raise self._unsupported("list_threads")

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """Each thread's newest checkpoint: thread_id, checkpoint_id, metadata, created_at, updated_at."""
        raise self._unsupported("list_with_metadata")

    def _unsupported(self, capability: str) -> UnsupportedError:
        return UnsupportedError(
            f"{type(self).__name__} does not offer {capability!r} (see its `capabilities`); "
            "SQLiteCheckpointer does, as does every checkpointer made by locus.memory.get_checkpointer"
        )
