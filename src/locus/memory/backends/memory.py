"""Checkpoints in this process's memory: for tests, trials and short-lived agents."""

from __future__ import annotations

from locus._sync import drive
from locus.memory.durable import DurableCheckpointer
from locus.storage.memory import MemoryStorage

__all__ = ["MemoryCheckpointer"]


class MemoryCheckpointer(DurableCheckpointer):
    """Everything a durable checkpointer does, until the process ends."""

    def __init__(self, *, ttl_seconds: float | None = None) -> None:
        super().__init__(MemoryStorage(), ttl_seconds=ttl_seconds)

    def clear(self) -> None:
        """Forget every thread."""
        for thread_id in self.get_thread_ids():
            drive(self.delete(thread_id))

    def get_thread_ids(self) -> list[str]:
        """The ids of all threads."""
        return drive(self.list_threads(limit=2**31))

    def get_checkpoint_count(self, thread_id: str | None = None) -> int:
        """How many checkpoints a thread has, or all threads have."""
        threads = self.get_thread_ids() if thread_id is None else [thread_id]
        return sum(len(drive(self.list_checkpoints(thread, limit=2**31))) for thread in threads)
