"""States as documents of small and long fields, and how one is rebuilt from its stretch of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from locus.errors import CorruptRecordError
from locus.memory.log.delta import apply, from_json
from locus.memory.log.record import Chain, long_of, prev_of

__all__ = ["Doc", "DocCodec", "Part", "rebuild"]

Part = tuple[str, ...]

_NOTHING: dict[str, Any] = {}


class Doc(NamedTuple):
    """A state in two kinds of fields: small ones, stored whole, and long ones, stored as what is new."""

    small: dict[str, Any]  # JSON
    long: dict[str, tuple[Any, ...]]  # live items, by field


class DocCodec(Protocol):
    """How the items of long fields are stored and what full-text search finds of them."""

    def dump_items(self, field: str, items: Sequence[Any]) -> list[Any]:
        """Items as JSON."""

    def load_items(self, field: str, items: list[Any]) -> Sequence[Any]:
        """JSON as items; raises `CorruptRecordError`."""

    def text_of_all(self, long: Mapping[str, Sequence[Any]]) -> str:
        """What a search should find these items by, each thing said once."""


def rebuild(
    codec: DocCodec, part: Part, bodies: dict[int, dict[str, Any]], chain: Chain, base: tuple[Chain, Doc] | None
) -> Doc:
    """Walk back from the state to its snapshot, or to the known one, and then forward."""
    try:
        return _rebuilt(codec, part, bodies, chain, base)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(
            f"checkpoint {chain.checkpoint_id!r} of {part!r} is damaged: {error!r}; "
            "restore the database from a backup, or delete the checkpoint"
        ) from error


def _rebuilt(
    codec: DocCodec, part: Part, bodies: dict[int, dict[str, Any]], chain: Chain, base: tuple[Chain, Doc] | None
) -> Doc:
    path: list[dict[str, Any]] = []
    position, checkpoint_id = chain.position, chain.checkpoint_id
    while base is None or (position, checkpoint_id) != (base[0].position, base[0].checkpoint_id):
        body = bodies.get(position)
        if body is None or body.get("kind") != "state" or body.get("id") != checkpoint_id:
            raise CorruptRecordError(
                f"checkpoint {chain.checkpoint_id!r} of {part!r} needs position {position} ({checkpoint_id!r}), "
                "which is missing or is another; restore the database from a backup, or delete the checkpoint"
            )
        path.append(body)
        below = prev_of(body)
        if below is None:
            return _forward(codec, Doc({}, {}), path)
        if below[0] >= position:
            raise ValueError(f"position {position} is built on {below[0]}")
        position, checkpoint_id = below
    return _forward(codec, base[1], path)


def _forward(codec: DocCodec, start: Doc, path: list[dict[str, Any]]) -> Doc:
    """Apply deltas, the last of `path` first. What is new is decoded at once, at the end."""
    small = path[0]["small"] if path else start.small
    if not isinstance(small, dict):
        raise ValueError(f"its small fields are {small!r}")
    fresh: dict[str, list[Any]] = {}
    for body in reversed(path):
        if "=" in body:
            return Doc(small, _general(codec, start, path))
        for name, items in body.get("+", _NOTHING).items():
            fresh.setdefault(name, []).extend(items)
    appended = {name: tuple(codec.load_items(name, items)) for name, items in fresh.items()}
    long = {name: start.long.get(name, ()) + appended.get(name, ()) for name in {**start.long, **appended}}
    return Doc(small, long)


def _general(codec: DocCodec, start: Doc, path: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Long fields after deltas of any kind."""
    fields: dict[str, list[Any]] = {name: [_Old(item) for item in items] for name, items in start.long.items()}
    for body in reversed(path):
        for name, change in long_of(body).items():
            items = fields.setdefault(name, [])
            if "+" in change:
                items.extend(change["+"])
            else:
                fields[name] = apply(items, from_json(change["="]))
    return {name: _decoded(codec, name, items) for name, items in fields.items()}


def _decoded(codec: DocCodec, name: str, items: list[Any]) -> tuple[Any, ...]:
    fresh = iter(codec.load_items(name, [item for item in items if item.__class__ is not _Old]))
    return tuple(item.item if item.__class__ is _Old else next(fresh) for item in items)


class _Old:
    """An item that is decoded already, among those that are not."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item
