"""How one sequence is written in terms of the one before it: copied runs and new items.

A thread mostly grows at its end, but windows slide, messages are edited and branches go back. So a change is, in its
general form, a list of segments: runs `[a, b)` of the old sequence, and new items. Only what is new is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from locus.errors import CorruptRecordError

__all__ = ["Change", "apply", "diff", "from_json"]

_MANY = 8
"""So many items that identity did not find are worth a second look by content."""


class Change(NamedTuple):
    """Segments in order: `(a, b)` copies old[a:b], a list holds new items."""

    segments: list[tuple[int, int] | list[Any]]

    @property
    def new_items(self) -> list[Any]:
        """The items that the old sequence did not have, in order."""
        return [item for segment in self.segments if isinstance(segment, list) for item in segment]

    def to_json(self, dump: Callable[[list[Any]], list[Any]], length: int) -> dict[str, Any] | None:
        """The stored form: None for no change, `{"+": items}` for an append to `length` items, else all segments."""
        match self.segments:
            case []:
                return None if length == 0 else {"=": []}
            case [(0, end)] if end == length:
                return None
            case [(0, end), [*items]] if end == length:
                return {"+": dump(items)}
            case [[*items]] if length == 0:
                return {"+": dump(items)}
        return {"=": [{"n": dump(s)} if isinstance(s, list) else [s[0], s[1]] for s in self.segments]}


def diff(old: Sequence[Any], new: Sequence[Any], content: Callable[[Any], object]) -> Change:
    """How `new` is made from `old`. `content` gives what two equal items have in common, hashable."""
    size = len(old)
    if len(new) >= size and new[:size] == old:  # compares by identity first, at C speed
        kept: list[tuple[int, int] | list[Any]] = [(0, size)] if size else []
        return Change([*kept, list(new[size:])] if len(new) > size else kept)
    change = _by_key(old, new, id)
    if len(change.new_items) > _MANY and size:
        return _by_key(old, new, content)
    return change


def apply(old: Sequence[Any], change: Change) -> list[Any]:
    """The new sequence; a run outside the old one means that the records do not belong together."""
    out: list[Any] = []
    for segment in change.segments:
        if isinstance(segment, list):
            out.extend(segment)
        elif 0 <= segment[0] <= segment[1] <= len(old):
            out.extend(old[segment[0] : segment[1]])
        else:
            raise CorruptRecordError(f"a change copies items {segment} of a sequence of {len(old)}")
    return out


def from_json(stored: list[Any]) -> Change:
    """Read the general stored form of a change."""
    try:
        return Change([list(s["n"]) if isinstance(s, dict) else (int(s[0]), int(s[1])) for s in stored])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptRecordError(f"a stored change is damaged: {error!r}") from error


def _by_key(old: Sequence[Any], new: Sequence[Any], key: Callable[[Any], object]) -> Change:
    where = {key(item): at for at, item in enumerate(old)}
    segments: list[tuple[int, int] | list[Any]] = []
    at = 0
    while at < len(new):
        start = where.get(key(new[at]))
        if start is None:
            if segments and isinstance(segments[-1], list):
                segments[-1].append(new[at])
            else:
                segments.append([new[at]])
            at += 1
            continue
        length = 1
        while (
            at + length < len(new) and start + length < len(old) and key(new[at + length]) == key(old[start + length])
        ):
            length += 1
        segments.append((start, start + length))
        at += length
    return Change(segments)
