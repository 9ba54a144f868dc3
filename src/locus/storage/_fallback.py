"""Search done in this process, for storages that cannot search themselves: one answer, whatever the medium."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from locus.storage._text import query_words, words
from locus.storage._vector import nearness, pack
from locus.storage._where import matches
from locus.storage.base import Hit, Query, Record, Space

__all__ = ["search"]

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_CACHED_CHARACTERS = 4_000


def search(records: Iterable[Record], query: Query, space: Space) -> list[Hit]:
    """Answer `query` from `records`, which are those of its space and prefix that are alive."""
    found = [record for record in records if matches(record.tags, query.where)]
    if query.text is not None:
        hits = _by_text(found, query)
    elif query.vector is not None:
        hits = _by_vector(found, query.vector, space)
    else:
        hits = [Hit(record, 0.0) for record in found]
    if query.one_per_part:
        hits = _last_of_each_part(hits)
    hits.sort(key=lambda hit: (-hit.score, -hit.record.updated_at, hit.record.key))
    return hits[query.offset : query.offset + query.limit]


def _by_text(records: list[Record], query: Query) -> list[Hit]:
    """BM25 over the records at hand."""
    asked = query_words(query.text or "")
    if not asked:
        return []
    counted = [(record, _counts(record.text)) for record in records if record.text]
    if not counted:
        return []
    mean = sum(counts.total() for _, counts in counted) / len(counted) or 1.0
    rarity = {word: _rarity(sum(word in counts for _, counts in counted), len(counted)) for word in asked}
    enough: Callable[[Iterable[bool]], bool] = all if query.match == "all" else any
    return [
        Hit(record, _relevance(counts, rarity, mean))
        for record, counts in counted
        if enough(word in counts for word in asked)
    ]


def _rarity(having: int, total: int) -> float:
    return math.log(1.0 + (total - having + 0.5) / (having + 0.5))


def _relevance(counts: Counter[str], rarity: dict[str, float], mean: float) -> float:
    length = _SATURATION * (1.0 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * counts.total() / mean)
    return sum(weight * counts[word] * (_SATURATION + 1.0) / (counts[word] + length) for word, weight in rarity.items())


def _counts(text: str) -> Counter[str]:
    return _short_counts(text) if len(text) <= _CACHED_CHARACTERS else Counter(words(text))


@lru_cache(maxsize=4_096)
def _short_counts(text: str) -> Counter[str]:
    return Counter(words(text))


def _by_vector(records: list[Record], wanted: Sequence[float], space: Space) -> list[Hit]:
    having = [(record, pack(record.vector)) for record in records if record.vector is not None]
    scores = nearness([packed for _, packed in having], wanted, space.metric)
    return [Hit(record, score) for (record, _), score in zip(having, scores, strict=True) if score is not None]


def _last_of_each_part(hits: list[Hit]) -> list[Hit]:
    last: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        part = hit.record.key.part
        if part not in last or last[part].record.key.sort < hit.record.key.sort:
            last[part] = hit
    return list(last.values())
