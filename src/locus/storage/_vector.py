"""Vectors as bytes, and how near they are: exact, in this process, with numpy when it is there."""

from __future__ import annotations

import importlib
import math
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from operator import mul
from typing import Any

from locus.errors import CorruptRecordError

__all__ = ["nearness", "pack", "unpack"]

_SIZES = {b"f": 4, b"d": 8}


def pack(vector: Sequence[float]) -> bytes:
    """Four bytes a number if that loses nothing (embedders mostly give such), else eight; little-endian."""
    values = tuple(vector)
    numbers = array("f", values)
    if tuple(numbers) != values:
        numbers = array("d", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.typecode.encode("ascii") + numbers.tobytes()


def unpack(packed: bytes) -> tuple[float, ...]:
    """The numbers that `pack` was given."""
    kind, content = packed[:1], packed[1:]
    if kind not in _SIZES or not content or len(content) % _SIZES[kind]:
        raise CorruptRecordError("a stored vector is not one that was written")
    numbers = array(kind.decode("ascii"))
    numbers.frombytes(content)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def nearness(packed: Sequence[bytes], wanted: Sequence[float], metric: str) -> list[float | None]:
    """For each packed vector how near it is (higher is nearer), None where its length is another."""
    numpy = _numpy()
    if numpy is None:
        return _plain(packed, tuple(wanted), metric)
    answer: list[float | None] = [None] * len(packed)
    for kind, size in _SIZES.items():
        length = 1 + size * len(wanted)
        places = [i for i, one in enumerate(packed) if len(one) == length and one[:1] == kind]
        joined = b"".join([packed[i][1:] for i in places])
        matrix = numpy.frombuffer(joined, dtype=f"<f{size}").reshape(len(places), len(wanted)).astype("f8")
        for place, score in zip(places, _scores(numpy, matrix, wanted, metric), strict=True):
            answer[place] = score
    return answer


def _scores(numpy: Any, matrix: Any, wanted: Sequence[float], metric: str) -> list[float]:  # Any: numpy is optional
    target = numpy.asarray(wanted, dtype="f8")
    with numpy.errstate(all="ignore"):
        if metric == "l2":
            scores = -numpy.linalg.norm(matrix - target, axis=1)
        else:
            scores = matrix @ target
        if metric == "cosine":
            sizes = numpy.linalg.norm(matrix, axis=1) * numpy.linalg.norm(target)
            scores = numpy.where(sizes > 0, scores / numpy.where(sizes > 0, sizes, 1.0), 0.0)
    return list(map(float, scores))


def _plain(packed: Sequence[bytes], wanted: tuple[float, ...], metric: str) -> list[float | None]:
    measure = _MEASURES[metric]
    lengths = {1 + 4 * len(wanted), 1 + 8 * len(wanted)}
    vectors = (unpack(one) if len(one) in lengths else () for one in packed)
    return [measure(vector, wanted) if len(vector) == len(wanted) else None for vector in vectors]


def _dot(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return float(sum(map(mul, a, b)))


def _cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    size = math.hypot(*a) * math.hypot(*b)
    return _dot(a, b) / size if size else 0.0


def _l2(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return -math.dist(a, b)


_MEASURES: dict[str, Callable[[tuple[float, ...], tuple[float, ...]], float]] = {
    "cosine": _cosine,
    "dot": _dot,
    "l2": _l2,
}


@cache
def _numpy() -> Any | None:  # Any: numpy is optional, so its types may not be there
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None
