"""JSON as every backend stores it: strict, compact, and the same answer everywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from locus.errors import CorruptRecordError, InputError

__all__ = ["MAX_DEPTH", "check_plain", "decode_all", "decode_json", "encode_checked", "encode_json"]

MAX_DEPTH = 200
"""Levels of nesting a body may have: fewer than any engine or Python's own parser stops at."""

_LEAVES = frozenset({str, int, bool, type(None)})
_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def encode_json(body: Mapping[str, Any]) -> str:
    """Encode a JSON object of at most 200 levels.

    NaN, infinities, non-string keys and foreign types are refused, never changed.
    """
    if not isinstance(body, Mapping):
        raise InputError(f"a body must be a JSON object (a dict), not {type(body).__name__}")
    try:
        check_plain(body)
        return encode_checked(body)
    except RecursionError as error:
        raise InputError("a body is nested too deeply, or refers to itself") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"a body must be plain JSON: {error}") from error


def encode_checked(value: Any) -> str:
    """Encode what is known to be plain JSON."""
    try:
        return to_json(value).decode()
    except ValueError:  # lone surrogates travel as \\udxxx escapes
        return _ascii(value)


def decode_json(text: str | bytes, where: object) -> dict[str, Any]:
    """Decode a stored body; anything but a JSON object is corrupt."""
    try:
        body = _parse(text)
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError(f"the record at {where} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise CorruptRecordError(f"the record at {where} is not a JSON object")
    return body


def decode_all(texts: Sequence[str], where: Callable[[int], object]) -> list[dict[str, Any]]:
    """Decode many stored bodies at once, for a fraction of one call each; `where(n)` names the n-th for an error."""
    try:
        bodies = _parse(f"[{','.join(texts)}]")
    except (ValueError, RecursionError):
        bodies = []
    if len(bodies) == len(texts) and all(body.__class__ is dict for body in bodies):
        return bodies  # type: ignore[no-any-return]  # JSON
    return [decode_json(text, where(at)) for at, text in enumerate(texts)]


def _parse(text: str | bytes) -> Any:
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:  # the fast parser refuses lone surrogates and deep nesting, which are JSON all the same
        return json.loads(text)


def check_plain(value: object, depth: int = 0) -> None:
    """Raise `TypeError` or `ValueError` for what JSON would change: other keys than text, other types, NaN."""
    inner: Iterable[object]
    if value.__class__ is dict or isinstance(value, Mapping):
        for key in value:
            if key.__class__ is not str and not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no JSON number")
        return
    elif isinstance(value, str | int):
        return
    else:
        raise TypeError(f"{type(value).__name__} is no JSON type")
    if depth >= MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep, or refers to itself")
    for one in inner:
        if one.__class__ not in _LEAVES:
            check_plain(one, depth + 1)
