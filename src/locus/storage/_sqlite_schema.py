"""The tables of a SQLite file: made once, numbered as they change, and checked without touching them.

A space is a table of its own name, beside it `<space>$parts` (the names of its parts), `<space>$tags` and
`<space>$text` (the index of words). `$` is in no name of a space, so nothing collides. `locus_meta` holds the
number of the schema and what each space was declared as.
"""

# ruff: noqa: S608  # table names come from a space's name, which holds none but a-z, 0-9, '_' and '-'; values are bound

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace

from locus.errors import InputError, SetupError
from locus.storage._sqlite_connection import Database
from locus.storage._sqlite_tables import Tables
from locus.storage.base import Space

__all__ = ["inspect", "prepare"]


def _make_meta(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE locus_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_make_meta,)
"""Number n takes the schema from n to n + 1. Never changed once released, only added to."""


def prepare(connection: sqlite3.Connection, spaces: Iterable[Space], *, fts: bool) -> dict[str, Space]:
    """Make what is missing and return what every space of the file is declared as."""
    wanted = list(spaces)
    for space in wanted:
        _check_name(space)
    if not _is_ready(connection, wanted, fts=fts):
        connection.execute("BEGIN IMMEDIATE")
        _migrate(connection)  # looks again: another process may have been first
        for space in wanted:
            _make_space(connection, space, fts=fts)
        connection.execute("COMMIT")
    return _declared(connection)


def inspect(database: Database, *, fts: bool) -> list[str]:
    """Name what is wrong with the file, changing nothing."""
    path = database.path
    if not os.path.isfile(path):
        return [f"{path} does not exist or is not a file; it is made on first use"]
    try:
        with closing(database.open_untouched()) as connection:
            return _problems(connection, database, fts=fts)
    except SetupError as error:
        return [f"{path}: {error}"]
    except sqlite3.Error as error:
        return [str(database.translate(error))]


def _problems(connection: sqlite3.Connection, database: Database, *, fts: bool) -> list[str]:
    tables = _tables(connection)
    problems = []
    if _journal_mode(connection, database.path) != "wal":
        problems.append(f"{database.path} has no write-ahead log; the first use of the storage turns it on")
    if "locus_meta" not in tables:
        return [*problems, f"{database.path} has no tables of Locus; they are made on first use"]
    version = _version(connection)
    if version != len(MIGRATIONS):
        way = "upgrade Locus" if version > len(MIGRATIONS) else "the first use of the storage brings it up to date"
        problems.append(f"{database.path} has schema {version}, this Locus has {len(MIGRATIONS)}; {way}")
    if version > len(MIGRATIONS):
        return problems  # what is in it is not for this version to judge
    for space in _declared(connection).values():
        lacking = [name for name in Tables(space, fts=fts).names() if name not in tables]
        problems += [f"table {name!r} of space {space.name!r} is missing" for name in lacking]
    return problems


def _journal_mode(connection: sqlite3.Connection, path: str) -> str:
    if os.path.exists(f"{path}-wal"):
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    # An immutable connection does not tell. Reading the header is safe only now: with no log nobody in this
    # process holds locks on the file, which closing it would drop.
    with open(path, "rb") as file:
        return "wal" if file.read(20)[18:19] == b"\x02" else "other"


def _is_ready(connection: sqlite3.Connection, wanted: list[Space], *, fts: bool) -> bool:
    tables = _tables(connection)
    if "locus_meta" not in tables or _version(connection) < len(MIGRATIONS):
        return False
    _refuse_newer(connection)
    stored = _declared(connection)
    return all(
        space.name in stored
        and _reconciled(connection, stored[space.name], space, tables) == stored[space.name]
        and tables.issuperset(Tables(space, fts=fts).names())
        and (fts or f"{space.name}$text" not in tables)
        for space in wanted
    )


def _migrate(connection: sqlite3.Connection) -> None:
    made = "locus_meta" in _tables(connection)
    if made:
        _refuse_newer(connection)
    version = _version(connection) if made else 0
    for migration in MIGRATIONS[version:]:
        migration(connection)
    connection.execute("INSERT OR REPLACE INTO locus_meta VALUES ('schema', ?)", (str(len(MIGRATIONS)),))


def _make_space(connection: sqlite3.Connection, space: Space, *, fts: bool) -> None:
    tables = _tables(connection)
    stored = _declared(connection).get(space.name)
    if stored is None and space.name in tables:
        raise SetupError(
            f"the file has a table {space.name!r} that is not Locus's; use another file or another name for the space"
        )
    space = space if stored is None else _reconciled(connection, stored, space, tables)
    Tables(space, fts=fts).make(connection, tables)
    value = json.dumps({"log": space.log, "dimension": space.dimension, "metric": space.metric})
    connection.execute("INSERT OR REPLACE INTO locus_meta VALUES (?, ?)", (f"space:{space.name}", value))


def _reconciled(connection: sqlite3.Connection, stored: Space, wanted: Space, tables: set[str]) -> Space:
    """What a space is from now on: what was left open may be declared later, the rest stays."""
    result = stored
    if wanted.dimension not in (None, stored.dimension):
        if stored.dimension is not None:
            raise _contradiction(stored, wanted)
        result = replace(result, dimension=wanted.dimension)
    if wanted.metric != stored.metric and (wanted.metric != "cosine" or wanted.dimension is not None):
        if stored.metric != "cosine" or stored.dimension is not None:
            raise _contradiction(stored, wanted)
        result = replace(result, metric=wanted.metric)
    if wanted.log != stored.log and wanted != Space(wanted.name):
        if stored.name in tables and connection.execute(f'SELECT 1 FROM "{stored.name}" LIMIT 1').fetchone():
            raise _contradiction(stored, wanted)
        result = replace(result, log=wanted.log)
    return result


def _contradiction(stored: Space, wanted: Space) -> SetupError:
    return SetupError(f"the file holds {stored}, which cannot become {wanted}; declare it alike or use another space")


def _refuse_newer(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise SetupError(
            f"the file has schema {version} and this Locus knows up to {len(MIGRATIONS)}; upgrade locus-memory"
        )


def _version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM locus_meta WHERE key = 'schema'").fetchone()
    try:
        return int(row[0]) if row else 0
    except ValueError as error:
        raise SetupError(f"locus_meta holds no number of a schema but {row[0]!r}; restore the file") from error


def _declared(connection: sqlite3.Connection) -> dict[str, Space]:
    rows = connection.execute("SELECT substr(key, 7), value FROM locus_meta WHERE key LIKE 'space:%'").fetchall()
    try:
        return {name: Space(name, **json.loads(value)) for name, value in rows}
    except (TypeError, ValueError) as error:
        raise SetupError(f"locus_meta holds a space that this Locus cannot read: {error}") from error


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _check_name(space: Space) -> None:
    if space.name.startswith("sqlite_") or space.name == "locus_meta":
        raise InputError(f"SQLite or Locus keeps the name {space.name!r} for itself; use another name for the space")
