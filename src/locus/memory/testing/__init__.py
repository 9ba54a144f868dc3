"""For authors of storages and of features on them: what memory promises, as tests, and writers simulated by a seed.

The contracts need the extra `testing` (pytest, pytest-asyncio, hypothesis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locus.memory.testing.simulation import simulate

if TYPE_CHECKING:
    from locus.memory.testing.checkpointer import CheckpointerContract
    from locus.memory.testing.runs import RunContract
    from locus.memory.testing.saver import SaverContract

__all__ = ["CheckpointerContract", "RunContract", "SaverContract", "simulate"]

_LAZY = {"CheckpointerContract": "checkpointer", "RunContract": "runs", "SaverContract": "saver"}
_RULES = ("checkpointer", "saver", "runs", "save_rules", "delete_rules", "find_rules", "time_rules", "copy_rules")
_MORE_RULES = ("id_rules", "delta_rules", "damage_rules", "concurrency_rules", "rules", "medium")


def __getattr__(name: str) -> object:
    """Import what needs the test tools only when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import sys

    import pytest

    names = {f"{__name__}.{module}" for module in (*_RULES, *_MORE_RULES)}
    pytest.register_assert_rewrite(*(names - {*sys.modules}))
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
