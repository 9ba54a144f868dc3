"""Removing from a log: announce, re-base, then replace by stubs.

First a mark is appended that names the positions; readers obey it at once, and whoever wants to append must step over
it and so learns of it. Then every live state that is a delta to a removed one is rewritten as a snapshot, or as a delta to
one that stays. Only then is the content of the removed positions replaced by stubs, which hold their positions for a day so that no writer with an
old view can take one again. A kill in between is finished by the next vacuum. Delete, vacuum and prune are this one act.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from locus.errors import ConflictError, CorruptRecordError
from locus.memory.log.delta import Change, diff
from locus.memory.log.doc import Doc, Part
from locus.memory.log.log import STALE_AFTER, Log
from locus.memory.log.record import Chain, Header, Ranges, header_of, log_sort, result_sort
from locus.memory.log.view import View
from locus.storage.base import Delete, Op, Put, Record, Span

__all__ = ["DROP_AFTER", "finish_removal", "remove", "sweep"]

DROP_AFTER = 86_400.0
"""Stubs and marks older than this are dropped: no writer's view is that old."""
_PAGE = 500
_BATCH = 100


async def remove(log: Log, part: Part, positions: Ranges | None) -> bool:
    """Remove these positions, or (None) all there is. False if the thread has no live state."""
    while True:
        try:
            view = await log.lasting(part, await log.fresh(part))
        except CorruptRecordError:
            if positions is not None:
                raise
            view = await _unreadable(log, part)
        if view.head is None:
            if view.tail and view.tail.kind == "mark" and view.gone:  # a killed delete, and no copy under way
                await finish_removal(log, part, view.gone, view.tail)
            return False
        target = positions or Ranges([(1, view.position)])
        mark = log.mark(view, gone=view.gone | target, gone_at=log.storage.clock())
        if view.head.position in target:
            newest = await _newest_without(log, part, view, target) if positions else None
            mark = replace(mark, head=newest.chain if newest else None, turn=newest.turn if newest else None)
        try:
            await log.append_mark(part, view, mark)
        except ConflictError:
            continue
        await finish_removal(log, part, target, mark)
        return True


async def _unreadable(log: Log, part: Part) -> View:
    """A view of a thread that ends in a damaged record, good for nothing but removing all of it."""
    [records] = await log.storage.scan([log.back(part, limit=1)])
    last = max((int(record.key.sort[1:]) for record in records), default=0)
    anything = Chain(last, "", last, 0, 0, 0, 0.0) if last else None
    return View(Header(last, "mark", 0.0, anything), None, log.monotonic())


async def finish_removal(log: Log, part: Part, target: Ranges, announced: Header) -> None:
    """Re-base what depends on announced positions, then stub them. May be done twice, by anybody.

    What depends on positions that others announced is re-based too: it may depend on `target` through them.
    """
    gone = announced.gone | target
    async for record in _records(log, part, gone.lowest, announced.position):
        if int(record.key.sort[1:]) in gone:
            continue
        header = header_of(record)
        if header.kind == "state" and header.prev and header.prev[0] in gone:
            await _rebase(log, part, record, header, gone)
    for low, high in target.spans:
        await _stub(log, part, low, high)
    await _settle(log, part, target, announced)


async def sweep(log: Log, part: Part) -> View:
    """Finish what a killed remover left, and drop what nobody can need any more."""
    view = await log.fresh(part)
    now = log.storage.clock()
    done = view.gone
    if view.tail and done and now - view.tail.gone_at > STALE_AFTER:
        await finish_removal(log, part, done, view.tail)
        view = await log.lasting(part, await log.fresh(part))
        if view.tail and view.gone:  # what others announced meanwhile stays announced
            try:
                view = await log.append_mark(part, view, log.mark(view, gone=view.gone - done))
            except ConflictError:
                view = await log.fresh(part)
    if view.tail:
        await _drop(log, part, view, now)
        if not view.tail.turn or view.tail.turn.get("phase") == "done":
            await _drop_results(log, part, now)
        view = await log.fresh(part)
    if view.tail is None:
        await _drop_leavings(log, part, now)
    return view


async def _newest_without(log: Log, part: Part, view: View, target: Ranges) -> Header | None:
    """The newest live state once `target` is gone."""
    before: int | None = None
    while True:
        [records] = await log.storage.scan([log.back(part, before, limit=_PAGE)])
        for record in records:
            live = log.live_state(record, view)
            if live and live[1].position not in target:
                return live[1]
        if len(records) < _PAGE:
            return None
        before = int(records[-1].key.sort[1:])


async def _records(log: Log, part: Part, low: int, high: int) -> AsyncIterator[Record]:
    """The records of a stretch, a page at a time."""
    while low <= high:
        [records] = await log.storage.scan([log.span(part, low, high, limit=_PAGE)])
        for record in records:
            yield record
        if len(records) < _PAGE:
            return
        low = int(records[-1].key.sort[1:]) + 1


async def _rebase(log: Log, part: Part, record: Record, header: Header, gone: Ranges) -> None:
    """Rewrite a delta so that it needs nothing that is gone, taking over the text of what is removed below it.

    It becomes a snapshot of the same state or, when that is more than a record holds, a delta to the nearest state below
    that stays. Should that one be removed meanwhile, its remover finds this one among its dependents.
    """
    while header.kind == "state" and header.prev is not None and header.prev[0] in gone and header.chain is not None:
        doc = await log.load_state(part, record, header)
        if doc is None:
            return
        ancestor = await _live_ancestor(log, part, header, gone)
        below = await log.load_state(part, *ancestor) if ancestor else None
        base = below or Doc({}, {})
        put = _snapshot(log, part, record, header, doc, base)
        if ancestor and below and not log.fits(put):
            put = _delta_to(log, part, record, header, doc, base, ancestor[1])
        try:
            await log.storage.commit([put])
        except ConflictError:  # another remover was here: look again
            [found] = await log.storage.get([record.key])
            if found is None:
                return
            record, header = found, header_of(found)
        else:
            return


def _changes(log: Log, base: Doc, doc: Doc) -> dict[str, Change]:
    fields = {**dict.fromkeys(base.long, ()), **doc.long}
    return {name: diff(base.long.get(name, ()), items, partial(log.content, name)) for name, items in fields.items()}


def _snapshot(log: Log, part: Part, record: Record, header: Header, doc: Doc, base: Doc) -> Put:
    long = {name: {"+": log.codec.dump_items(name, items)} for name, items in doc.long.items() if items}
    size = header.chain.size if header.chain else 0
    chain = Chain(header.position, header.checkpoint_id, header.position, 0, size, size, log.storage.clock())
    return _rewritten(log, part, record, replace(header, prev=None), chain, doc, base, long)


def _delta_to(log: Log, part: Part, record: Record, header: Header, doc: Doc, base: Doc, ancestor: Header) -> Put:
    long = log.delta(base, _changes(log, base, doc))
    below = ancestor.chain or Chain(ancestor.position, ancestor.checkpoint_id, 1, 0, 0, 0, 0.0)
    size = header.chain.size if header.chain else 0
    chain = replace(
        below, position=header.position, checkpoint_id=header.checkpoint_id, length=below.length + 1, size=size
    )
    prev = (ancestor.position, ancestor.checkpoint_id)
    return _rewritten(log, part, record, replace(header, prev=prev), chain, doc, base, long)


def _rewritten(
    log: Log, part: Part, record: Record, header: Header, chain: Chain, doc: Doc, base: Doc, long: dict[str, Any]
) -> Put:
    """The operation that puts another form of the same state in a record's place."""
    fresh = {name: change.new_items for name, change in _changes(log, base, doc).items()}
    head = chain if header.head == header.chain else header.head
    put = log.put_state(
        part, replace(header, chain=chain, head=head), doc.small, long, log.codec.text_of_all(fresh), record.tags
    )
    return replace(put, if_rev=record.rev, expires_at=record.expires_at)


async def _live_ancestor(log: Log, part: Part, header: Header, gone: Ranges) -> tuple[Record, Header] | None:
    """The nearest state below, along the deltas, that is not removed."""
    start = header.chain.start if header.chain else 1
    [records] = await log.storage.scan([log.span(part, start, header.position - 1)])
    below = {int(record.key.sort[1:]): record for record in records}
    while header.prev is not None and header.prev[0] in below:
        record = below[header.prev[0]]
        header = header_of(record)
        if header.kind != "state":
            return None
        if header.position not in gone:
            return record, header
    return None


async def _stub(log: Log, part: Part, low: int, high: int) -> None:
    """Replace the content of a stretch, and drop the tool results that belong to it."""
    batch: list[Op] = []
    async for record in _records(log, part, low, high):
        if record.body.get("kind") != "stub":
            batch.append(_stub_put(log, record))
        if len(batch) >= _BATCH:
            await _write_stubs(log, batch)
            batch = []
    await _write_stubs(log, batch)
    results = Span(log.space.name, part, result_sort(low), result_sort(high + 1), bodies=False)
    [records] = await log.storage.scan([results])
    await log.storage.commit([Delete(record.key) for record in records])


def _stub_put(log: Log, record: Record) -> Put:
    stub = Header(int(record.key.sort[1:]), "stub", log.storage.clock(), None)
    return Put(record.key, stub.to_json(), record.rev, expires_at=record.expires_at)


async def _write_stubs(log: Log, batch: list[Op]) -> None:
    while batch:
        try:
            await log.storage.commit(batch)
        except ConflictError:  # somebody else is finishing the same removal
            records = await log.storage.get([op.key for op in batch])
            batch = [_stub_put(log, record) for record in records if record and record.body.get("kind") != "stub"]
        else:
            return


async def _settle(log: Log, part: Part, target: Ranges, announced: Header) -> None:
    """Say in the announcement that it is carried out, if it is still the last record."""
    [record] = await log.storage.get([log.key(part, log_sort(announced.position))])
    if record is None or record.body.get("kind") == "stub":
        return
    header = header_of(record)
    body = {name: value for name, value in record.body.items() if name not in ("gone", "gone_at")}
    if left := header.gone - target:
        body |= {"gone": [list(span) for span in left.spans], "gone_at": header.gone_at}
    put = Put(record.key, body, record.rev, expires_at=record.expires_at, tags=record.tags, text=record.text)
    try:
        await log.storage.commit([put])
    except ConflictError:
        return
    finally:
        log.forget(part)


async def _drop(log: Log, part: Part, view: View, now: float) -> None:
    """Delete old stubs and marks, lowest first; the last record only when nothing is alive, and last."""
    async for record in _records(log, part, 1, view.position):
        header = header_of(record)
        needed = header.kind == "state" or (header.position == view.position and view.head is not None)
        if needed or now - header.at < DROP_AFTER:
            continue
        try:
            await log.storage.commit([Delete(record.key, record.rev)])
        except ConflictError:
            return
    log.forget(part)


async def _drop_results(log: Log, part: Part, now: float) -> None:
    """Delete old tool results that a turn was killed before it could clean up after itself."""
    [records] = await log.storage.scan([Span(log.space.name, part, "r", "s", bodies=False)])
    await log.storage.commit([Delete(record.key) for record in records if now - record.updated_at >= DROP_AFTER])


async def _drop_leavings(log: Log, part: Part, now: float) -> None:
    """Delete what lies beside a log that is no more: the lease that its runs had, results, the note of its last use."""
    [records] = await log.storage.scan([Span(log.space.name, part, bodies=False)])
    if all(now - record.updated_at >= DROP_AFTER for record in records):
        with suppress(ConflictError):  # somebody began the thread anew
            await log.storage.commit([Delete(record.key, record.rev) for record in records])
