"""Copying a thread: every record of the copy says that it is not there yet, until the last one says that all are.

The records are appended in order, without a gap, so a writer that comes in between takes the next position and the copy
stops. Each is announced as gone while it is the last, so a reader sees either no thread or all of it, and what a killed
copy leaves is removed by the next vacuum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from locus.errors import ConflictError
from locus.memory.log.doc import Part
from locus.memory.log.log import STALE_AFTER, Log
from locus.memory.log.record import Chain, Header, Ranges, header_of, log_sort, long_of, result_sort
from locus.memory.log.view import View
from locus.storage.base import ABSENT, Op, Put, Record, Span

__all__ = ["copy_log"]

_BATCH = 100


@dataclass(slots=True)
class _Copy:
    """A copy under way: where it began and which source position went where."""

    log: Log
    dest: Part
    base: View
    gone_at: float
    results: dict[int, list[Record]]
    moved: dict[int, int]

    @property
    def next_position(self) -> int:
        return self.base.position + len(self.moved) + 1

    def gone(self) -> Ranges:
        return self.base.gone | Ranges([(self.base.position + 1, self.next_position)])


async def copy_log(log: Log, source: Part, dest: Part) -> bool:
    """Copy all live states. False if the source has none; `ConflictError` if the destination exists."""
    view = await log.fresh(source)
    if view.head is None:
        return False
    base = await log.fresh(dest)
    if base.head is not None:
        raise ConflictError(f"thread {dest[0]!r} exists already; delete it first, or copy to another id")
    began = log.monotonic()
    copy = _Copy(log, dest, base, log.storage.clock(), await _results(log, source), {})
    try:
        await _copy_states(copy, source, view)
        if log.monotonic() - began > STALE_AFTER / 2:
            raise ConflictError(f"copying thread {source[0]!r} took over half an hour and was given up")
        await _reveal(copy, view)
    except ConflictError as error:
        raise ConflictError(f"the copy to thread {dest[0]!r} was stopped: {error}") from error
    finally:
        log.forget(dest)
    return True


async def _copy_states(copy: _Copy, source: Part, view: View) -> None:
    low = 1
    while low <= view.position:
        [records] = await copy.log.storage.scan([copy.log.span(source, low, view.position, limit=_BATCH, whole=True)])
        ops: list[Op] = []
        for record in records:
            live = copy.log.live_state(record, view)
            put = await _copied(copy, source, *live) if live else None
            if live and put:
                ops += [put, *_copied_results(copy, live[1].position)]
        await copy.log.storage.commit(ops)
        if len(records) < _BATCH:
            return
        low = int(records[-1].key.sort[1:]) + 1


async def _copied(copy: _Copy, source: Part, record: Record, header: Header) -> Put | None:
    """The record for the copy: the same delta if its base is copied too, else a snapshot. None if it is no more."""
    log, position = copy.log, copy.next_position
    chain = header.chain
    if chain is None:
        return None
    small, long = record.body["small"], long_of(record.body)
    prev = header.prev
    if prev and prev[0] in copy.moved:
        prev = (copy.moved[prev[0]], prev[1])
        moved = replace(
            chain, position=position, start=min(copy.moved.get(chain.start, copy.base.position + 1), position)
        )
    else:
        if prev:
            doc = await log.load_state(source, record, header)
            if doc is None:
                return None
            long = {name: {"+": log.codec.dump_items(name, items)} for name, items in doc.long.items() if items}
        prev, moved = (
            None,
            Chain(position, header.checkpoint_id, position, 0, chain.size, chain.size, log.storage.clock()),
        )
    new = replace(header, position=position, head=None, chain=moved, prev=prev, gone=copy.gone(), gone_at=copy.gone_at)
    copy.moved[header.position] = position
    return log.put_state(copy.dest, new, small, long, record.text or "", _tags(record))


def _tags(record: Record) -> dict[str, str | int | float | bool | None]:
    return {name: value for name, value in record.tags.items() if name != "id"}


async def _results(log: Log, source: Part) -> dict[int, list[Record]]:
    """The tool results that no state holds yet, by the position of their reply."""
    [records] = await log.storage.scan([Span(log.space.name, source, "r", "s")])
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(int(record.key.sort[1:].partition(".")[0]), []).append(record)
    return found


def _copied_results(copy: _Copy, position: int) -> list[Op]:
    to = copy.moved[position]
    return [
        Put(
            copy.log.key(copy.dest, result_sort(to, record.key.sort.partition(".")[2])),
            record.body,
            ABSENT,
            expires_at=copy.log.expiry(),
        )
        for record in copy.results.get(position, ())
    ]


async def _reveal(copy: _Copy, source: View) -> None:
    """The mark that makes the whole copy visible at once."""
    if source.head is None or source.head.position not in copy.moved:
        raise ConflictError("its newest checkpoint was removed meanwhile")
    position = copy.moved[source.head.position]
    [record] = await copy.log.storage.get([copy.log.key(copy.dest, log_sort(position))])
    chain = header_of(record).chain if record else None
    if chain is None:
        raise ConflictError("its records were removed meanwhile")
    turn = source.tail.turn if source.tail else None
    mark = copy.log.mark(copy.base, position=copy.next_position, head=chain, turn=turn)
    await copy.log.append_mark(copy.dest, copy.base, mark)
