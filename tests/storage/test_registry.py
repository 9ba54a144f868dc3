"""Storages are opened by URL, and a URL that cannot work says why."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from locus.errors import ConfigError
from locus.storage import Key, Put, known_schemes, open_storage, register, registry
from locus.storage.file import FileStorage
from locus.storage.memory import MemoryStorage
from locus.storage.sqlite import SQLiteStorage


@pytest.fixture
def own_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_rows", dict(registry._rows))


def test_each_scheme_opens_its_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_storage("memory://"), MemoryStorage)
    assert isinstance(open_storage(f"sqlite:///{tmp_path}/a.db"), SQLiteStorage)
    absolute, relative = open_storage(f"file://{tmp_path}/dir"), open_storage("file://some/dir")
    assert isinstance(absolute, FileStorage)
    assert isinstance(relative, FileStorage)
    assert (absolute.base_dir, relative.base_dir) == (tmp_path / "dir", tmp_path / "some/dir")
    spaced = open_storage("file:///a%20b")
    assert isinstance(spaced, FileStorage)
    assert spaced.base_dir == Path("/a b")


async def test_sqlite_urls_name_relative_and_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///relative.db", f"sqlite:////{tmp_path}/absolute.db"):
        async with open_storage(url) as storage:
            await storage.commit([Put(Key("notes", ("a",), "1"), {})])
    assert {"relative.db", "absolute.db"} <= {*os.listdir(tmp_path)}


def test_memory_urls_share_by_name() -> None:
    assert open_storage("memory://shared-name") is open_storage("memory://shared-name")
    assert open_storage("memory://shared-name") is not open_storage("memory://another-name")
    assert open_storage("memory://") is not open_storage("memory://")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlit:///a.db", "unknown scheme 'sqlit' in storage URL; did you mean 'sqlite'?"),
        ("nothing://x", "unknown scheme 'nothing' in storage URL; known: file, memory, sqlite"),
        ("a.db", "as in sqlite:///file.db"),
        ("file://", "names no directory"),
        ("file:///x?prety=1", "unknown option 'prety' in file:// storage URL; known: pretty"),
        ("file:///x?pretty=perhaps", "option 'pretty' must be true or false, not 'perhaps'"),
        ("memory://?a=1", "unknown option 'a'"),
    ],
)
def test_a_url_that_cannot_work_says_why(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_storage(url)
    assert says in str(error.value)


@pytest.mark.parametrize("url", ["postgre://ada:hunter2@host/db", "ada:hunter2@postgres://host", "ada:hunter2@host"])
def test_no_error_repeats_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_storage(url)
    assert "hunter2" not in str(error.value)


def test_options_come_from_the_query_or_the_call(tmp_path: Path) -> None:
    for storage in (open_storage(f"file://{tmp_path}?pretty=false"), open_storage(f"file://{tmp_path}", pretty=False)):
        asyncio.run(storage.commit([Put(Key("notes", ("a",), "1"), {"a": 1})]))
        assert (tmp_path / "notes" / "a" / "1.json").read_text().count("\n") == 0
    with pytest.raises(ConfigError, match="both"):
        open_storage(f"file://{tmp_path}?pretty=false", pretty=True)


@pytest.mark.usefixtures("own_schemes")
def test_a_third_party_registers_a_scheme_and_a_missing_driver_names_the_extra() -> None:
    register("mine", "locus.storage.memory:MemoryStorage")
    register("theirs", "no_such_driver_package:Storage", extra="theirs")
    assert "mine" in known_schemes()
    assert isinstance(open_storage("mine://"), MemoryStorage)
    with pytest.raises(ConfigError, match=r"pip install 'locus-memory\[theirs\]'"):
        open_storage("theirs://host")
    with pytest.raises(ConfigError, match="package.module:Class"):
        register("bad", "no_class")


def test_an_installed_package_registers_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "plugged-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[locus.storages]\nplugged = locus.storage.memory:MemoryStorage\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "plugged" in known_schemes()
    assert isinstance(open_storage("plugged://"), MemoryStorage)
