"""Tag filters: `{"user": "ada", "age": {"$gte": 18}}`, checked once and evaluated alike everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from locus.errors import InputError

__all__ = ["OPERATORS", "Where", "check_where", "matches"]

Where: TypeAlias = Mapping[str, Any]  # a scalar, or a mapping of operators to values

MAX_CONDITIONS = 500
"""Of one filter: each is a level of an expression, and engines stop at a thousand."""
MAX_VALUES = 30_000
"""In all lists of one filter: some drivers bind no more than 32,766."""

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in")


def check_where(where: Where) -> dict[str, dict[str, Any]]:
    """Normalise to `{tag: {operator: value}}`; unknown operators and foreign values are refused."""
    if not isinstance(where, Mapping):
        raise InputError(f"a filter must be a dict of tags, not {type(where).__name__}")
    checked: dict[str, dict[str, Any]] = {}
    for tag, wanted in where.items():
        if not isinstance(tag, str) or not tag:
            raise InputError(f"a filter's tag must be a non-empty string, not {tag!r}")
        conditions = dict(wanted) if isinstance(wanted, Mapping) else {"$eq": wanted}
        for operator, value in conditions.items():
            _check_condition(tag, operator, value)
        checked[tag] = conditions
    _check_size(checked)
    return checked


def matches(tags: Mapping[str, Any], where: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a record with `tags` passes a checked filter.

    Values compare only with their own kind (text, number, bool, None). `$ne` holds for a missing tag, nothing else does.
    """
    return all(
        _holds(operator, tag in tags, tags.get(tag), value)
        for tag, conditions in where.items()
        for operator, value in conditions.items()
    )


def kind_of(value: object) -> str:
    """The kind a value compares with: `null`, `bool`, `number` or `text`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text"


def _holds(operator: str, present: bool, have: Any, want: Any) -> bool:
    if operator == "$in":
        return present and any(_same(have, one) for one in want)
    if operator == "$ne":
        return not (present and _same(have, want))
    if not present or kind_of(have) != kind_of(want):
        return False
    if operator == "$eq":
        return bool(have == want)
    if have is None:
        return False
    return bool(
        have > want
        if operator == "$gt"
        else have >= want
        if operator == "$gte"
        else have < want
        if operator == "$lt"
        else have <= want
    )


def _same(have: object, want: object) -> bool:
    return kind_of(have) == kind_of(want) and have == want


def _check_size(where: Mapping[str, Mapping[str, Any]]) -> None:
    if sum(map(len, where.values())) > MAX_CONDITIONS:
        raise InputError(f"a filter may have at most {MAX_CONDITIONS} conditions; search several times")
    if sum(len(conditions.get("$in", ())) for conditions in where.values()) > MAX_VALUES:
        raise InputError(f"the $in of a filter may list at most {MAX_VALUES:,} values; search several times")


def _check_condition(tag: str, operator: object, value: object) -> None:
    if operator not in OPERATORS:
        raise InputError(f"unknown operator {operator!r} for tag {tag!r}; known: {', '.join(OPERATORS)}")
    values = value if operator == "$in" else [value]
    if not isinstance(values, list | tuple | set | frozenset):
        raise InputError(f"$in for tag {tag!r} needs a list, not {type(value).__name__}")
    for one in values:
        if not isinstance(one, str | int | float | bool | None):
            raise InputError(
                f"tag {tag!r} can be compared with text, numbers, bools and None, not {type(one).__name__}"
            )
        if isinstance(one, float) and not math.isfinite(one):
            raise InputError(f"tag {tag!r} can only be compared with finite numbers, not {one}")
