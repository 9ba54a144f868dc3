"""Which checkpoint answers a full-text hit: the newest one of its thread that still holds what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from locus.memory.log.doc import Doc, Part
from locus.memory.log.log import Log
from locus.memory.log.record import Header, long_of
from locus.memory.log.view import View
from locus.storage._text import words
from locus.storage.base import Record

__all__ = ["newest_holder"]

_PAGE = 64


async def newest_holder(log: Log, part: Part, view: View, record: Record, query: str) -> Header | None:
    """The newest live state that has what the query found in `record`; None when no state has it any more."""
    live = log.live_state(record, view)
    if live is None or view.head is None:
        return None
    found = list(_found(log, long_of(record.body), set(words(query))))
    view = await log.with_doc(part, view)
    if view.doc and view.head and _holds(view.doc, found):
        [newest] = await log.storage.scan([log.span(part, view.head.position, view.head.position)])
        head = log.live_state(newest[0], view) if newest else None
        return head[1] if head else None
    before: int | None = None
    while states := await log.states(part, view, _PAGE, before=before):
        states = [state for state in states if state[1].position >= live[1].position]
        docs = await log.load_states(part, states[::-1])
        for (_, header), doc in zip(states, docs[::-1], strict=True):
            if doc and _holds(doc, found):
                return header
        if len(states) < _PAGE:
            break
        before = states[-1][1].position
    return live[1]


def _found(log: Log, long: dict[str, Any], wanted: set[str]) -> Iterator[tuple[str, Any]]:
    """The new items of a record that have one of the words; all of them if none does (inflected forms)."""
    items = [(name, item) for name, stored in long.items() for item in log.codec.load_items(name, _new(stored))]
    matching = [(name, item) for name, item in items if wanted & set(words(log.codec.text_of_all({name: [item]})))]
    yield from matching or items


def _new(stored: dict[str, Any]) -> list[Any]:
    if "+" in stored:
        return list(stored["+"])
    return [item for segment in stored.get("=", ()) if isinstance(segment, dict) for item in segment["n"]]


def _holds(doc: Doc, found: list[tuple[str, Any]]) -> bool:
    return not found or any(item in doc.long.get(name, ()) for name, item in found)
