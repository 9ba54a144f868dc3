"""Where memory is kept: one small contract and a backend for each database."""

from __future__ import annotations

from locus.storage.base import (
    ABSENT,
    ANY,
    MAX_RECORD_BYTES,
    Capabilities,
    Check,
    Delete,
    Hit,
    Key,
    Op,
    PartPage,
    Put,
    Query,
    Record,
    Scalar,
    Space,
    Span,
    Storage,
)
from locus.storage.blocking import BlockingStorage
from locus.storage.registry import known_schemes, open_storage, register
from locus.storage.sync import SyncStorage

__all__ = [
    "ABSENT",
    "ANY",
    "MAX_RECORD_BYTES",
    "BlockingStorage",
    "Capabilities",
    "Check",
    "Delete",
    "Hit",
    "Key",
    "Op",
    "PartPage",
    "Put",
    "Query",
    "Record",
    "Scalar",
    "Space",
    "Span",
    "Storage",
    "SyncStorage",
    "known_schemes",
    "open_storage",
    "register",
]
