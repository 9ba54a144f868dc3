"""For authors of storages and of features on them: the contract as tests, faults on purpose, simulated writers.

`StorageContract` and `storage_machine` need the extra `testing` (pytest, pytest-asyncio, hypothesis).
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from locus.storage.testing.faulty import Fault, FaultyStorage, Stopped
from locus.storage.testing.simulation import FakeClock, SteppedStorage, run_schedule
from locus.storage.testing.wrapped import WrappedStorage

if TYPE_CHECKING:
    from locus.storage.testing.contract import StorageContract
    from locus.storage.testing.machine import storage_machine
    from locus.storage.testing.rules import needs, refuses

__all__ = [
    "FakeClock",
    "Fault",
    "FaultyStorage",
    "SteppedStorage",
    "Stopped",
    "StorageContract",
    "WrappedStorage",
    "needs",
    "refuses",
    "run_schedule",
    "storage_machine",
]

_LAZY = {"StorageContract": "contract", "needs": "rules", "refuses": "rules", "storage_machine": "machine"}


def __getattr__(name: str) -> object:
    """Import what needs the test tools only when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    rules = ("contract", "record_rules", "value_rules", "search_rules", "time_rules", "concurrency_rules")
    pytest.register_assert_rewrite(*({f"{__name__}.{module}" for module in rules} - {*sys.modules}))
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
