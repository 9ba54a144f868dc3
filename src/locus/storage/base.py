"""The one contract every backend fills and every memory feature is written on.

A record lives at a `Key`: a *space* is a collection (a table, an index, a prefix), a *part* is what is read together
(a thread, a namespace, a session), and the records of a part are in the order of their `sort`, compared as bytes.
A backend knows nothing of agents; a feature knows nothing of databases.

The rules, for every backend:

- An acknowledged commit survives. Half a record is never seen.
- A condition and its write are one act. Two writers cannot silently lose each other's record.
- The operations of a commit take effect in order and a failure leaves a prefix; `Capabilities.atomic` says how far
  all-or-none reaches. Features are written for `record`.
- A condition that fails against a record carrying the operation's own `token` holds: that was our earlier send, whose
  answer was lost. A delete of what is absent holds. So every conditional act may be sent again.
- The cost of an append does not depend on how long the part is.
- An outage is `UnavailableError`, never "nothing there". What cannot have been written is `CorruptRecordError`.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from locus._ids import check_name, encode_name, new_token
from locus.errors import InputError, UnsupportedError
from locus.storage._json import encode_json
from locus.storage._where import Where, check_where

__all__ = [
    "ABSENT",
    "ANY",
    "MAX_RECORD_BYTES",
    "Capabilities",
    "Check",
    "Delete",
    "Hit",
    "Key",
    "Op",
    "PartPage",
    "Put",
    "Query",
    "Record",
    "Scalar",
    "Space",
    "Span",
    "Storage",
]

MAX_RECORD_BYTES: Final = 12 * 1024 * 1024
MAX_NAMES: Final = 12
MAX_SORT_BYTES: Final = 160
_MOST: Final = 2**53  # a greater limit means the same, and a driver need not take it
_MOST_BITS: Final = 4_096  # of a whole number in a tag: JSON of longer ones is refused by Python itself

Scalar: TypeAlias = str | int | float | bool | None
T = TypeVar("T")

_SPACE = re.compile(r"[a-z][a-z0-9_-]{0,47}\Z")
_SORT = re.compile(r"[a-z0-9%~._-]{1,160}\Z")


class _Condition(Enum):
    ANY = "any"
    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ANY: Final = _Condition.ANY
"""No condition: whatever is there is replaced or removed."""
ABSENT: Final = _Condition.ABSENT
"""Only if there is no record at the key."""

IfRev: TypeAlias = str | _Condition


class Key(NamedTuple):
    """Where a record lives. `part` holds the original names: any non-empty strings, at most twelve."""

    space: str
    part: tuple[str, ...]
    sort: str


@dataclass(frozen=True, slots=True)
class Space:
    """A collection and what it holds.

    In a `log` space the records of a part live and expire together: the `expires_at` of the record put last into a
    part is that of the whole part. Elsewhere each record has its own.
    """

    name: str
    log: bool = False
    dimension: int | None = None
    metric: Literal["cosine", "dot", "l2"] = "cosine"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _SPACE.match(self.name):
            raise InputError(
                f"space name {self.name!r} must start with a-z and hold at most 48 of a-z, 0-9, '_' and '-'"
            )
        if self.dimension is not None and not 1 <= self.dimension <= 16_000:
            raise InputError(f"vector dimension must be between 1 and 16000, not {self.dimension}")


@dataclass(slots=True)
class Record:
    """What is stored at a key. Treat it as read-only; `body` is empty when it was read without bodies."""

    key: Key
    body: dict[str, Any]  # JSON
    rev: str
    token: str
    created_at: float
    updated_at: float
    expires_at: float | None = None
    tags: Mapping[str, Scalar] = field(default_factory=dict)
    text: str | None = None
    vector: Sequence[float] | None = None
    blob: bytes | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Write a record whole. `if_rev` is `ANY`, `ABSENT`, or the `rev` that was read."""

    key: Key
    body: Mapping[str, Any]  # JSON
    if_rev: IfRev = ANY
    token: str = field(default_factory=new_token)
    expires_at: float | None = None
    tags: Mapping[str, Scalar] = field(default_factory=dict)
    text: str | None = None
    vector: Sequence[float] | None = None
    blob: bytes | None = None
    body_json: str = ""
    """`body` as text, for the backend's use. `Storage.commit` fills it in after its checks; a caller that has to encode
    the body anyway, and knows that it is plain JSON, may give it."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a record. What is absent already counts as removed, whatever `if_rev` says."""

    key: Key
    if_rev: IfRev = ANY


@dataclass(frozen=True, slots=True)
class Check:
    """Refuse the rest of the commit unless the record is absent, or at the `rev` that was read."""

    key: Key
    if_rev: IfRev


Op: TypeAlias = Put | Delete | Check


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one part: `start` <= sort < `end` (None: open), read from the end when `reverse`.

    A reader that needs neither `text` nor `vector` says so with `whole=False`; a backend may then leave them out.
    """

    space: str
    part: tuple[str, ...]
    start: str | None = None
    end: str | None = None
    reverse: bool = False
    limit: int | None = None
    bodies: bool = True
    whole: bool = True


class PartPage(NamedTuple):
    """Some parts of a space, and the cursor for the next page (None: that was the last)."""

    parts: list[tuple[str, ...]]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for within a space and, if `prefix` is given, the parts that begin with those names.

    `text` finds records whose text has any of the words (all of them with `match="all"`), whole words without regard
    to case, better matches first; a backend may find inflected forms too. `vector` finds the nearest. Both together
    are fused. `where` filters by tags. Without text and vector the order is newest (`updated_at`) first.
    `one_per_part` keeps for each part only its matching record with the greatest sort.
    """

    space: str
    prefix: tuple[str, ...] = ()
    text: str | None = None
    vector: Sequence[float] | None = None
    where: Where = field(default_factory=dict)
    match: Literal["any", "all"] = "any"
    one_per_part: bool = False
    limit: int = 10
    offset: int = 0


class Hit(NamedTuple):
    """A record that was found, and its score: higher is better, comparable only within one answer."""

    record: Record
    score: float


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend promises. Never guessed: what is declared, the contract suite proves.

    `client_side` names the features (`text`, `vector`, `filters`) that the shared fallback does in this process by
    reading every candidate. `chain` is how many records of a part may be read together before each one being a request
    of its own is felt (None: no matter). `durable` is whether an acknowledged commit survives a power cut.
    """

    atomic: Literal["record", "part", "store"]
    durable: bool
    shared: bool
    text: bool = True
    vector: bool = True
    filters: bool = True
    expiry: bool = True
    client_side: frozenset[str] = frozenset()
    chain: int | None = None
    max_record_bytes: int = MAX_RECORD_BYTES


class Storage(ABC):
    """A backend. Public methods check their arguments and call the private hook of the same name.

    Every method may be called from any event loop, and through `locus.storage.sync.SyncStorage` without one.
    `clock` gives the seconds since the epoch that records are stamped with.
    """

    blocking: bool = False
    clock: Callable[[], float] = staticmethod(time.time)

    def __init__(self) -> None:
        self._spaces: dict[str, Space] = {}

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this storage promises."""

    async def setup(self, *spaces: Space) -> None:
        """Make what the spaces need, or find it made. Safe when many processes start at once."""
        for space in spaces:
            known = self._spaces.get(space.name)
            if known is not None and known != space:
                raise InputError(f"space {space.name!r} is already in use as {known}")
        await self._setup(spaces)
        self._spaces.update((space.name, space) for space in spaces)

    async def verify(self) -> list[str]:
        """Name what is missing or set so that acknowledged data can be lost. Changes nothing; empty is well."""
        return await self._verify()

    async def get(self, keys: Sequence[Key]) -> list[Record | None]:
        """The records at `keys`, in that order; None where there is none or it has expired. One round trip."""
        keys = list(keys)
        for key in keys:
            check_key(key)
        await self._ready(*(key.space for key in keys))
        return await self._get(keys) if keys else []

    async def scan(self, spans: Sequence[Span]) -> list[list[Record]]:
        """The records of each span in order. Several spans are one round trip."""
        spans = list(spans)
        for span in spans:
            _check_span(span)
        await self._ready(*(span.space for span in spans))
        return await self._scan([_capped(span) for span in spans]) if spans else []

    async def parts(
        self, space: str, prefix: tuple[str, ...] = (), *, cursor: str | None = None, limit: int = 100
    ) -> PartPage:
        """The parts whose names begin with `prefix`, each once, in no promised order, a page at a time."""
        _check_part(prefix, least=0)
        _check_limit(limit)
        await self._ready(space)
        return await self._parts(space, tuple(prefix), cursor, min(limit, _MOST))

    async def commit(self, ops: Sequence[Op]) -> list[str | None]:
        """Do `ops` in order and return the new `rev` of each put (None for deletes and checks).

        Raises `ConflictError` with `op_index` when a condition does not hold.
        """
        ready = [self._prepare(op) for op in ops]
        for op in ready:
            if op.key.space not in self._spaces:
                await self._ready(op.key.space)
        return await self._commit(ready) if ready else []

    async def search(self, query: Query) -> list[Hit]:
        """The records that answer `query`, best first."""
        _check_part(query.prefix, least=0)
        _check_limit(query.limit)
        _check_limit(query.offset)
        query = replace(
            query, where=check_where(query.where), limit=min(query.limit, _MOST), offset=min(query.offset, _MOST)
        )
        self._check_supported(query)
        await self._ready(query.space)
        if query.vector is not None:
            query = replace(query, vector=self._checked_vector(query.space, query.vector))
        if query.text is not None and query.vector is not None:
            return await self._fused(query)
        return await self._search(query)

    async def purge(self) -> int:
        """Remove what has expired and nothing else; returns how many records went."""
        return await self._purge()

    async def compute(self, function: Callable[[], T]) -> T:
        """Do work that takes long without keeping an event loop from others, where the storage has threads for it."""
        return function()

    async def close(self) -> None:
        """Give back what was opened. Never raises; the storage can be used again."""
        with contextlib.suppress(Exception):
            await self._close()

    async def __aenter__(self) -> Storage:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def _setup(self, spaces: Sequence[Space]) -> None: ...

    @abstractmethod
    async def _verify(self) -> list[str]: ...

    @abstractmethod
    async def _get(self, keys: list[Key]) -> list[Record | None]: ...

    @abstractmethod
    async def _scan(self, spans: list[Span]) -> list[list[Record]]: ...

    @abstractmethod
    async def _parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage: ...

    @abstractmethod
    async def _commit(self, ops: list[Op]) -> list[str | None]: ...

    @abstractmethod
    async def _search(self, query: Query) -> list[Hit]: ...

    @abstractmethod
    async def _purge(self) -> int: ...

    @abstractmethod
    async def _close(self) -> None: ...

    async def _ready(self, *names: str) -> None:
        """Set up spaces that are used before anybody declared them."""
        missing = {name for name in names if name not in self._spaces}
        if missing:
            await self.setup(*(Space(name) for name in sorted(missing)))

    def _prepare(self, op: Op) -> Op:
        check_key(op.key)
        if not isinstance(op, Put):
            return op
        check_name(op.token, "a token")
        if op.blob is not None and not isinstance(op.blob, bytes | bytearray | memoryview):
            raise InputError(f"a blob must be bytes, not {type(op.blob).__name__}")
        body_json = op.body_json or encode_json(op.body)
        text = _clean_text(op.text)
        size = _bytes(body_json) + _bytes(text or "") + len(op.blob or b"")
        if size > self.capabilities.max_record_bytes:
            raise InputError(
                f"a record of {size:,} bytes is over the limit of {self.capabilities.max_record_bytes:,}; "
                "store large values elsewhere and keep a reference"
            )
        for tag, value in op.tags.items():
            _check_tag(tag, value)
        _check_time(op.expires_at)
        vector = None if op.vector is None else self._checked_vector(op.key.space, op.vector)
        if op.body_json and text is op.text and vector is None:
            return op
        return replace(op, body_json=body_json, text=text, vector=vector)

    def _checked_vector(self, space: str, vector: Sequence[float]) -> tuple[float, ...]:
        if not self.capabilities.vector:
            raise UnsupportedError(f"{type(self).__name__} stores no vectors; use text search or another storage")
        values = tuple(float(x) for x in vector)
        declared = self._spaces.get(space, Space(space)).dimension
        if not values or not all(map(math.isfinite, values)):
            raise InputError("a vector must hold finite numbers and not be empty")
        if declared is not None and declared != len(values):
            raise InputError(f"a vector of {len(values)} numbers does not fit space {space!r} of dimension {declared}")
        return values

    def _check_supported(self, query: Query) -> None:
        wanted = {"text": query.text is not None, "vector": query.vector is not None, "filters": bool(query.where)}
        for name, used in wanted.items():
            if used and not getattr(self.capabilities, name):
                raise UnsupportedError(f"{type(self).__name__} cannot search by {name}; use scan and filter yourself")

    async def _fused(self, query: Query) -> list[Hit]:
        """Reciprocal rank fusion of the text list and the vector list."""
        depth = max(50, 2 * (query.limit + query.offset))
        lists = [
            await self._search(replace(query, vector=None, limit=depth, offset=0)),
            await self._search(replace(query, text=None, limit=depth, offset=0)),
        ]
        scores: dict[Key, float] = {}
        records: dict[Key, Record] = {}
        for hits in lists:
            for rank, hit in enumerate(hits):
                records[hit.record.key] = hit.record
                scores[hit.record.key] = scores.get(hit.record.key, 0.0) + 1.0 / (10 + rank)
        best = sorted(scores, key=lambda key: (-scores[key], key))
        if query.one_per_part:  # the two lists may hold different records of one part
            last = {key.part: key for key in sorted(scores)}
            best = [key for key in best if last[key.part] == key]
        return [Hit(records[key], scores[key]) for key in best[query.offset : query.offset + query.limit]]


def check_key(key: Key) -> None:
    """Refuse a key that no backend could keep apart from all others."""
    _check_part(key.part, least=1)
    if not isinstance(key.sort, str) or not _SORT.match(key.sort):
        raise InputError(f"sort {key.sort!r} must be 1 to {MAX_SORT_BYTES} of a-z, 0-9, '%', '~', '.', '_' and '-'")


@lru_cache(maxsize=1024)
def encode_part(part: tuple[str, ...]) -> str:
    """A part as one safe string: its encoded names joined by `/`, at most 588 ASCII bytes."""
    return "/".join(map(encode_name, part))


def _check_part(part: tuple[str, ...], *, least: int) -> None:
    if not isinstance(part, tuple) or not least <= len(part) <= MAX_NAMES:
        raise InputError(f"a part is a tuple of {least} to {MAX_NAMES} names, not {part!r}")
    for name in part:
        check_name(name, "a name of a part")


def _check_span(span: Span) -> None:
    _check_part(span.part, least=1)
    _check_limit(span.limit)
    for bound in (span.start, span.end):
        if bound is not None and not (isinstance(bound, str) and bound.isascii()):
            raise InputError(f"a span's start and end are ASCII text, as a sort is, or None, not {bound!r}")


def _capped(span: Span) -> Span:
    return span if span.limit is None or span.limit <= _MOST else replace(span, limit=_MOST)


def _check_limit(limit: int | None) -> None:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InputError(f"limit must be a whole number of at least 0, not {limit!r}")


def _check_time(expires_at: float | None) -> None:
    if expires_at is not None and not (isinstance(expires_at, int | float) and abs(expires_at) <= 1e18):
        raise InputError(f"expires_at must be seconds since the epoch or None, not {expires_at!r}")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _check_tag(tag: str, value: Scalar) -> None:
    check_name(tag, "a tag")
    if not isinstance(value, str | int | float | bool | None):
        raise InputError(f"tag {tag!r} must be text, a number, a bool or None, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"tag {tag!r} must be finite, not {value}")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise InputError(f"tag {tag!r} must be a number of at most {_MOST_BITS} bits, not of {value.bit_length()}")


def _clean_text(text: str | None) -> str | None:
    """Text to search by, without what some engines refuse: NUL and lone surrogates become U+FFFD."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
