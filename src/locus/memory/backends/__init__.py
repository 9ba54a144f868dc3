"""Checkpointers by the name of what they keep their threads in."""

from locus.memory.backends.file import FileCheckpointer
from locus.memory.backends.memory import MemoryCheckpointer
from locus.memory.backends.sqlite import SQLiteCheckpointer, sqlite_checkpointer

__all__ = ["FileCheckpointer", "MemoryCheckpointer", "SQLiteCheckpointer", "sqlite_checkpointer"]
