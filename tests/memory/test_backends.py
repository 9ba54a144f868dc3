"""Checkpointers by name and by URL, and their sync twins."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from locus.errors import ConfigError, InputError, UnsupportedError
from locus.memory import BaseCheckpointer, DurableCheckpointer, get_checkpointer, get_sync_checkpointer
from locus.memory.backends import FileCheckpointer, MemoryCheckpointer, SQLiteCheckpointer, sqlite_checkpointer
from locus.memory.saver import CheckpointSaver
from locus.memory.sync import SyncCheckpointer, SyncCheckpointSaver
from locus.memory.testing.rules import said, save_each, texts
from locus.storage.memory import MemoryStorage
from tests.backends.sqlite_files import execute


async def test_a_memory_checkpointer_counts_and_forgets() -> None:
    checkpointer = MemoryCheckpointer()
    await save_each(checkpointer, "one", 3)
    await save_each(checkpointer, "two", 2)
    assert sorted(checkpointer.get_thread_ids()) == ["one", "two"]
    assert (checkpointer.get_checkpoint_count(), checkpointer.get_checkpoint_count("one")) == (5, 3)
    checkpointer.clear()
    assert (checkpointer.get_thread_ids(), checkpointer.get_checkpoint_count()) == ([], 0)


@pytest.mark.parametrize("pretty", [True, False])
async def test_a_file_checkpointer_keeps_readable_files_by_thread(tmp_path: Path, pretty: bool) -> None:
    checkpointer = FileCheckpointer(tmp_path / "threads", pretty)
    await save_each(checkpointer, "one", 3)
    await save_each(checkpointer, "../two", 1)
    assert checkpointer.get_storage_path() == tmp_path / "threads"
    path = checkpointer.get_storage_path("one")
    assert path.is_relative_to(tmp_path / "threads")
    files = sorted(path.glob("n*.json"))
    assert len(files) == 3
    assert "thing3" in json.dumps(json.loads(files[2].read_text()))
    assert ("\n  " in files[2].read_text()) == pretty
    one, all_of_it = await checkpointer.get_disk_usage("one"), await checkpointer.get_disk_usage()
    assert 0 < one < all_of_it
    assert await checkpointer.get_disk_usage("nobody") == 0
    assert not (tmp_path / "two").exists()
    with pytest.raises(InputError):
        checkpointer.get_storage_path("")
    await checkpointer.close()


async def test_a_sqlite_checkpointer_uses_the_table_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    for name in ("first", "second"):
        checkpointer = sqlite_checkpointer(path, table_name=name)
        await checkpointer.save(said(name), "thread")
        await checkpointer.close()
    assert {"first", "second"} <= {str(row[0]) for row in execute(path, "SELECT name FROM sqlite_master")}
    again = SQLiteCheckpointer(path, table_name="first")
    assert texts(await again.load("thread")) == ["first"]
    await again.close()


async def test_the_defaults_of_checkpointer_and_saver_do_not_collide() -> None:
    storage = MemoryStorage()
    await DurableCheckpointer(storage).save(said("x"), "thread", "one")
    await CheckpointSaver(storage).put(thread_id="thread", checkpoint_id="one", checkpoint_data={"x": 1})
    assert await DurableCheckpointer(storage).list_threads() == ["thread"]
    assert len(await CheckpointSaver(storage).list_checkpoints(thread_id="thread")) == 1


@pytest.mark.parametrize("scheme", ["memory", "file", "sqlite"])
async def test_a_url_opens_a_checkpointer(scheme: str, tmp_path: Path) -> None:
    url = {"memory": "memory://", "file": f"file://{tmp_path}/f", "sqlite": f"sqlite:///{tmp_path}/x.db"}[scheme]
    checkpointer = get_checkpointer(url, ttl_seconds=60)
    await checkpointer.save(said("hello"), "thread")
    assert texts(await checkpointer.load("thread")) == ["hello"]
    await checkpointer.close()
    if scheme != "memory":
        with get_sync_checkpointer(url) as sync:
            assert texts(sync.load("thread")) == ["hello"]


def test_an_unknown_url_or_option_is_refused() -> None:
    for url in ("postgre://x", "nothing"):
        with pytest.raises(ConfigError):
            get_checkpointer(url)
    with pytest.raises(ConfigError):
        get_checkpointer("memory://", colour="red")


@pytest.mark.parametrize(
    ("twin", "original", "without"),
    [(SyncCheckpointer, DurableCheckpointer, {"begin", "load_turn"}), (SyncCheckpointSaver, CheckpointSaver, set())],
)
def test_a_sync_twin_has_every_method_with_the_same_parameters(twin: type, original: type, without: set[str]) -> None:
    for name, method in inspect.getmembers(original, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in without:
            sync = getattr(twin, name)
            assert not inspect.iscoroutinefunction(sync)
            assert inspect.signature(sync).parameters == inspect.signature(method).parameters, name


async def test_a_sync_twin_works_within_a_running_loop() -> None:
    checkpointer = DurableCheckpointer(MemoryStorage())
    SyncCheckpointer(checkpointer).save(said("sync"), "thread")
    assert texts(await checkpointer.load("thread")) == ["sync"]


async def test_what_a_foreign_checkpointer_does_not_offer_it_says() -> None:
    class Three(BaseCheckpointer):
        async def save(self, state, thread_id, checkpoint_id=None, metadata=None):  # type: ignore[no-untyped-def]
            return "id"

        async def load(self, thread_id, checkpoint_id=None):  # type: ignore[no-untyped-def]
            return said("x") if thread_id == "there" else None

        async def list_checkpoints(self, thread_id, limit=10):  # type: ignore[no-untyped-def]
            return []

    foreign = Three()
    assert not any(vars(foreign.capabilities).values())
    assert await foreign.exists("there")
    assert not await foreign.exists("not there")
    for ask in (
        foreign.delete("x"),
        foreign.search("x"),
        foreign.query_by_metadata("a", 1),
        foreign.get_metadata("x"),
        foreign.vacuum(),
        foreign.copy_thread("x", "y"),
        foreign.list_threads(),
        foreign.list_with_metadata(),
    ):
        with pytest.raises(UnsupportedError, match="SQLiteCheckpointer") as refusal:
            await ask
        assert isinstance(refusal.value, NotImplementedError)
