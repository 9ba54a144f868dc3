"""Storage in this process's memory: for tests, for tries, and for what need not outlive the process.

Bodies are kept as JSON text, so nothing that a caller does to what it wrote or read changes what is stored.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

from locus.errors import ConflictError, InputError
from locus.storage import _fallback
from locus.storage._conditions import to_be_done
from locus.storage._json import decode_all
from locus.storage.base import (
    Capabilities,
    Delete,
    Hit,
    Key,
    Op,
    PartPage,
    Put,
    Query,
    Record,
    Scalar,
    Space,
    Span,
)
from locus.storage.blocking import BlockingStorage

__all__ = ["MemoryStorage"]

T = TypeVar("T")

_CAPABILITIES = Capabilities(
    atomic="store", durable=False, shared=False, client_side=frozenset({"text", "vector", "filters"})
)


@dataclass(slots=True)
class _Row:
    key: Key
    body: str
    rev: str
    token: str
    created_at: float
    updated_at: float
    expires_at: float | None
    tags: Mapping[str, Scalar]
    text: str | None
    vector: Sequence[float] | None
    blob: bytes | None

    def record(self, body: dict[str, Any], expires_at: float | None) -> Record:
        return Record(
            self.key,
            body,
            self.rev,
            self.token,
            self.created_at,
            self.updated_at,
            expires_at,
            dict(self.tags),
            self.text,
            self.vector,
            self.blob,
        )


class _Part:
    """The records of one part; in a log space `expires_at` is that of all of them."""

    __slots__ = ("expires_at", "log", "names", "rows", "sorts")

    def __init__(self, names: tuple[str, ...], *, log: bool) -> None:
        self.names = names
        self.log = log
        self.rows: dict[str, _Row] = {}
        self.sorts: list[str] = []
        self.expires_at: float | None = None

    def expiry(self, row: _Row) -> float | None:
        return self.expires_at if self.log else row.expires_at

    def live(self, row: _Row, now: float) -> bool:
        expires_at = self.expires_at if self.log else row.expires_at
        return expires_at is None or expires_at > now

    def alive(self, now: float) -> bool:
        return any(self.live(row, now) for row in self.rows.values())

    def set(self, sort: str, row: _Row) -> None:
        if sort not in self.rows:
            if not self.sorts or sort > self.sorts[-1]:
                self.sorts.append(sort)
            else:
                insort(self.sorts, sort)
        self.rows[sort] = row

    def remove(self, sort: str) -> None:
        del self.rows[sort]
        del self.sorts[bisect_left(self.sorts, sort)]

    def span(self, span: Span, now: float) -> list[_Row]:
        first = 0 if span.start is None else bisect_left(self.sorts, span.start)
        after = len(self.sorts) if span.end is None else bisect_left(self.sorts, span.end)
        order = self.sorts[after - 1 : first - 1 if first else None : -1] if span.reverse else self.sorts[first:after]
        rows = map(self.rows.__getitem__, order if after > first else ())
        if self.log:
            return list(islice(rows, span.limit)) if self.expires_at is None or self.expires_at > now else []
        alive = (row for row in rows if row.expires_at is None or row.expires_at > now)
        return list(islice(alive, span.limit))


class _Parts:
    """The parts of one space, kept in the order of their names so that a page is a slice."""

    __slots__ = ("by_names", "order")

    def __init__(self) -> None:
        self.by_names: dict[tuple[str, ...], _Part] = {}
        self.order: list[tuple[str, ...]] = []

    def add(self, part: _Part) -> None:
        self.by_names[part.names] = part
        insort(self.order, part.names)

    def drop(self, part: _Part) -> None:
        del self.by_names[part.names]
        del self.order[bisect_left(self.order, part.names)]

    def having(self, prefix: tuple[str, ...], after: tuple[str, ...] | None = None) -> Iterator[_Part]:
        place = bisect_left(self.order, prefix)
        if after is not None:
            place = max(place, bisect_left(self.order, (*after, "")))
        while place < len(self.order) and self.order[place][: len(prefix)] == prefix:
            yield self.by_names[self.order[place]]
            place += 1


class MemoryStorage(BlockingStorage):
    """Everything in memory, lost with the process; all-or-none over any number of records."""

    _named: ClassVar[dict[str, MemoryStorage]] = {}
    _named_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._contents: dict[str, _Parts] = {}
        self._count = 0

    @classmethod
    def from_url(cls, url: str) -> MemoryStorage:
        """`memory://` is a new storage, `memory://name` the one of that name in this process."""
        name = url.partition("://")[2].strip("/")
        if not name:
            return cls()
        with cls._named_lock:
            return cls._named.setdefault(name, cls())

    @property
    def capabilities(self) -> Capabilities:
        """What this storage promises."""
        return _CAPABILITIES

    async def offload(self, function: Callable[..., T], *args: Any) -> T:  # Any: passed through to `function`
        """Run `function` here: nothing in it waits for anything but another thread's few microseconds."""
        return function(*args)

    def do_setup(self, spaces: Sequence[Space]) -> None:
        with self._lock:
            for space in spaces:
                self._contents.setdefault(space.name, _Parts())

    def do_verify(self) -> list[str]:
        return []

    def do_get(self, keys: list[Key]) -> list[Record | None]:
        now = self.clock()
        with self._lock:
            found = [self._find(key, now) for key in keys]
        return [None if at is None else at[1].record(json.loads(at[1].body), at[0].expiry(at[1])) for at in found]

    def do_scan(self, spans: list[Span]) -> list[list[Record]]:
        now = self.clock()
        answer = []
        for span in spans:
            with self._lock:
                part = self._contents[span.space].by_names.get(span.part)
                rows = part.span(span, now) if part else []
                expires_at = part.expires_at if part else None
            bodies = decode_all([row.body for row in rows], rows.__getitem__) if span.bodies else [{} for _ in rows]
            log = self._spaces[span.space].log
            answer.append(
                [
                    row.record(body, expires_at if log else row.expires_at)
                    for row, body in zip(rows, bodies, strict=True)
                ]
            )
        return answer

    def do_parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage:
        now = self.clock()
        after = None if cursor is None else _read_cursor(cursor)
        page: list[tuple[str, ...]] = []
        with self._lock:
            for part in self._contents[space].having(prefix, after):
                if not part.alive(now):
                    continue
                if len(page) == limit:
                    return PartPage(page, json.dumps(page[-1]) if page else cursor)
                page.append(part.names)
        return PartPage(page, None)

    def do_commit(self, ops: list[Op]) -> list[str | None]:
        now = self.clock()
        undo: list[Callable[[], None]] = []
        with self._lock:
            try:
                return [self._do(op, index, now, undo) for index, op in enumerate(ops)]
            except ConflictError:
                for step in reversed(undo):
                    step()
                raise

    def do_search(self, query: Query) -> list[Hit]:
        now = self.clock()
        with self._lock:
            rows = {
                row.key: (row, part.expiry(row))
                for part in self._contents[query.space].having(query.prefix)
                for row in part.rows.values()
                if part.live(row, now)
            }
        records = [row.record({}, expires_at) for row, expires_at in rows.values()]
        hits = _fallback.search(records, query, self._spaces[query.space])
        for hit in hits:
            hit.record.body = json.loads(rows[hit.record.key][0].body)
        return hits

    def do_purge(self) -> int:
        now = self.clock()
        gone = 0
        with self._lock:
            for parts in self._contents.values():
                for part in list(parts.by_names.values()):
                    dead = [sort for sort, row in part.rows.items() if not part.live(row, now)]
                    gone += len(dead)
                    if len(dead) == len(part.rows):
                        parts.drop(part)
                        continue
                    for sort in dead:
                        part.remove(sort)
        return gone

    def do_close(self) -> None:
        """Nothing was opened; what is stored stays as long as this object."""

    def _find(self, key: Key, now: float) -> tuple[_Part, _Row] | None:
        part = self._contents[key.space].by_names.get(key.part)
        row = part.rows.get(key.sort) if part else None
        return (part, row) if part and row and part.live(row, now) else None

    def _do(self, op: Op, index: int, now: float, undo: list[Callable[[], None]]) -> str | None:
        at = self._find(op.key, now)
        have = at[1] if at else None
        if not to_be_done(op, index, have.rev if have else None, have.token if have else None):
            return have.rev if have else None
        if isinstance(op, Put):
            return self._put(op, have, now, undo)
        if isinstance(op, Delete):
            self._delete(op, undo)
        return None

    def _put(self, op: Put, have: _Row | None, now: float, undo: list[Callable[[], None]]) -> str:
        self._count += 1
        row = _Row(
            op.key,
            op.body_json,
            str(self._count),
            op.token,
            have.created_at if have else now,
            now,
            op.expires_at,
            dict(op.tags),
            op.text,
            op.vector,
            None if op.blob is None else bytes(op.blob),
        )
        part = self._part_to_write(op.key, now, undo)
        before, expires_at = part.rows.get(op.key.sort), part.expires_at

        def back() -> None:
            part.expires_at = expires_at
            if before is None:
                part.remove(op.key.sort)
            else:
                part.rows[op.key.sort] = before

        undo.append(back)
        part.set(op.key.sort, row)
        part.expires_at = op.expires_at
        return row.rev

    def _part_to_write(self, key: Key, now: float, undo: list[Callable[[], None]]) -> _Part:
        """The part of `key`; an expired one of a log space begins anew, or its old records would come back."""
        parts = self._contents[key.space]
        old = parts.by_names.get(key.part)
        if old is not None and not (old.log and not old.alive(now)):
            return old
        if old is not None:
            parts.drop(old)
            undo.append(lambda: parts.add(old))
        part = _Part(key.part, log=self._spaces[key.space].log)
        parts.add(part)
        undo.append(lambda: parts.drop(part))
        return part

    def _delete(self, op: Delete, undo: list[Callable[[], None]]) -> None:
        parts = self._contents[op.key.space]
        part = parts.by_names[op.key.part]
        row = part.rows[op.key.sort]
        part.remove(op.key.sort)
        undo.append(lambda: part.set(op.key.sort, row))
        if not part.rows:
            parts.drop(part)
            undo.append(lambda: parts.add(part))


def _read_cursor(cursor: str) -> tuple[str, ...]:
    try:
        return tuple(map(str, json.loads(cursor)))
    except (TypeError, ValueError) as error:
        raise InputError(f"{cursor!r} is not a cursor that parts() returned") from error
