"""Checkpoints in a SQLite file: the default that needs no set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from locus.memory.durable import DEFAULT_TABLE, DurableCheckpointer
from locus.storage.sqlite import SQLiteStorage

__all__ = ["SQLiteCheckpointer", "sqlite_checkpointer"]


class SQLiteCheckpointer(DurableCheckpointer):
    """Keeps threads in one SQLite file, shared safely by many processes and threads.

    `durability="full"` (the default) means that a save survives a power cut; `"process"` that it survives the death of
    the process only, and is faster.
    """

    def __init__(
        self,
        path: str | Path = "locus.db",
        *,
        table_name: str = DEFAULT_TABLE,
        durability: Literal["full", "process"] = "full",
        ttl_seconds: float | None = None,
    ) -> None:
        super().__init__(SQLiteStorage(path, durability=durability), table_name=table_name, ttl_seconds=ttl_seconds)


def sqlite_checkpointer(
    path: str | Path = "locus.db",
    *,
    table_name: str = DEFAULT_TABLE,
    durability: Literal["full", "process"] = "full",
    ttl_seconds: float | None = None,
) -> SQLiteCheckpointer:
    """A `SQLiteCheckpointer`, by the name that goes with the other backends' factories."""
    return SQLiteCheckpointer(path, table_name=table_name, durability=durability, ttl_seconds=ttl_seconds)
