"""Memory features, each written once on the storage contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locus.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from locus.memory.durable import DurableCheckpointer
from locus.memory.saver import CheckpointSaver

if TYPE_CHECKING:
    from locus.memory.sync import SyncCheckpointer

__all__ = [
    "BaseCheckpointer",
    "CheckpointSaver",
    "CheckpointerCapabilities",
    "DurableCheckpointer",
    "get_checkpointer",
    "get_sync_checkpointer",
]


def get_checkpointer(
    url: str, *, table_name: str | None = None, ttl_seconds: float | None = None, **options: Any
) -> DurableCheckpointer:
    """The checkpointer for a URL such as `sqlite:///agents.db`, `file:///var/lib/agents` or `memory://`.

    `options` are those of the storage. An unknown scheme or option says what is known.
    """
    from locus.memory.durable import DEFAULT_TABLE
    from locus.storage.registry import open_storage

    storage = open_storage(url, **options)
    return DurableCheckpointer(storage, table_name=table_name or DEFAULT_TABLE, ttl_seconds=ttl_seconds)


def get_sync_checkpointer(url: str, **options: Any) -> SyncCheckpointer:
    """What `get_checkpointer` gives, for ordinary code: the same methods without `await`."""
    from locus.memory.sync import SyncCheckpointer

    return SyncCheckpointer(get_checkpointer(url, **options))
