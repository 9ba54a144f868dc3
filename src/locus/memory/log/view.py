"""What a process knows of a log, and the cache that keeps it: it saves reads and decides nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from locus.memory.log.doc import Doc, Part
from locus.memory.log.record import Chain, Header, Ranges

__all__ = ["View", "Views", "same_state"]


@dataclass(slots=True)  # read-only by agreement: to freeze it would double what making one costs
class View:
    """What a writer knows of a log: its last record, and the head's content if that was read."""

    tail: Header | None
    doc: Doc | None
    read_at: float
    expires_at: float | None = None
    """When the log ends, as far as is known; a later use may have put it off."""

    @property
    def head(self) -> Chain | None:
        """The newest live state."""
        return self.tail.head if self.tail else None

    @property
    def position(self) -> int:
        """The last position; 0 for an empty log."""
        return self.tail.position if self.tail else 0

    @property
    def gone(self) -> Ranges:
        """Positions announced as removed."""
        return self.tail.gone if self.tail else Ranges()

    def lasts(self, now: float, read_after: float) -> bool:
        """Whether the log is certainly still this one: where it ended, another may have begun under the same ids."""
        return (self.expires_at is None or now < self.expires_at) and self.read_at > read_after


class Views:
    """Views by part, least recently used first to go, bounded by the size of what they hold."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._views: OrderedDict[Part, View] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, part: Part) -> View | None:
        with self._lock:
            view = self._views.get(part)
            if view is not None:
                self._views.move_to_end(part)
            return view

    def put(self, part: Part, view: View) -> None:
        with self._lock:
            before = self._views.get(part)
            self._views[part] = view
            self._views.move_to_end(part)
            self._held += _bytes(view) - (_bytes(before) if before else 0)
            while self._held > self._most and len(self._views) > 1:
                self._drop(next(iter(self._views)))

    def drop(self, part: Part) -> None:
        with self._lock:
            self._drop(part)

    def _drop(self, part: Part) -> None:
        view = self._views.pop(part, None)
        if view is not None:
            self._held -= _bytes(view)


def _bytes(view: View) -> int:
    return 500 + (2 * view.head.size if view.doc and view.head else 0)


def same_state(one: Chain | None, other: Chain | None) -> bool:
    """Whether both are the same state, whatever is known of how to read it."""
    return (
        one is not None
        and other is not None
        and (one.position, one.checkpoint_id) == (other.position, other.checkpoint_id)
    )
