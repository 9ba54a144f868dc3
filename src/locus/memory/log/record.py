"""The records of a thread's log: what each says about itself and about the log as it stood when it was the last one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from locus._ids import new_token
from locus.errors import CorruptRecordError, SetupError
from locus.storage.base import Record, Scalar

__all__ = [
    "Chain",
    "Entry",
    "Header",
    "Ranges",
    "header_of",
    "id_position",
    "log_sort",
    "long_json",
    "long_of",
    "new_checkpoint_id",
    "prev_of",
    "result_sort",
]

FORMAT: Final = 1
LOG_START: Final = "n"
LOG_END: Final = "o"
_ID = re.compile(r"c(\d{8,12})-[0-9a-f]{10}\Z")

Kind = Literal["state", "mark", "stub"]


class Ranges:
    """A set of positions kept as sorted, disjoint, inclusive ranges."""

    __slots__ = ("spans",)

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for low, high in sorted(spans):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self.spans = tuple(merged)

    @classmethod
    def of(cls, positions: Iterable[int]) -> Ranges:
        """The ranges that hold just these positions."""
        return cls((position, position) for position in positions)

    def __contains__(self, position: int) -> bool:
        return any(low <= position <= high for low, high in self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges((*self.spans, *other.spans)) if other.spans else self

    def __sub__(self, other: Ranges) -> Ranges:
        left = list(self.spans)
        for low, high in other.spans:
            cut = [((start, min(end, low - 1)), (max(start, high + 1), end)) for start, end in left]
            left = [(start, end) for pair in cut for start, end in pair if start <= end]
        return Ranges(left)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    def __repr__(self) -> str:
        return f"Ranges({list(self.spans)})"

    @property
    def lowest(self) -> int:
        """The first position of a set that is not empty."""
        return self.spans[0][0]


@dataclass(slots=True)  # read-only by agreement: to freeze it would double what making one costs
class Chain:
    """A state and what it takes to rebuild it. `start`, `length` and `weight` are hints for reading and cutting."""

    position: int
    checkpoint_id: str
    start: int
    """Where its snapshot is, or was before a later one was put in between."""
    length: int
    """Records since that snapshot."""
    weight: int
    """Bytes since and with that snapshot."""
    size: int
    """Bytes of the state written whole, about."""
    born: float
    """When that snapshot was written."""


@dataclass(slots=True)  # read-only by agreement: to freeze it would double what making one costs
class Header:
    """What a log record says without its content. `head` and `gone` are true of the whole log while it is the last."""

    position: int
    kind: Kind
    at: float
    head: Chain | None
    """The newest live state."""
    chain: Chain | None = None
    """For a state, what it takes to rebuild it; the same as `head` unless the record is still hidden."""
    gone: Ranges = field(default_factory=Ranges)
    """Positions that are announced as removed; their content may still be there."""
    gone_at: float = 0.0
    fence: str | None = None
    """The lease holder that took the thread over with this mark."""
    checkpoint_id: str = ""
    parent_id: str | None = None
    prev: tuple[int, str] | None = None
    """Position and id of the state that this one is a delta to; None for a snapshot."""
    listed: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    turn: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The header as stored; what can be left out is."""
        out: dict[str, Any] = {"v": FORMAT, "kind": self.kind, "at": round(self.at, 6)}
        prev, head = self.prev, self.head
        if self.kind == "state":
            out["id"] = self.checkpoint_id
            if prev:
                out["prev"] = f"{prev[0]} {prev[1]}"
            if self.parent_id != (prev and prev[1]):  # most often they are one
                out["parent"] = self.parent_id
            if not self.listed:
                out["listed"] = False
        if chain := self.chain or head:
            out["chain"] = f"{chain.start} {chain.length} {chain.weight} {chain.size} {int(chain.born)}"
        if head is None:
            out["head"] = None
        elif head.position != self.position:
            out["head"] = [head.position, head.checkpoint_id]
        if self.gone:
            out["gone"], out["gone_at"] = [list(span) for span in self.gone.spans], self.gone_at
        if self.fence:
            out["fence"] = self.fence
        if self.metadata:
            out["meta"] = dict(self.metadata)
        if self.turn:
            out["turn"] = dict(self.turn)
        return out


@dataclass(slots=True)  # read-only by agreement, as a header is
class Entry:
    """What to append, besides the state itself."""

    checkpoint_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    turn: Mapping[str, Any] | None = None
    listed: bool = True
    tags: Mapping[str, Scalar] = field(default_factory=dict)
    token: str = field(default_factory=new_token)
    parent_id: str | None = None
    """None: the head at the time of writing."""


def header_of(record: Record) -> Header:
    """Read a log record's header; what cannot have been written is `CorruptRecordError`."""
    body = record.body
    position = int(record.key.sort[1:])
    version = body.get("v")
    if isinstance(version, int) and version > FORMAT:
        raise SetupError(
            f"thread {record.key.part[0]!r} was written by a newer Locus (format {version}, this one reads {FORMAT}); "
            "upgrade locus-memory"
        )
    try:
        chain, head = _chains(body, position)
        prev = prev_of(body)
        return Header(
            position=position,
            kind=_kind(body["kind"]),
            at=float(body["at"]),
            head=head,
            chain=chain,
            gone=Ranges((int(low), int(high)) for low, high in body.get("gone", ())),
            gone_at=float(body.get("gone_at", 0.0)),
            fence=body.get("fence"),
            checkpoint_id=body.get("id", ""),
            parent_id=body.get("parent", prev and prev[1]),
            prev=prev,
            listed=body.get("listed", True),
            metadata=body.get("meta", {}),
            turn=body.get("turn"),
        )
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptRecordError(
            f"position {position} of thread {record.key.part[0]!r} is damaged: {error!r}; "
            "delete that checkpoint, or restore the database from a backup"
        ) from error


def prev_of(body: Mapping[str, Any]) -> tuple[int, str] | None:
    """Position and id of the state that a stored one is a delta to."""
    prev = body.get("prev")
    if prev is None:
        return None
    position, _, checkpoint_id = prev.partition(" ")
    return int(position), checkpoint_id


def long_of(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The changes of a stored state by field: `+` holds what was appended, `=` all segments."""
    return {name: {how: value} for how in "+=" for name, value in body.get(how, {}).items()}


def long_json(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Changes by field as they are stored: by what they do first, since a reader looks for appended items."""
    stored: dict[str, dict[str, Any]] = {}
    for name, change in changes.items():
        for how, value in change.items():
            stored.setdefault(how, {})[name] = value
    return stored


def _kind(value: object) -> Kind:
    if value == "state" or value == "mark" or value == "stub":
        return value
    raise ValueError(f"unknown kind {value!r}")


def _chains(body: dict[str, Any], position: int) -> tuple[Chain | None, Chain | None]:
    """The record's own chain (a state's) and that of the log's head."""
    if "chain" not in body:
        return None, None
    start, length, weight, size, born = body["chain"].split()
    hints = (int(start), int(length), int(weight), int(size), float(born))
    own = Chain(position, str(body["id"]), *hints) if body["kind"] == "state" else None
    if body.get("head", 0) is None:
        return own, None
    if "head" in body:
        at, checkpoint_id = body["head"]
        return own, Chain(int(at), str(checkpoint_id), *hints)
    return own, own


def log_sort(position: int) -> str:
    """The sort of a log position."""
    return f"{LOG_START}{position:012d}"


def result_sort(position: int, call: str = "") -> str:
    """The sort of a tool result: the position of the reply and the (encoded) call."""
    return f"r{position:012d}.{call}"


def new_checkpoint_id(position: int, token: str) -> str:
    """A generated id carries its position, so that it is found without a look-up."""
    return f"c{position:08d}-{token[:10]}"


def id_position(checkpoint_id: str) -> int | None:
    """The position in a generated id; None for an id of the caller's own making."""
    found = _ID.match(checkpoint_id)
    return int(found[1]) if found else None
