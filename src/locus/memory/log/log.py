"""A thread as a log of positions, each written once, each a delta to the state before it.

"Latest" is a question asked of the last record, never a record that is rewritten. A writer appends at the position
after the last one it knows; the storage refuses all but one. The cache saves reads and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from locus._clock import elapsed_seconds
from locus._ids import new_token
from locus.errors import ConflictError, CorruptRecordError, InputError
from locus.memory.log.delta import Change, diff
from locus.memory.log.doc import Doc, DocCodec, Part, rebuild
from locus.memory.log.record import (
    LOG_END,
    LOG_START,
    Chain,
    Entry,
    Header,
    Ranges,
    header_of,
    id_position,
    log_sort,
    long_json,
    new_checkpoint_id,
)
from locus.memory.log.view import View, Views, same_state
from locus.storage._json import check_plain, encode_checked
from locus.storage.base import ABSENT, Key, Put, Query, Record, Scalar, Space, Span, Storage

__all__ = ["STALE_AFTER", "Log", "check_limit"]

STALE_AFTER = 3600.0
"""Nobody writes from a view older than this; what is removed stays recognisable for longer."""
_OVERHEAD = 220
_LARGE = 256 * 1024
"""A state of so many bytes is encoded and decoded off the event loop."""
_MANY = 500
"""Where the bytes are not known: so many items may be large."""
_CHAIN = 128
"""So many records are read as quickly as a snapshot."""
_TRIES = 1000
_MARGIN = 30.0
"""Nothing is built on a log that ends within so many seconds."""


class Log:
    """Reads and appends the logs of one space."""

    def __init__(
        self,
        storage: Storage,
        space: Space,
        codec: DocCodec,
        *,
        ttl_seconds: float | None = None,
        rebase_after: float | None = None,
        cache_bytes: int = 64 * 1024 * 1024,
        monotonic: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self.storage = storage
        self.space = space
        self.codec = codec
        self.ttl_seconds = ttl_seconds
        self.rebase_after = rebase_after
        self.monotonic = monotonic
        self._cache = Views(cache_bytes)
        self._declared = False

    async def ready(self) -> None:
        """Declare the space once, so that it is a log."""
        if not self._declared:
            await self.storage.setup(self.space)
            self._declared = True

    def key(self, part: Part, sort: str) -> Key:
        """The key of a record of a log."""
        return Key(self.space.name, part, sort)

    def span(
        self, part: Part, low: int, high: int | None = None, *, limit: int | None = None, whole: bool = False
    ) -> Span:
        """Positions `low` to `high`, both included, ascending."""
        end = LOG_END if high is None else log_sort(high + 1)
        return Span(self.space.name, part, log_sort(low), end, limit=limit, whole=whole)

    def back(self, part: Part, before: int | None = None, *, limit: int) -> Span:
        """The newest records below `before`, newest first."""
        end = LOG_END if before is None else log_sort(before)
        return Span(self.space.name, part, LOG_START, end, reverse=True, limit=limit, whole=False)

    def expiry(self) -> float | None:
        """When what is written now expires."""
        return None if self.ttl_seconds is None else self.storage.clock() + self.ttl_seconds

    async def fresh(self, part: Part) -> View:
        """Ask the storage for the log's last record."""
        await self.ready()
        [records] = await self.storage.scan([self.back(part, limit=1)])
        return self.seen(part, records[0] if records else None)

    def seen(self, part: Part, record: Record | None) -> View:
        """Take note of a last record that was just read."""
        header = header_of(record) if record else None
        known = self._cache.get(part)
        lasts = known and known.lasts(self.storage.clock(), self.monotonic() - STALE_AFTER)
        doc = known.doc if known and lasts and header and same_state(known.head, header.head) else None
        return self.note(part, View(header, doc, self.monotonic(), record.expires_at if record else None))

    def note(self, part: Part, view: View) -> View:
        """Remember a view."""
        self._cache.put(part, view)
        return view

    def forget(self, part: Part) -> None:
        """Forget a view that may be wrong."""
        self._cache.drop(part)

    def known(self, part: Part) -> View | None:
        """What is known of the log, if it is not too old to write from."""
        known = self._cache.get(part)
        if known and self.monotonic() - known.read_at < STALE_AFTER and not self.expiring(known):
            return known
        return None

    async def view(self, part: Part) -> View:
        """What is known of the log, read if nothing is or if it is too old to write from."""
        return self.known(part) or await self.lasting(part, await self.fresh(part))

    def expiring(self, view: View) -> bool:
        """Whether the log may have expired by now, or may before a write reaches it."""
        if view.expires_at is None:
            return False
        margin = min(_MARGIN, (self.ttl_seconds or 2 * _MARGIN) / 2)
        return self.storage.clock() > view.expires_at - margin

    async def lasting(self, part: Part, view: View) -> View:
        """A view to write from: the end of a log that is about to expire is put off first, or it has come."""
        if not self.expiring(view):
            return view
        await self.touch(part)
        return await self.fresh(part)

    async def to_write_from(self, part: Part) -> View:
        """A fresh view with the head's content."""
        return await self.with_doc(part, await self.lasting(part, await self.fresh(part)))

    async def touch(self, part: Part) -> None:
        """Use the log: its end is put off, or it stays empty."""
        put = Put(self.key(part, "touch"), {"v": 1, "kind": "touch"}, expires_at=self.expiry())
        await self.storage.commit([put])

    async def with_doc(self, part: Part, view: View) -> View:
        """The same view with the head's content, or a newer one if the head was removed meanwhile."""
        while view.head is not None and view.doc is None:
            try:
                view = self.note(part, replace(view, doc=await self.load(part, view.head)))
            except CorruptRecordError:
                again = await self.fresh(part)
                if same_state(view.head, again.head):
                    raise
                view = again
        return view

    async def load_named(self, part: Part, checkpoint_id: str) -> tuple[Header, Doc] | None:
        """The live state with this id and its content; None if there is none, or none any more."""
        while (found := await self.find(part, checkpoint_id)) and found[1].chain:
            if doc := await self.load_state(part, *found):
                return found[1], doc
        return None

    async def load_state(self, part: Part, record: Record, header: Header) -> Doc | None:
        """The content of a state whose record was read; None if it was removed since."""
        while header.chain is not None:
            try:
                return await self.load(part, header.chain)
            except CorruptRecordError:
                view = await self.fresh(part)
                [again] = await self.storage.get([record.key])
                live = self.live_state(again, view)
                if live is None:
                    return None
                if live[0].rev == record.rev:
                    raise
                record, header = live
        return None

    async def load(self, part: Part, chain: Chain) -> Doc:
        """Rebuild a state from its stretch of the log, in one scan."""
        known = self._cache.get(part)
        if known and known.doc and known.head and chain.start <= known.head.position <= chain.position:
            if same_state(known.head, chain):
                return known.doc
            try:
                [doc] = await self._replay(part, [chain], (known.head, known.doc))
            except CorruptRecordError:  # on another branch than the state that is known
                pass
            else:
                return doc
        return (await self.load_many(part, [chain]))[0]

    async def load_states(self, part: Part, states: Sequence[tuple[Record, Header]]) -> list[Doc | None]:
        """The contents of states in the order of their positions; None for one that was removed meanwhile."""
        try:
            return [*await self.load_many(part, [header.chain for _, header in states if header.chain])]
        except CorruptRecordError:
            return [await self.load_state(part, record, header) for record, header in states]

    async def load_many(self, part: Part, chains: Sequence[Chain]) -> list[Doc]:
        """Rebuild several states in the order of their positions, in one scan and one pass."""
        try:
            return await self._replay(part, chains, None)
        except CorruptRecordError:  # perhaps the stretch changed while it was read: one fresh look decides
            return await self._replay(part, [replace(chain, start=1) for chain in chains], None)

    async def _replay(self, part: Part, chains: Sequence[Chain], base: tuple[Chain, Doc] | None) -> list[Doc]:
        if not chains:
            return []
        low = base[0].position + 1 if base else min(chain.start for chain in chains)
        [records] = await self.storage.scan([self.span(part, low, chains[-1].position)])
        rebuilt = partial(self._rebuilt, part, records, chains, base)
        return await self.storage.compute(rebuilt) if chains[-1].size > _LARGE else rebuilt()

    def _rebuilt(
        self, part: Part, records: list[Record], chains: Sequence[Chain], base: tuple[Chain, Doc] | None
    ) -> list[Doc]:
        bodies = {int(record.key.sort[1:]): record.body for record in records}
        docs: list[Doc] = []
        for chain in chains:
            base = (chain, rebuild(self.codec, part, bodies, chain, base))
            docs.append(base[1])
        return docs

    async def append(self, part: Part, doc: Doc, entry: Entry, *, gone: Ranges | None = None) -> Header:
        """Append a state at the end, wherever that is by now."""
        view = self.known(part) or await self.view(part)
        for _ in range(_TRIES):
            if view.doc is None:
                view = await self.with_doc(part, view)
            try:
                return await self.append_after(part, view, doc, entry, gone=gone)
            except ConflictError:
                view = await self.lasting(part, await self.fresh(part))
        raise ConflictError(f"{part!r} is being written by so many that no place could be had; try again")

    async def append_after(
        self,
        part: Part,
        view: View,
        doc: Doc,
        entry: Entry,
        *,
        gone: Ranges | None = None,
        more: Sequence[Any] = (),
        hidden: bool = False,
    ) -> Header:
        """Append a state right after the view's last record, or raise `ConflictError`. `more` ops follow in the commit."""
        if view.doc and view.doc.long.keys() - doc.long.keys():  # a field that is no more is an empty one
            doc = Doc(doc.small, {**dict.fromkeys(view.doc.long, ()), **doc.long})
        encode = partial(self.encode, part, view, doc, entry, gone=gone, hidden=hidden)
        put, header = await self.storage.compute(encode) if self._is_large_cut(view, doc) else encode()
        await self.write(part, [put, *more], View(header, doc, self.monotonic(), put.expires_at))
        return header

    def mark(self, view: View, **changes: Any) -> Header:  # Any: fields of Header
        """A mark for the position after the view's last record, true of the log as it stands but for `changes`."""
        tail = view.tail or Header(0, "mark", 0.0, None)
        now = self.storage.clock()
        mark = Header(view.position + 1, "mark", now, tail.head, gone=tail.gone, gone_at=tail.gone_at, turn=tail.turn)
        return replace(mark, **changes)

    async def append_mark(self, part: Part, view: View, mark: Header) -> View:
        """Append a mark right after the view's last record, or raise `ConflictError`."""
        put = Put(self.key(part, log_sort(mark.position)), mark.to_json(), ABSENT, expires_at=self.expiry())
        same = same_state(view.head, mark.head)
        return await self.write(part, [put], View(mark, view.doc if same else None, self.monotonic(), put.expires_at))

    async def write(self, part: Part, ops: Sequence[Any], view: View) -> View:
        """Commit, and remember the view that holds from then on; forget it when the outcome is not known."""
        try:
            await self.storage.commit(ops)
        except BaseException:
            self.forget(part)
            raise
        return self.note(part, view)

    def encode(
        self, part: Part, view: View, doc: Doc, entry: Entry, *, gone: Ranges | None = None, hidden: bool = False
    ) -> tuple[Put, Header]:
        """The record that appends `doc` after `view`."""
        tail, head = view.tail, view.head
        position = tail.position + 1 if tail else 1
        now = self.storage.clock()
        checkpoint_id = entry.checkpoint_id or new_checkpoint_id(position, entry.token)
        base = view.doc if head else None
        changes = self._changes(base, doc)
        text = self.codec.text_of_all({name: change.new_items for name, change in changes.items()})
        long, chain = self._content(position, checkpoint_id, head, base, doc, changes, now)
        header = Header(
            position=position,
            kind="state",
            at=now,
            head=None if hidden else chain,
            chain=chain,
            gone=view.gone | gone if gone else view.gone,
            gone_at=now if gone else (tail.gone_at if tail else 0.0),
            checkpoint_id=checkpoint_id,
            parent_id=entry.parent_id or (head.checkpoint_id if head else None),
            prev=None if chain.start == position or not head else (head.position, head.checkpoint_id),
            listed=entry.listed,
            metadata=entry.metadata,
            turn=entry.turn,
        )
        put = self.put_state(part, header, doc.small, long, text, entry.tags, entry.token)
        if header.prev:  # what a delta itself takes is known only now; a reader can do without
            cost = max(len(put.body_json) - _OVERHEAD, 0)
            chain.weight, chain.size = chain.weight + cost, chain.size + cost
        return put, header

    def put_state(
        self,
        part: Part,
        header: Header,
        small: dict[str, Any],
        long: dict[str, Any],
        text: str,
        tags: Mapping[str, Scalar],
        token: str | None = None,
    ) -> Put:
        """The operation that creates a state record."""
        if id_position(header.checkpoint_id) != header.position:
            tags = {**tags, "id": header.checkpoint_id}
        body = {**header.to_json(), "small": small, **long_json(long)}
        return Put(
            self.key(part, log_sort(header.position)),
            body,
            ABSENT,
            token=token or new_token(),
            expires_at=self.expiry(),
            tags=tags,
            text=text or None,
            body_json=encode_checked(body) if _is_plain(header) else "",
        )

    def _changes(self, base: Doc | None, doc: Doc) -> dict[str, Change]:
        """What is new by field; a state shares with the one before it the fields that did not change."""
        before = base.long if base else {}
        return {
            name: diff(old, items, partial(self.content, name))
            for name, items in doc.long.items()
            if (old := before.get(name, ())) is not items
        }

    def content(self, name: str, item: Any) -> str:
        """What two equal items of a field have in common."""
        return json.dumps(self.codec.dump_items(name, [item]), sort_keys=True)

    def _content(
        self,
        position: int,
        checkpoint_id: str,
        head: Chain | None,
        base: Doc | None,
        doc: Doc,
        changes: dict[str, Change],
        now: float,
    ) -> tuple[dict[str, Any], Chain]:
        """The long fields as stored: as a delta or, when the chain should be cut, whole."""
        chain: Chain | None = None
        if head is not None and base is not None:
            had, items = sum(map(len, base.long.values())), sum(map(len, doc.long.values()))
            kept = items - sum(len(change.new_items) for change in changes.values())
            size = head.size if kept == had else head.size * kept // had
            weight = head.weight + _OVERHEAD
            chain = Chain(position, checkpoint_id, head.start, head.length + 1, weight, size, head.born)
            if not self._should_cut(chain, items, now):
                return self.delta(base, changes), chain
        long = {name: {"+": self.codec.dump_items(name, items)} for name, items in doc.long.items() if items}
        size = len(encode_checked(long).encode())
        if chain and base and 2 * size > (most := self.storage.capabilities.max_record_bytes):
            delta = self.delta(base, changes)
            rest = encode_checked([delta, delta, doc.small]).encode()
            if size + len(rest) + _LARGE > most:  # more than one record holds
                return delta, replace(chain, length=0, born=now)
        return long, Chain(position, checkpoint_id, position, 0, size + _OVERHEAD, size, now)

    def fits(self, put: Put) -> bool:
        """Whether a record is small enough to be written."""
        size = len(put.body_json.encode()) + len((put.text or "").encode("utf-8", "replace"))
        return size <= self.storage.capabilities.max_record_bytes

    def delta(self, base: Doc, changes: dict[str, Change]) -> dict[str, Any]:
        """What changed since `base`, by field, as it is stored."""
        stored = {
            name: change.to_json(partial(self.codec.dump_items, name), len(base.long.get(name, ())))
            for name, change in changes.items()
        }
        return {name: value for name, value in stored.items() if value is not None}

    def _is_large_cut(self, view: View, doc: Doc) -> bool:
        """Whether a state will be written whole, or nearly so, that takes long to encode."""
        head, items = view.head, sum(map(len, doc.long.values()))
        if head is None or view.doc is None:
            return items > _MANY
        if head.size <= _LARGE:
            return False
        coming = replace(head, length=head.length + 1, weight=head.weight + _OVERHEAD)
        return self._should_cut(coming, items, self.storage.clock())

    def _should_cut(self, chain: Chain, items: int, now: float) -> bool:
        """Whether reading the chain has become dearer than writing the state whole once.

        The limits grow with the state, so that what snapshots cost stays in proportion to what is saved.
        """
        limit = self.storage.capabilities.chain
        most = max(_CHAIN, items // 2) if limit is None else max(limit, items // 4)
        if chain.length > most or (chain.length > 16 and chain.weight > 2 * chain.size + 16_384):
            return True
        return self.rebase_after is not None and now - chain.born > self.rebase_after

    async def find(self, part: Part, checkpoint_id: str, view: View | None = None) -> tuple[Record, Header] | None:
        """The live state with this id, or None; as of `view` if one is given."""
        given, view = view is not None, view or await self.fresh(part)
        if view.head is None:
            return None
        position = id_position(checkpoint_id)
        if position is not None:
            [record] = await self.storage.get([self.key(part, log_sort(position))])
            found = self.live_state(record, view, checkpoint_id)
            if found:
                return found
        hits = await self.storage.search(
            Query(self.space.name, part, where={"id": checkpoint_id}, one_per_part=True, limit=10)
        )
        for hit in hits:
            found = self.live_state(hit.record, view, checkpoint_id) if hit.record.key.part == part else None
            if found:
                return found
            if not given and hit.record.key.part == part and int(hit.record.key.sort[1:]) > view.position:
                return await self.find(part, checkpoint_id)  # it was replaced while we looked
        return None

    def live_state(
        self, record: Record | None, view: View, checkpoint_id: str | None = None
    ) -> tuple[Record, Header] | None:
        """The record with its header, if it is a state that is not removed (and has this id)."""
        if record is None or record.body.get("kind") != "state":
            return None
        header = header_of(record)
        if header.position in view.gone or header.position > view.position:
            return None
        return (record, header) if checkpoint_id in (None, header.checkpoint_id) else None

    async def states(
        self, part: Part, view: View, limit: int, *, before: int | None = None
    ) -> list[tuple[Record, Header]]:
        """The newest live, listed states, newest first, without rebuilding any."""
        found: list[tuple[Record, Header]] = []
        while view.head is not None and len(found) < limit:
            size = max(16, min(2 * limit, 500))
            [records] = await self.storage.scan([self.back(part, before, limit=size)])
            for record in records:
                live = self.live_state(record, view)
                if live and live[1].listed:
                    found.append(live)
            if len(records) < size:
                break
            before = int(records[-1].key.sort[1:])
        return found[:limit]


def _is_plain(header: Header) -> bool:
    """Whether what callers gave is JSON; the rest of a body is ours, and is. If not, the storage says what is wrong."""
    try:
        for given in (header.metadata, header.turn):
            if given:
                check_plain(given)
    except (TypeError, ValueError):
        return False
    return True


def check_limit(limit: int) -> int:
    """Refuse what cannot be how many to give."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InputError(f"limit must be a whole number of at least 0, not {limit!r}")
    return limit
