"""Search in SQLite: words by FTS5, tags by an index, vectors exactly in this process."""

# ruff: noqa: S608  # table names come from a space's name, which holds none but a-z, 0-9, '_' and '-'; values are bound

from __future__ import annotations

import json
import sqlite3
from typing import Any

from locus.errors import CorruptRecordError
from locus.storage import _fallback
from locus.storage._sql import Condition, where_sql
from locus.storage._sqlite_tables import COLUMNS, Tables
from locus.storage._text import query_words
from locus.storage._vector import nearness
from locus.storage.base import Hit, Query, Record, encode_part

__all__ = ["find", "prefix_condition", "stored_names"]

_FETCHED = 500


def find(connection: sqlite3.Connection, tables: Tables, query: Query, now: float) -> list[Hit]:
    """The hits of a checked query that has no more than one of text and vector."""
    conditions: list[Condition] = [(tables.alive, [now])]
    if query.prefix:
        conditions.append(prefix_condition(query.prefix))
    conditions += where_sql(query.where, tags=tables.tags, record_id="r.id")
    if query.text is not None and not tables.fts:
        ids = [row[0] for row in _select(connection, f"SELECT r.id FROM {tables.joined}", conditions)]
        found = _records(connection, tables, ids)
        return _fallback.search(found.values(), query, tables.space)
    if query.vector is not None:
        scored = _by_vector(connection, tables, query, conditions)
    else:
        scored = _by_index(connection, tables, query, conditions)
    records = _records(connection, tables, [record_id for record_id, _ in scored])
    return [Hit(records[record_id], score) for record_id, score in scored]


def prefix_condition(prefix: tuple[str, ...]) -> Condition:
    """That a part begins with whole names: a range of the index of `p.part_key`, less what lies between."""
    code = encode_part(prefix)
    # "0" follows "/", so the range ends after the last part below the prefix.
    return "p.part_key >= ? AND p.part_key < ? AND (p.part_key = ? OR p.part_key > ?)", [
        code, f"{code}0", code, f"{code}/",
    ]  # fmt: skip


def stored_names(names: str, part_key: str, prefix: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The original names of a part, compared with its code and with the prefix that was asked for."""
    try:
        part = tuple(map(str, json.loads(names)))
    except (TypeError, ValueError) as error:
        raise CorruptRecordError(f"the names of part {part_key!r} are not JSON: {error}") from error
    if not all(part) or encode_part(part) != part_key or part[: len(prefix)] != prefix:
        raise CorruptRecordError(f"part {part_key!r} is stored with other names: {names}")
    return part


def _by_index(
    connection: sqlite3.Connection, tables: Tables, query: Query, conditions: list[Condition]
) -> list[tuple[int, float]]:
    source, score = tables.joined, "0.0"
    if query.text is not None:
        asked = query_words(query.text)
        if not asked:
            return []
        joint = " AND " if query.match == "all" else " OR "
        # Quoted, a word is never an operator of the query language; none holds a quote.
        matching = joint.join(f'"{word}"' for word in asked)
        source = f"{tables.text} JOIN {tables.records} r ON r.id = {tables.text}.rowid JOIN {tables.parts} p ON p.id = r.part"
        conditions = [(f"{tables.text} MATCH ?", [matching]), *conditions]
        score = f"-bm25({tables.text})"
    columns = f"r.id AS id, {score} AS score, r.updated AS updated, p.part_key AS part_key, r.sort AS sort"
    where = " AND ".join(sql for sql, _ in conditions)
    bound = [value for _, values in conditions for value in values]
    hits = f"WITH hits AS MATERIALIZED (SELECT {columns} FROM {source} WHERE {where})"
    chosen = "(SELECT *, max(sort) FROM hits GROUP BY part_key)" if query.one_per_part else "hits"
    sql = f"{hits} SELECT id, score FROM {chosen} ORDER BY score DESC, updated DESC, part_key, sort LIMIT ? OFFSET ?"
    return connection.execute(sql, [*bound, query.limit, query.offset]).fetchall()


def _by_vector(
    connection: sqlite3.Connection, tables: Tables, query: Query, conditions: list[Condition]
) -> list[tuple[int, float]]:
    wanted = query.vector or ()
    lengths: list[Any] = [1 + 4 * len(wanted), 1 + 8 * len(wanted)]
    conditions = [*conditions, ("length(r.vector) IN (?, ?)", lengths)]
    columns = "SELECT r.id, r.updated, p.part_key, r.sort, r.vector"
    rows = _select(connection, f"{columns} FROM {tables.joined}", conditions)
    near = nearness([row[4] for row in rows], wanted, tables.space.metric)
    hits = [(score, *row[:4]) for score, row in zip(near, rows, strict=True) if score is not None]
    if query.one_per_part:
        hits = list({hit[3]: hit for hit in sorted(hits, key=lambda hit: hit[4])}.values())
    hits.sort(key=lambda hit: (-hit[0], -hit[2], hit[3], hit[4]))
    return [(hit[1], hit[0]) for hit in hits[query.offset : query.offset + query.limit]]


def _select(connection: sqlite3.Connection, select: str, conditions: list[Condition]) -> list[tuple[Any, ...]]:
    where = " AND ".join(sql for sql, _ in conditions)
    return connection.execute(
        f"{select} WHERE {where}", [value for _, values in conditions for value in values]
    ).fetchall()


def _records(connection: sqlite3.Connection, tables: Tables, ids: list[int]) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for start in range(0, len(ids), _FETCHED):
        some = ids[start : start + _FETCHED]
        marks = ", ".join(["?"] * len(some))
        sql = f"SELECT r.id, p.names, p.part_key, p.expires, {COLUMNS} FROM {tables.joined} WHERE r.id IN ({marks})"
        for record_id, names, part_key, expires, *row in connection.execute(sql, some).fetchall():
            part = stored_names(names, part_key)
            found[record_id] = tables.build(part, [tuple(row)], expires)[0]
    return found
