"""The tables of one space in SQLite: how they are made, and how records go into them and come out."""

# ruff: noqa: S608  # table names come from a space's name, which holds none but a-z, 0-9, '_' and '-'; values are bound

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from locus.errors import CorruptRecordError, SetupError
from locus.storage._conditions import to_be_done
from locus.storage._json import decode_all, decode_json
from locus.storage._packed_text import pack_text, unpack_text
from locus.storage._sql import storable_text, tag_rows
from locus.storage._text import words
from locus.storage._vector import pack, unpack
from locus.storage.base import ABSENT, Delete, Key, Op, Put, Record, Scalar, Space, encode_part

__all__ = ["COLUMNS", "Tables", "indexed_text", "names_json"]

COLUMNS = "r.sort, r.rev, r.token, r.created, r.updated, r.expires, r.tags, r.text, r.vector, r.blob, r.body"
_LEAN = COLUMNS.replace("r.text, r.vector", "NULL, NULL")
# What a record is found by; the body only where the text refers to it.
_FOUND_BY = "text, tags, CASE WHEN typeof(text) = 'blob' THEN body END"
_ascii_json = json.JSONEncoder(separators=(",", ":")).encode
_CHUNK = 128  # bodies parsed by one call; it keeps the interpreter's lock, so not too many

_MAKE = """
CREATE TABLE "{0}" (id INTEGER PRIMARY KEY, part INTEGER NOT NULL, sort TEXT NOT NULL, rev INTEGER NOT NULL,
    token TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, expires REAL, tags TEXT, body TEXT NOT NULL,
    text TEXT, vector BLOB, blob BLOB, UNIQUE (part, sort));
CREATE INDEX "{0}$expires" ON "{0}" (expires) WHERE expires IS NOT NULL;
CREATE TABLE "{0}$parts" (id INTEGER PRIMARY KEY, part_key TEXT NOT NULL UNIQUE, names TEXT NOT NULL, expires REAL);
CREATE INDEX "{0}$parts$expires" ON "{0}$parts" (expires) WHERE expires IS NOT NULL
"""
_MAKE_TAGS = 'CREATE TABLE "{0}$tags" (name, kind, value, id, PRIMARY KEY (name, kind, value, id)) WITHOUT ROWID'
# Contentless: the text is in the record already, and is given back to the index when it is to be removed.
_MAKE_TEXT = (
    "CREATE VIRTUAL TABLE \"{0}$text\" USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2')"
)


class Tables:
    """A space's tables. Counts the texts taken out of the index, whose words stay in the file until it is merged."""

    def __init__(self, space: Space, *, fts: bool) -> None:
        self.space = space
        self.fts = fts
        self.unindexed = 0
        self.removed = 0
        self.records, self.parts = f'"{space.name}"', f'"{space.name}$parts"'
        self.tags, self.text = f'"{space.name}$tags"', f'"{space.name}$text"'
        expires = "p.expires" if space.log else "r.expires"
        self.alive = f"({expires} IS NULL OR {expires} > ?)"
        self.joined = f"{self.records} r JOIN {self.parts} p ON p.id = r.part"
        self._part = f"SELECT id, names, expires FROM {self.parts} WHERE part_key = ?"
        self._row = (
            f"SELECT p.id, p.names, p.expires, r.id, r.rev, r.token, r.expires, {_FOUND_BY} FROM {self.parts} p"
            f" LEFT JOIN {self.records} r ON r.part = p.id AND r.sort = ? WHERE p.part_key = ?"
        )
        self._get = f"SELECT p.names, p.expires, {COLUMNS} FROM {self.joined} WHERE p.part_key = ? AND r.sort = ?"
        columns = "(part, sort, rev, token, created, updated, expires, tags, body, text, vector, blob)"
        self._insert = f"INSERT INTO {self.records} {columns} VALUES ({', '.join('?' * 12)})"
        self._create = (
            f"INSERT INTO {self.records} {columns} SELECT p.id, {', '.join('?' * 11)} FROM {self.parts} p"
            " WHERE p.part_key = ? AND p.names = ? AND p.expires IS NULL ON CONFLICT (part, sort) DO NOTHING"
        )
        self._update = (
            f"UPDATE {self.records} SET rev = ?, token = ?, created = coalesce(?, created), updated = ?, expires = ?,"
            " tags = ?, body = ?, text = ?, vector = ?, blob = ? WHERE id = ?"
        )

    def names(self) -> list[str]:
        """The names of all tables of the space."""
        name = self.space.name
        return [name, f"{name}$parts", f"{name}$tags", *([f"{name}$text"] if self.fts else [])]

    def make(self, connection: sqlite3.Connection, existing: set[str]) -> None:
        """Make those tables that are not there; what can be rebuilt from the records is."""
        name = self.space.name
        if not self.fts and f"{name}$text" in existing:
            raise SetupError(f"space {name!r} has an index of words (FTS5), which this build of SQLite cannot keep")
        if name not in existing:
            for left in existing & {f"{name}$parts", f"{name}$tags", f"{name}$text"}:
                connection.execute(f'DROP TABLE "{left}"')
            existing = existing - {f"{name}$parts", f"{name}$tags", f"{name}$text"}
            for statement in _MAKE.split(";"):
                connection.execute(statement.format(name))
        elif f"{name}$parts" not in existing:
            raise SetupError(f"table '{name}$parts' with the names of the parts was dropped; restore it from a backup")
        if f"{name}$tags" not in existing:
            connection.execute(_MAKE_TAGS.format(name))
            for record_id, tags in connection.execute(f"SELECT id, tags FROM {self.records} WHERE tags NOT NULL"):
                self._add_tags(connection, record_id, json.loads(tags))
        if self.fts and f"{name}$text" not in existing:
            connection.execute(_MAKE_TEXT.format(name))
            for record_id, text, body in connection.execute(f"SELECT id, text, body FROM {self.records}"):
                self._add_text(connection, record_id, unpack_text(text, body))

    def get(self, connection: sqlite3.Connection, key: Key, now: float) -> Record | None:
        """The record at `key` if it is alive."""
        row = connection.execute(self._get, (encode_part(key.part), key.sort)).fetchone()
        if row is None:
            return None
        _compare_names(row[0], key)
        expires = row[1] if self.space.log else row[7]
        if expires is not None and expires <= now:
            return None
        return self.build(key.part, [row[2:]], row[1])[0]

    def scan(
        self, connection: sqlite3.Connection, part: tuple[str, ...], now: float, stretch: tuple[str, list[object]],
        *, bodies: bool, whole: bool,
    ) -> list[Record]:  # fmt: skip
        """The live records of a part; `stretch` is the SQL after the part, and what is bound to it."""
        found = connection.execute(self._part, (encode_part(part),)).fetchone()
        if found is None:
            return []
        part_id, names, expires = found
        _compare_names(names, Key(self.space.name, part, ""))
        if self.space.log and expires is not None and expires <= now:
            return []
        columns = COLUMNS if whole else _LEAN
        if not bodies:  # a text may refer to its body
            columns = columns.replace(
                "r.body", "CASE WHEN typeof(r.text) = 'blob' THEN r.body END" if whole else "NULL"
            )
        alive, bound = (
            ("", [part_id]) if self.space.log else ("(r.expires IS NULL OR r.expires > ?) AND ", [now, part_id])
        )
        sql = f"SELECT {columns} FROM {self.records} r WHERE {alive}r.part = ?{stretch[0]}"
        rows = connection.execute(sql, [*bound, *stretch[1]]).fetchall()
        return self.build(part, rows, expires, bodies=bodies)

    def build(
        self, part: tuple[str, ...], rows: Sequence[tuple[Any, ...]], part_expires: float | None, *, bodies: bool = True
    ) -> list[Record]:
        """Records of one part from rows of `COLUMNS`."""
        name, log = self.space.name, self.space.log
        parsed = self._bodies(part, rows) if bodies else [{} for _ in rows]
        return [
            Record(
                Key(name, part, sort),
                body,
                str(rev),
                token if token.__class__ is str else _text_of(token),
                created,
                updated,
                part_expires if log else expires,
                _tags_of(tags, name, part, sort) if tags else {},
                text if text.__class__ is not bytes else unpack_text(text, stored),
                None if vector is None else unpack(vector),
                blob,
            )
            for (sort, rev, token, created, updated, expires, tags, text, vector, blob, stored), body in zip(
                rows, parsed, strict=True
            )
        ]

    def apply(self, connection: sqlite3.Connection, op: Op, index: int, now: float) -> str | None:
        """Do one operation of a commit, if its condition holds."""
        if isinstance(op, Put) and op.if_rev is ABSENT and (rev := self._created(connection, op, now)):
            return rev
        found = connection.execute(self._row, (op.key.sort, encode_part(op.key.part))).fetchone()
        row = None
        if found is not None:
            _compare_names(found[1], op.key)
            row = found[3:] if found[3] is not None else None
        expires = found[2] if found and self.space.log else row[3] if row else None
        alive = row is not None and (expires is None or expires > now)
        rev, token = (str(row[1]), _text_of(row[2])) if row and alive else (None, None)
        if not to_be_done(op, index, rev, token):
            return rev
        if isinstance(op, Put):
            return self._put(connection, op, found, row, now, alive=alive)
        if isinstance(op, Delete) and row is not None:
            self._remove(connection, row[0], *row[4:])
            self._drop_empty(connection, found[0])
        return None

    def expired(self, connection: sqlite3.Connection, now: float, limit: int) -> int:
        """Remove up to `limit` expired records; returns how many went."""
        owner = "p" if self.space.log else "r"
        rows = connection.execute(
            f"SELECT r.part, r.id, {_FOUND_BY} FROM {self.joined} WHERE {owner}.expires <= ? LIMIT ?", (now, limit)
        ).fetchall()
        for _, *row in rows:
            self._remove(connection, *row)
        for part_id in {row[0] for row in rows}:
            self._drop_empty(connection, part_id)
        return len(rows)

    def is_mostly_removed(self, connection: sqlite3.Connection) -> bool:
        """Whether an eighth of the texts ever indexed, about, is of removed records."""
        last = connection.execute(f"SELECT max(id) FROM {self.records}").fetchone()[0]
        return self.unindexed * 8 >= (last or 0)

    def merge_text(self, connection: sqlite3.Connection) -> None:
        """Merge the index of words, so that those of removed texts leave the file; in steps, to keep nobody out long."""
        if not self.fts:
            return
        command, pages = f"INSERT INTO {self.text} ({self.text}, rank) VALUES ('merge', ?)", -256
        while True:
            before = connection.total_changes
            connection.execute(command, (pages,))
            if connection.total_changes - before < 2:  # SQLite's sign that there was nothing left to merge
                break
            pages = 256
        self.unindexed = 0

    def _put(
        self, connection: sqlite3.Connection, op: Put, part: tuple[Any, ...] | None, row: tuple[Any, ...] | None,
        now: float, *, alive: bool,
    ) -> str:  # fmt: skip
        log = self.space.log
        if part is None:
            sql = f"INSERT INTO {self.parts} (part_key, names, expires) VALUES (?, ?, ?)"
            expires = op.expires_at if log else None
            part_id = connection.execute(sql, (encode_part(op.key.part), names_json(op.key.part), expires)).lastrowid
        else:
            part_id = part[0]
            if log and part[2] is not None and part[2] <= now:
                self._clear_part(connection, part_id)  # or the new record would bring the expired ones back
                row = None
            if log and part[2] != op.expires_at:
                connection.execute(f"UPDATE {self.parts} SET expires = ? WHERE id = ?", (op.expires_at, part_id))
        rev, token, tags, values = self._values(op)
        if row is None:
            cursor = connection.execute(self._insert, (part_id, op.key.sort, rev, token, now, now, *values))
            self._index(connection, cursor.lastrowid or 0, (None, op.text), (None, tags))
        else:
            connection.execute(self._update, (rev, token, None if alive else now, now, *values, row[0]))
            self._index(connection, row[0], (unpack_text(row[4], row[6]), op.text), (row[5], tags))
        return str(rev)

    def _created(self, connection: sqlite3.Connection, op: Put, now: float) -> str | None:
        """Create a record in a part that is there, in one statement; None when it takes more than that to tell."""
        if self.space.log and op.expires_at is not None:
            return None
        rev, token, tags, values = self._values(op)
        bound = (op.key.sort, rev, token, now, now, *values, encode_part(op.key.part), names_json(op.key.part))
        cursor = connection.execute(self._create, bound)
        if cursor.rowcount != 1:
            return None
        self._index(connection, cursor.lastrowid or 0, (None, op.text), (None, tags))
        return str(rev)

    def _values(self, op: Put) -> tuple[int, str | bytes, str | None, tuple[Any, ...]]:
        """A new revision, the token and the tags as they are stored, and the columns from `expires` on."""
        tags = _ascii_json(dict(op.tags)) if op.tags else None
        values = (
            None if self.space.log else op.expires_at, tags, op.body_json, pack_text(op.text, op.body_json),
            None if op.vector is None else pack(op.vector), op.blob,
        )  # fmt: skip
        return int.from_bytes(os.urandom(8), "big") >> 1, storable_text(op.token), tags, values

    def _index(
        self,
        connection: sqlite3.Connection,
        record_id: int,
        text: tuple[str | None, str | None],
        tags: tuple[str | None, str | None],
    ) -> None:
        """Bring both indexes from what was to what is."""
        if text[0] != text[1]:
            self._drop_text(connection, record_id, text[0])
            self._add_text(connection, record_id, text[1])
        if tags[0] != tags[1]:
            self._drop_tags(connection, record_id, tags[0])
            self._add_tags(connection, record_id, json.loads(tags[1] or "{}"))

    def _remove(
        self, connection: sqlite3.Connection, record_id: int, text: str | bytes | None, tags: str | None, body: str
    ) -> None:
        connection.execute(f"DELETE FROM {self.records} WHERE id = ?", (record_id,))
        self.removed += 1
        self._index(connection, record_id, (unpack_text(text, body), None), (tags, None))

    def _clear_part(self, connection: sqlite3.Connection, part_id: int) -> None:
        sql = f"SELECT id, {_FOUND_BY} FROM {self.records} WHERE part = ?"
        for row in connection.execute(sql, (part_id,)).fetchall():
            self._remove(connection, *row)

    def _drop_empty(self, connection: sqlite3.Connection, part_id: int) -> None:
        connection.execute(
            f"DELETE FROM {self.parts} WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM {self.records} WHERE part = ?1)",
            (part_id,),
        )

    def _add_text(self, connection: sqlite3.Connection, record_id: int, text: str | None) -> None:
        if text and self.fts:
            connection.execute(f"INSERT INTO {self.text} (rowid, text) VALUES (?, ?)", (record_id, indexed_text(text)))

    def _drop_text(self, connection: sqlite3.Connection, record_id: int, text: str | None) -> None:
        if text and self.fts:
            connection.execute(
                f"INSERT INTO {self.text} ({self.text}, rowid, text) VALUES ('delete', ?, ?)",
                (record_id, indexed_text(text)),
            )
            self.unindexed += 1

    def _add_tags(self, connection: sqlite3.Connection, record_id: int, tags: Mapping[str, Scalar]) -> None:
        connection.executemany(f"INSERT INTO {self.tags} VALUES (?, ?, ?, ?)", tag_rows(tags, record_id))

    def _drop_tags(self, connection: sqlite3.Connection, record_id: int, tags: str | None) -> None:
        if tags:
            connection.executemany(
                f"DELETE FROM {self.tags} WHERE name = ? AND kind = ? AND value = ? AND id = ?",
                tag_rows(json.loads(tags), record_id),
            )

    def _bodies(self, part: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        bodies: list[dict[str, Any]] = []
        for start in range(0, len(rows), _CHUNK):
            some = rows[start : start + _CHUNK]
            if all(row[-1].__class__ is str for row in some):
                texts = [row[-1] for row in some]
                parsed = decode_all(texts, lambda at, some=some: Key(self.space.name, part, some[at][0]))  # type: ignore[misc]
            else:
                parsed = [self._body(Key(self.space.name, part, row[0]), row[-1]) for row in some]
            bodies += parsed
        return bodies

    def _body(self, key: Key, text: object) -> dict[str, Any]:
        if not isinstance(text, str | bytes):
            raise CorruptRecordError(f"the record at {key} has no body of JSON text but {type(text).__name__}")
        return decode_json(text, key)


@lru_cache(maxsize=1024)
def names_json(part: tuple[str, ...]) -> str:
    """The names of a part as they are stored."""
    return _ascii_json(part)


def indexed_text(text: str) -> str:
    """What the index of words is given: the words as questions are cut, so that the two always meet."""
    if "_" not in text and text.isascii():
        return text  # the index cuts this just so
    return " ".join(words(text))


def _compare_names(stored: str, key: Key) -> None:
    if stored != names_json(key.part):
        raise CorruptRecordError(f"{key} and a part named {stored} have the same code; one of them was not written so")


def _text_of(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else bytes(stored).decode("utf-8", "surrogatepass")


def _tags_of(stored: str, space: str, part: tuple[str, ...], sort: str) -> dict[str, Any]:
    return decode_json(stored, Key(space, part, sort))
