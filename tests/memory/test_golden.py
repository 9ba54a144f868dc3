"""What an earlier version wrote is read by this one, and can be gone on with."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from locus.memory.durable import DurableCheckpointer
from locus.memory.log.record import FORMAT
from locus.memory.run import Turn
from locus.memory.testing.rules import said, texts
from locus.storage.base import Storage
from scripts.make_golden import GOLDEN, collect, storages

FORMATS = sorted(folder.name for folder in GOLDEN.glob("format_*"))


@pytest.fixture(params=FORMATS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: the golden databases are never written."""
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / request.param))


@pytest.fixture(params=["sqlite", "file"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def storage(folder: Path, name: str) -> AsyncIterator[Storage]:
    storage = storages(folder)[name]()
    yield storage
    await storage.close()


def expected_of(folder: Path, name: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="ascii"))[name]
    return expected


def test_the_present_format_has_a_golden_database() -> None:
    assert f"format_{FORMAT}" in FORMATS


async def test_everything_that_was_written_is_read(storage: Storage, folder: Path, name: str) -> None:
    expected, read = expected_of(folder, name), await collect(storage)
    assert read["threads"].keys() == expected["threads"].keys()
    for thread, what in expected["threads"].items():
        assert read["threads"][thread] == what, thread
    assert read == expected
    assert len(expected["threads"]) > 20
    assert await storage.verify() == []


async def test_an_old_thread_can_be_gone_on_with(storage: Storage, folder: Path, name: str) -> None:
    expected = expected_of(folder, name)["threads"]
    checkpointer = DurableCheckpointer(storage)
    for thread in ("conversation", "removals", "branches", "long"):
        state = await checkpointer.load(thread)
        added = await checkpointer.save(said("from a later version", after=state), thread)
        first = expected[thread]["checkpoints"][-1]["checkpoint_id"]
        assert await checkpointer.delete(thread, first)
        assert await checkpointer.copy_thread(thread, f"copy of {thread}")
        cold = DurableCheckpointer(storage)
        for one in (thread, f"copy of {thread}"):
            assert await cold.list_checkpoints(one, 1) == [added]
            for checkpoint in expected[thread]["checkpoints"][:-1]:
                loaded = await cold.load(one, checkpoint["checkpoint_id"])
                assert loaded is not None
                assert json.loads(json.dumps(loaded.to_checkpoint())) == checkpoint["state"]


async def test_an_unfinished_turn_can_be_finished(storage: Storage) -> None:
    checkpointer = DurableCheckpointer(storage)
    run = await checkpointer.begin("unfinished")
    assert run.turn == Turn("turn of unfinished", "replied", 2)
    assert await run.settled() == {"call 1": {"result": "ok"}}
    await run.append(said("finished", after=run.state), Turn("turn of unfinished", "done", 2))
    await run.release()
    assert texts(await checkpointer.load("unfinished")) == ["asked", "replied", "finished"]


async def test_a_vacuum_of_an_old_database_leaves_what_is_unfinished(storage: Storage) -> None:
    checkpointer = DurableCheckpointer(storage)
    await checkpointer.vacuum(1)
    assert sorted(await checkpointer.list_threads()) == ["unfinished", "waiting"]
