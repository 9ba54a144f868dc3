"""How a SQLite file is made, declared and verified, and what its errors say."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from locus.errors import (
    ConfigError,
    CorruptRecordError,
    InputError,
    SetupError,
    StorageError,
    UnavailableError,
)
from locus.storage.base import Put, Query, Space, Span
from locus.storage.sqlite import SQLiteStorage
from locus.storage.sync import SyncStorage
from tests.backends.sqlite_files import (
    PART,
    contents,
    execute,
    key,
    message,
)

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locus.db"


@pytest.fixture
def sync(path: Path) -> Iterator[SyncStorage]:
    with SyncStorage(SQLiteStorage(path)) as sync:
        yield sync


class TestSetup:
    def test_a_table_dropped_behind_our_back_is_made_again_by_the_next_object(self, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([Put(key(1), {}, text="apple", tags={"a": 1})])
        execute(path, "DROP TABLE notes")
        with SyncStorage(SQLiteStorage(path)) as sync:
            assert "'notes'" in " ".join(sync.verify())
            assert sync.scan([Span("notes", PART)]) == [[]]
            sync.commit([Put(key(2), {}, text="pear")])
            assert sync.search(Query("notes", text="apple")) == []
            assert [hit.record.key.sort for hit in sync.search(Query("notes", text="pear"))] == ["000002"]
            assert sync.verify() == []

    @pytest.mark.parametrize("table", ["notes$tags", "notes$text"])
    def test_a_dropped_index_is_built_again_from_the_records(self, path: Path, table: str) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([Put(key(1), {}, text="apple", tags={"a": 1})])
        execute(path, f'DROP TABLE "{table}"')
        with SyncStorage(SQLiteStorage(path)) as sync:
            assert len(sync.search(Query("notes", text="apple", where={"a": 1}))) == 1

    def test_using_a_table_that_is_gone_says_so(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {})])
        execute(path, "DROP TABLE notes")
        with pytest.raises(SetupError, match="new storage object"):
            sync.commit([Put(key(2), {})])

    def test_a_table_of_somebody_else_is_not_touched(self, path: Path, sync: SyncStorage) -> None:
        execute(path, "CREATE TABLE notes (mine)")
        with pytest.raises(SetupError, match="'notes' that is not Locus's"):
            sync.commit([Put(key(1), {})])
        sync.commit([Put(key(1, space="other"), {})])
        assert execute(path, "SELECT * FROM notes") == []

    def test_a_newer_schema_is_refused(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {})])
        execute(path, "UPDATE locus_meta SET value = '99' WHERE key = 'schema'")
        with SyncStorage(SQLiteStorage(path)) as late:
            with pytest.raises(SetupError, match="99.*upgrade"):
                late.get([key(1)])
            assert "99" in late.verify()[0]

    def test_a_bare_space_is_what_the_file_says(self, path: Path) -> None:
        declared = Space("logs", log=True, dimension=2, metric="l2")
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.setup(declared)
            past = time.time() - 1
            sync.commit([Put(key(1, space="logs"), {}), Put(key(2, space="logs"), {}, expires_at=past)])
        with SyncStorage(SQLiteStorage(path)) as bare:
            assert bare.get([key(1, space="logs")]) == [None]
            with pytest.raises(InputError, match="dimension 2"):
                bare.commit([Put(key(3, space="logs"), {}, vector=[1, 2, 3])])
            bare.setup(Space("logs"))
            bare.setup(declared)
        with SyncStorage(SQLiteStorage(path)) as fresh, pytest.raises(InputError, match="dimension 2"):
            fresh.commit([Put(key(3, space="logs"), {}, vector=[1, 2, 3])])

    @pytest.mark.parametrize(
        "other", [Space("logs", dimension=3), Space("logs", log=False, dimension=2), Space("logs", metric="dot")]
    )
    def test_a_contradicting_declaration_is_refused(self, path: Path, other: Space) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.setup(Space("logs", log=True, dimension=2, metric="l2"))
            sync.commit([Put(key(1, space="logs"), {})])
        with SyncStorage(SQLiteStorage(path)) as late, pytest.raises(SetupError, match="logs"):
            late.setup(other)

    def test_what_was_left_open_may_be_declared_later(self, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([Put(key(1), {})])
        with SyncStorage(SQLiteStorage(path)) as late:
            late.setup(Space("notes", dimension=3, metric="dot"))
        with SyncStorage(SQLiteStorage(path)) as bare, pytest.raises(InputError, match="dimension 3"):
            bare.search(Query("notes", vector=[1.0]))

    @pytest.mark.parametrize("name", ["sqlite_notes", "locus_meta"])
    def test_names_that_are_taken_are_refused(self, sync: SyncStorage, name: str) -> None:
        with pytest.raises(InputError, match="another name"):
            sync.setup(Space(name))


class TestVerify:
    def test_it_makes_no_file(self, tmp_path: Path, sync: SyncStorage) -> None:
        assert "does not exist" in sync.verify()[0]
        assert list(tmp_path.iterdir()) == []

    def test_it_changes_nothing(self, tmp_path: Path, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([message(1)])
        before = contents(tmp_path)
        with SyncStorage(SQLiteStorage(path)) as late:
            assert late.verify() == []
        assert contents(tmp_path) == before

    def test_it_names_settings_that_lose_data(self, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([message(1)])
        execute(path, "PRAGMA journal_mode = DELETE")
        with SyncStorage(SQLiteStorage(path, durability="process")) as lax:
            findings = lax.verify()
        assert ["log" in findings[0], "power cut" in findings[1]] == [True, True]

    def test_a_file_without_our_tables_is_named(self, path: Path, sync: SyncStorage) -> None:
        execute(path, "CREATE TABLE mine (a)")
        assert "no tables of Locus" in " ".join(sync.verify())

    def test_a_newer_schema_is_named_whatever_it_says_of_its_spaces(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([message(1)])
        execute(path, "UPDATE locus_meta SET value = '{\"shape\": 1}' WHERE key = 'space:notes'")
        assert "cannot read" in " ".join(sync.verify())
        execute(path, "UPDATE locus_meta SET value = '99' WHERE key = 'schema'")
        [problem] = sync.verify()
        assert "upgrade Locus" in problem


class TestErrors:
    @pytest.mark.parametrize("given", [":memory:", "", "file::memory:?cache=shared"])
    def test_what_is_no_file_is_refused(self, given: str) -> None:
        with pytest.raises(ConfigError, match="memory://" if given else "path of a file"):
            SQLiteStorage(given)

    @pytest.mark.parametrize("options", [{"durability": "none"}, {"busy_timeout": -1}, {"busy_timeout": "long"}])
    def test_options_that_mean_nothing_are_refused(self, path: Path, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=next(iter(options))):
            SQLiteStorage(path, **options)

    def test_durability_is_declared_as_it_is(self, path: Path) -> None:
        assert SQLiteStorage(path).capabilities.durable
        assert not SQLiteStorage(path, durability="process").capabilities.durable

    @pytest.mark.parametrize("content", [b"this is not a database, " * 50, b"SQLite format 3\0" + b"\xff" * 5_000])
    def test_a_file_that_is_no_database_is_told_and_left_alone(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with SyncStorage(SQLiteStorage(path)) as sync:
            with pytest.raises(StorageError, match=str(path)) as caught:
                sync.get([key(1)])
            assert isinstance(caught.value, SetupError | CorruptRecordError)
            assert isinstance(caught.value.__cause__, sqlite3.Error)
            assert sync.verify() != []
        assert path.read_bytes() == content

    def test_a_path_that_cannot_be_a_file_is_told(self, tmp_path: Path) -> None:
        for wrong in (tmp_path, tmp_path / "missing" / "locus.db"):
            with SyncStorage(SQLiteStorage(wrong)) as sync, pytest.raises(SetupError, match="cannot be opened"):
                sync.get([key(1)])

    def test_a_lock_held_too_long_is_told_and_passes(self, path: Path) -> None:
        with SyncStorage(SQLiteStorage(path, busy_timeout=0.05)) as sync:
            sync.commit([Put(key(1), {})])
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(UnavailableError, match="busy_timeout"):
                    sync.commit([Put(key(2), {})])
            sync.commit([Put(key(2), {})])

    @pytest.mark.parametrize("body", ["{", "[1]", "null", "{},{}", None, 7])
    def test_a_body_that_was_not_written_is_corrupt_wherever_it_is_read(self, path: Path, body: object) -> None:
        with SyncStorage(SQLiteStorage(path)) as sync:
            sync.commit([Put(key(n), {"n": n}, text="apple") for n in range(3)])
            execute(path, "PRAGMA ignore_check_constraints = ON")
            _overwrite_body(path, body)
            for read in (
                lambda: sync.get([key(1)]),
                lambda: sync.scan([Span("notes", PART)]),
                lambda: sync.search(Query("notes", text="apple")),
            ):
                with pytest.raises(CorruptRecordError, match="000001"):
                    read()
            assert sync.get([key(0)])[0] is not None

    def test_names_that_do_not_fit_their_code_are_corrupt(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="apple")])
        execute(path, """UPDATE "notes$parts" SET names = '["another"]'""")
        for read in (
            lambda: sync.get([key(1)]),
            lambda: sync.scan([Span("notes", PART)]),
            lambda: sync.parts("notes"),
            lambda: sync.search(Query("notes", text="apple")),
            lambda: sync.commit([Put(key(2), {})]),
        ):
            with pytest.raises(CorruptRecordError, match="another"):
                read()

    @pytest.mark.parametrize("cursor", ["rubbish", "", "1:", "1:'; DROP TABLE notes", 5])
    def test_a_cursor_that_is_none_is_refused(self, sync: SyncStorage, cursor: Any) -> None:
        sync.commit([Put(key(1), {})])
        with pytest.raises(InputError, match="cursor"):
            sync.parts("notes", cursor=cursor)


def _overwrite_body(path: Path, body: object) -> None:
    if body is None:  # the column refuses it, but another program could have made the table otherwise
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(
                "PRAGMA writable_schema = ON;"
                "UPDATE sqlite_master SET sql = replace(sql, 'body TEXT NOT NULL', 'body TEXT') WHERE name = 'notes'"
            )
    execute(path, "UPDATE notes SET body = ? WHERE sort = '000001'", body)
