"""Random operations on each storage and on a dict give the same."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from locus.storage import Storage
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage
from locus.storage.testing import FaultyStorage, storage_machine


@pytest.fixture
def new_path() -> Iterator[Callable[[], Path]]:
    # Not tmp_path: hypothesis makes many storages within one test.
    with tempfile.TemporaryDirectory() as directory:
        count = itertools.count()
        yield lambda: Path(directory) / str(next(count))


@pytest.fixture(params=["memory", "file", "sqlite", "record", "part"])
def make(request: pytest.FixtureRequest, new_path: Callable[[], Path]) -> Callable[[], Storage]:
    makers: dict[str, Callable[[], Storage]] = {
        "memory": MemoryStorage,
        "file": lambda: FileStorage(new_path()),
        "sqlite": lambda: SQLiteStorage(new_path()),
        "record": lambda: FaultyStorage(MemoryStorage(), atomic="record"),
        "part": lambda: FaultyStorage(MemoryStorage(), atomic="part"),
    }
    return makers[request.param]


def test_a_storage_behaves_as_a_dict_does(make: Callable[[], Storage], certify: bool) -> None:
    # Without the explain phase, which takes minutes on a failure of a state machine.
    phases = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
    size = settings(max_examples=400 if certify else 40, stateful_step_count=30, phases=phases)
    run_state_machine_as_test(storage_machine(make), settings=size)
