"""Checkpoints as files: one readable JSON file each, in a folder per thread."""

from __future__ import annotations

from pathlib import Path

from locus._ids import check_name
from locus.memory.durable import DurableCheckpointer
from locus.storage.file import FileStorage

__all__ = ["FileCheckpointer"]


class FileCheckpointer(DurableCheckpointer):
    """Keeps threads below `base_dir`; `pretty` indents the files for people."""

    def __init__(
        self, base_dir: str | Path = ".locus_checkpoints", pretty: bool = True, *, ttl_seconds: float | None = None
    ) -> None:
        self._files = FileStorage(base_dir, pretty=pretty)
        super().__init__(self._files, ttl_seconds=ttl_seconds)

    def get_storage_path(self, thread_id: str | None = None) -> Path:
        """The folder of all checkpoints, or of one thread's."""
        if thread_id is None:
            return self._files.base_dir
        return self._files.part_path(self._log.space.name, (check_name(thread_id, "thread_id"),))

    async def get_disk_usage(self, thread_id: str | None = None) -> int:
        """The bytes that all checkpoints take, or one thread's."""
        part = None if thread_id is None else (check_name(thread_id, "thread_id"),)
        return await self._files.disk_usage(part)
