"""Storage in one SQLite file, by the standard library alone: the default, and nothing to set up."""

# ruff: noqa: S608  # table names come from a space's name, which holds none but a-z, 0-9, '_' and '-'; values are bound

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import unquote

from locus._sync import is_inline
from locus.errors import ConfigError, InputError
from locus.storage import _sqlite_schema, _sqlite_search
from locus.storage._fork import watch
from locus.storage._sqlite_connection import Database, Readers, has_fts5
from locus.storage._sqlite_tables import Tables
from locus.storage._sqlite_writer import Writer
from locus.storage.base import (
    Capabilities,
    Hit,
    Key,
    Op,
    PartPage,
    Put,
    Query,
    Record,
    Space,
    Span,
)
from locus.storage.blocking import BlockingStorage

__all__ = ["SQLiteStorage"]

_CURSOR = re.compile(r"1:([a-z0-9%~_/-]{1,600})\Z")
_PURGED_AT_ONCE = 200
_WORDS_LEFT = 64
_FREE_PAGES = 32  # of 8 KB, that may stay in the file for what is written next
_VACUUMED_AT_ONCE = 1_024
_FORK_PATIENCE = 5.0


class SQLiteStorage(BlockingStorage):
    """Records in the file at `path`, for any number of threads, event loops and processes of one machine.

    `durability="full"`: what was acknowledged survives a power cut. `durability="process"`: it survives a kill of the
    process, while a power cut or a crash of the system may take the last commits, never the consistency of the file.
    `busy_timeout` is how many seconds to wait for a lock of another process.

    Each space is a table of its name with the body as JSON text, so the data can be queried in SQL. Removed content
    is overwritten; the words of removed texts leave the index when enough have gathered, on `purge` and on `close`.
    Numbers in tags beyond 64 bits are compared as floats.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["full", "process"] = "full",
        busy_timeout: float = 30.0,
    ) -> None:
        super().__init__()
        if durability not in ("full", "process"):
            raise ConfigError(f"durability must be 'full' or 'process', not {durability!r}")
        if not isinstance(busy_timeout, int | float) or not 0 <= busy_timeout <= 86_400:
            raise ConfigError(f"busy_timeout must be seconds between 0 and 86400, not {busy_timeout!r}")
        self.durability = durability
        here = frozenset({"vector"} if has_fts5() else {"vector", "text"})
        self._capabilities = Capabilities("store", durable=durability == "full", shared=True, client_side=here)
        self._database = Database(_checked_path(path), durable=durability == "full", busy_timeout=busy_timeout)
        self._tables: dict[str, Tables] = {}
        self._left_open: set[Space] = set()  # declarations that the file completes, which may be made again
        self._has_removed = False
        self._paused = False
        self._begin()
        watch(self)

    @classmethod
    def from_url(
        cls, url: str, *, durability: Literal["full", "process"] = "full", busy_timeout: float = 30.0
    ) -> SQLiteStorage:
        """`sqlite:///relative.db` or `sqlite:////absolute/path.db`, as elsewhere in Python."""
        path = unquote(url.partition("://")[2]).removeprefix("/")
        if not path:
            raise ConfigError(f"{url!r} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db")
        return cls(path, durability=durability, busy_timeout=busy_timeout)

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._database.path

    @property
    def capabilities(self) -> Capabilities:
        """What this storage promises."""
        return self._capabilities

    async def setup(self, *spaces: Space) -> None:
        """Make what the spaces need, or find it made. A bare `Space(name)` is what the file says it is."""
        await super().setup(*(space for space in spaces if space not in self._left_open))
        for space in spaces:
            stored = self._tables[space.name].space
            if stored != space:
                self._left_open.add(space)
            self._spaces[space.name] = stored

    def do_setup(self, spaces: Sequence[Space]) -> None:
        with self._writer.exclusive() as connection:
            declared = _sqlite_schema.prepare(connection, spaces, fts=has_fts5())
            for name, space in declared.items():
                if name not in self._tables or self._tables[name].space != space:
                    self._tables[name] = Tables(space, fts=has_fts5())

    def do_verify(self) -> list[str]:
        problems = _sqlite_schema.inspect(self._database, fts=has_fts5())
        if self.durability == "process":
            problems.append("durability='process': a power cut can lose acknowledged commits; use durability='full'")
        return problems

    def do_get(self, keys: list[Key]) -> list[Record | None]:
        now = self.clock()
        with self._reading(several=len(keys) > 1) as connection:
            return [self._tables[key.space].get(connection, key, now) for key in keys]

    def do_scan(self, spans: list[Span]) -> list[list[Record]]:
        now = self.clock()
        with self._reading() as connection:
            return [
                self._tables[span.space].scan(
                    connection, span.part, now, _stretch(span), bodies=span.bodies, whole=span.whole
                )
                for span in spans
            ]

    def do_parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage:
        tables = self._tables[space]
        sql, bound = _sqlite_search.prefix_condition(prefix) if prefix else ("1 = 1", [])
        after = "" if cursor is None else _read_cursor(cursor)
        query = (
            f"SELECT p.names, p.part_key FROM {tables.parts} p WHERE {sql} AND p.part_key > ? AND EXISTS "
            f"(SELECT 1 FROM {tables.records} r WHERE r.part = p.id AND {tables.alive}) ORDER BY p.part_key LIMIT ?"
        )
        with self._reading(several=False) as connection:
            rows = connection.execute(query, [*bound, after, self.clock(), limit + 1]).fetchall()
        page = [_sqlite_search.stored_names(names, code, prefix) for names, code in rows[:limit]]
        more = len(rows) > limit
        return PartPage(page, (f"1:{rows[limit - 1][1]}" if limit else cursor) if more else None)

    def do_commit(self, ops: list[Op]) -> list[str | None]:
        self._check_dimensions(ops)
        return self._writer.run(lambda connection: self._apply(connection, ops))

    async def _commit(self, ops: list[Op]) -> list[str | None]:
        if is_inline():
            return self.do_commit(ops)
        self._check_dimensions(ops)
        return await self._writer.submit(lambda connection: self._apply(connection, ops))

    def do_search(self, query: Query) -> list[Hit]:
        with self._reading() as connection:
            return _sqlite_search.find(connection, self._tables[query.space], query, self.clock())

    def do_purge(self) -> int:
        self.do_setup(())  # spaces that only other objects have used expire too
        total = 0
        for tables in list(self._tables.values()):
            total += self._purge_space(tables)
        with self._writer.exclusive() as connection:
            self._merge_words(connection, at_least=0)
            self._give_back(connection, spare=0)
        return total

    def _purge_space(self, tables: Tables) -> int:
        total = 0
        while gone := self._writer.run(lambda connection: tables.expired(connection, self.clock(), _PURGED_AT_ONCE)):
            total += gone
        return total

    def do_close(self) -> None:
        # The counts are asked too: a caller is answered before the writer has tidied up after it.
        left = self._has_removed or any(tables.removed or tables.unindexed for tables in list(self._tables.values()))
        try:
            if left:
                with self._writer.exclusive() as connection:
                    self._has_removed = False
                    self._merge_words(connection, at_least=1)
                    self._give_back(connection, spare=0)
        finally:
            self._writer.close()
            self._readers.close()

    def _begin(self) -> None:
        self._writer = Writer(self._database, self._tidy)
        self._readers = Readers(self._database.open_reader)

    @contextlib.contextmanager
    def _reading(self, *, several: bool = True) -> Iterator[sqlite3.Connection]:
        """A reader's connection; `several` statements see one state of the file."""
        try:
            with self._readers.lend() as connection:
                if not several:
                    yield connection
                    return
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._database.translate(error) from error

    def _check_dimensions(self, ops: list[Op]) -> None:
        """What the file declares may not have been known yet when the operations were prepared."""
        for op in ops:
            if isinstance(op, Put) and op.vector is not None:
                self._checked_vector(op.key.space, op.vector)

    def _apply(self, connection: sqlite3.Connection, ops: list[Op]) -> list[str | None]:
        now = self.clock()
        return [self._tables[op.key.space].apply(connection, op, index, now) for index, op in enumerate(ops)]

    def _tidy(self, connection: sqlite3.Connection) -> None:
        """After a commit: give back what removals left over, when it is enough to be worth the work."""
        for tables in self._tables.values():
            if tables.removed or tables.unindexed:
                self._has_removed = True
                self._merge_words(connection, at_least=_WORDS_LEFT)
                self._give_back(connection, spare=_FREE_PAGES)
                return

    def _merge_words(self, connection: sqlite3.Connection, *, at_least: int) -> None:
        for tables in list(self._tables.values()):
            tables.removed = 0
            if tables.unindexed >= at_least and (at_least < _WORDS_LEFT or tables.is_mostly_removed(connection)):
                tables.merge_text(connection)

    def _give_back(self, connection: sqlite3.Connection, *, spare: int) -> None:
        if connection.execute("PRAGMA freelist_count").fetchone()[0] <= spare:
            return
        pages = _VACUUMED_AT_ONCE if spare else 0  # 0 is all
        # As a script, because `execute` takes only the first step, which is one page.
        connection.executescript(f"PRAGMA incremental_vacuum({pages})")
        connection.execute("PRAGMA busy_timeout = 0")  # readers who are in the way are not waited for
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._database.busy_timeout * 1000)}")

    def before_fork(self) -> None:
        """Close every connection: SQLite keeps a process's locks in memory, where a child would take them for its own."""
        self._paused = self._writer.pause(_FORK_PATIENCE)
        self._readers.pause(_FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        if self._paused:
            self._paused = False
            self._writer.resume()
        self._readers.resume()

    def after_fork_in_child(self) -> None:
        left = self._writer.abandoned()
        if left is not None:
            # To close it, even at exit, would drop the parent's locks: it is given a reference that never ends.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
        self._begin()


def _checked_path(path: str | os.PathLike[str]) -> str:
    given = os.fspath(path)
    if not isinstance(given, str) or not given or "\0" in given:
        raise ConfigError(f"a SQLite storage needs the path of a file, not {path!r}")
    if given == ":memory:" or given.startswith("file::memory:"):
        raise ConfigError("a SQLite storage is a file; for storage in memory use memory:// (MemoryStorage)")
    return os.path.abspath(given)


def _stretch(span: Span) -> tuple[str, list[object]]:
    """The SQL of a span after its part, and what is bound to it."""
    sql, bound = "", list[object]()
    if span.start is not None:
        sql, bound = " AND r.sort >= ?", [span.start]
    if span.end is not None:
        sql, bound = f"{sql} AND r.sort < ?", [*bound, span.end]
    sql += " ORDER BY r.sort DESC" if span.reverse else " ORDER BY r.sort"
    return (sql, bound) if span.limit is None else (f"{sql} LIMIT ?", [*bound, span.limit])


def _read_cursor(cursor: str) -> str:
    match = _CURSOR.match(cursor) if isinstance(cursor, str) else None
    if match is None:
        raise InputError(f"{cursor!r} is not a cursor that parts() returned")
    return match[1]
