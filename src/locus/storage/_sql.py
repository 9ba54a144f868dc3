"""SQL that every relational backend shares: tag filters as conditions over a table of tags.

The table of tags has the columns `name`, `kind`, `value` and `id` (of the record). Values are only ever bound.
"""

# ruff: noqa: S608  # table names come from a space's name, which holds none but a-z, 0-9, '_' and '-'; values are bound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from locus.storage._where import kind_of
from locus.storage.base import Scalar

__all__ = ["Condition", "storable_text", "tag_rows", "where_sql"]

Condition: TypeAlias = tuple[str, list[Any]]  # SQL, and what is bound to it: any type a driver takes

_COMPARE = {"$eq": "=", "$ne": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_LARGEST = 2**63 - 1


def storable_text(text: str) -> str | bytes:
    """`text`, or its bytes when it holds lone surrogates, which no database takes as text."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def tag_rows(tags: Mapping[str, Scalar], record_id: int) -> list[tuple[object, ...]]:
    """The rows of the table of tags for one record."""
    return [(storable_text(name), kind_of(value), _value(value), record_id) for name, value in tags.items()]


def where_sql(where: Mapping[str, Mapping[str, Any]], *, tags: str, record_id: str, mark: str = "?") -> list[Condition]:
    """A checked filter as conditions that must all hold, by the rules of `_where.matches`."""
    return [
        _condition(f"SELECT id FROM {tags} WHERE name = {mark}", tag, operator, value, record_id, mark)
        for tag, conditions in where.items()
        for operator, value in conditions.items()
    ]


def _condition(having: str, tag: str, operator: str, value: Any, record_id: str, mark: str) -> Condition:
    if operator == "$in":
        return _any_of(having, tag, list(value), record_id, mark)
    if value is None and operator not in ("$eq", "$ne"):
        return "1 = 0", []  # nothing is greater or less than None, not even None
    negated = "NOT " if operator == "$ne" else ""
    sql = f"{record_id} {negated}IN ({having} AND kind = {mark} AND value {_COMPARE[operator]} {mark})"
    return sql, [storable_text(tag), kind_of(value), _value(value)]


def _any_of(having: str, tag: str, values: Sequence[Any], record_id: str, mark: str) -> Condition:
    kinds: dict[str, list[Any]] = {}
    for value in values:
        kinds.setdefault(kind_of(value), []).append(_value(value))
    if not kinds:
        return "1 = 0", []
    tests = [f"(kind = {mark} AND value IN ({', '.join([mark] * len(some))}))" for some in kinds.values()]
    bound = [item for kind, some in kinds.items() for item in (kind, *some)]
    return f"{record_id} IN ({having} AND ({' OR '.join(tests)}))", [storable_text(tag), *bound]


def _value(value: Scalar) -> object:
    if value is None or isinstance(value, bool):
        return int(bool(value))
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return _as_float(value)  # columns of numbers end at 64 bits; beyond that they are compared as floats
    return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
