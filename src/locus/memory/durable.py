"""The checkpointer on any storage: every capability, deltas only, nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from locus._ids import check_name
from locus.core import codec
from locus.core.state import AgentState
from locus.errors import ConfigError, ConflictError, CorruptRecordError, InputError
from locus.memory.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from locus.memory.log.copying import copy_log
from locus.memory.log.doc import Doc, Part
from locus.memory.log.lease import Seen
from locus.memory.log.log import Log, check_limit
from locus.memory.log.record import Entry, Header, Ranges, log_sort
from locus.memory.log.removal import finish_removal, remove, sweep
from locus.memory.log.run import LogRun, begin, turn_from_json
from locus.memory.log.tags import metadata_tags, metadata_where
from locus.memory.log.textmatch import newest_holder
from locus.memory.log.view import View
from locus.memory.run import Turn
from locus.storage._json import encode_json
from locus.storage.base import Hit, Query, Record, Space, Storage

__all__ = ["DEFAULT_TABLE", "DurableCheckpointer"]

DEFAULT_TABLE = "locus_checkpoints"
_PAGE = 100
_TOUCH_AFTER = 0.1


class DurableCheckpointer(BaseCheckpointer):
    """A checkpointer over any `Storage`.

    A save stores what is new since the save before it. `ttl_seconds` counts for a thread as a whole from its last use.
    The storage is closed with the checkpointer unless `owns_storage` is false.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        table_name: str = DEFAULT_TABLE,
        ttl_seconds: float | None = None,
        rebase_after: float | None = None,
        cache_bytes: int = 64 * 1024 * 1024,
        owns_storage: bool = True,
    ) -> None:
        if ttl_seconds is not None and not ttl_seconds > 0:
            raise ConfigError(f"ttl_seconds must be more than 0, not {ttl_seconds!r}; leave it out to keep threads")
        self.storage = storage
        self._owns_storage = owns_storage
        self._seen: Seen = {}
        self._log = Log(
            storage,
            Space(table_name, log=True),
            codec,
            ttl_seconds=ttl_seconds,
            rebase_after=rebase_after,
            cache_bytes=cache_bytes,
        )

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """All of them."""
        return CheckpointerCapabilities(*(True,) * 8)

    @property
    def blocking(self) -> bool:
        """Whether sync callers may drive this checkpointer inline."""
        return self.storage.blocking

    async def save(
        self,
        state: AgentState,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Save a state as the thread's newest checkpoint.

        An id of your own that the thread has already is replaced: the older checkpoint under it is removed.
        """
        part, doc = _part(thread_id), _doc(state)
        entry = Entry(checkpoint_id, _checked(metadata), tags=metadata_tags(metadata or {}))
        if checkpoint_id is None:
            return (await self._log.append(part, doc, entry)).checkpoint_id
        check_name(checkpoint_id, "checkpoint_id")
        while not await self._save_named(part, checkpoint_id, doc, entry):
            pass  # somebody wrote first, perhaps under the same id: look again
        return checkpoint_id

    async def _save_named(self, part: Part, checkpoint_id: str, doc: Doc, entry: Entry) -> bool:
        """Append under an id that is new, or in place of the state that has it; False if the log went on meanwhile."""
        view = await self._log.to_write_from(part)
        found = await self._log.find(part, checkpoint_id, view)
        if found and _is_repeated(view, found[1], doc, entry):
            return True
        old = Ranges.of([found[1].position]) if found else None
        try:
            header = await self._log.append_after(part, view, doc, entry, gone=old)
        except ConflictError:
            return False
        if old:
            await finish_removal(self._log, part, old, header)
        return True

    async def load(self, thread_id: str, checkpoint_id: str | None = None) -> AgentState | None:
        """Return the named state, or the newest one; None if there is none."""
        part = _part(thread_id)
        if checkpoint_id is not None:
            found = await self._log.load_named(part, check_name(checkpoint_id, "checkpoint_id"))
            if found and self._log.ttl_seconds is not None:
                await self._touch(part, await self._log.view(part))
            return _state(found[1]) if found else None
        view = await self._log.with_doc(part, await self._log.fresh(part))
        await self._touch(part, view)
        return _state(view.doc) if view.doc else None

    async def _touch(self, part: Part, view: View) -> None:
        """A read is a use: it puts off the thread's expiry."""
        ttl = self._log.ttl_seconds
        if ttl is None or view.tail is None:
            return
        used = view.tail.at if view.expires_at is None else view.expires_at - ttl
        if self.storage.clock() - used >= _TOUCH_AFTER * ttl:
            await self._log.touch(part)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """Return checkpoint ids, newest first."""
        return [one["checkpoint_id"] for one in await self.history(thread_id, limit)]

    async def history(self, thread_id: str, limit: int = 10) -> list[dict[str, Any]]:
        """Checkpoints newest first, without loading a state: ids, parents, times and metadata."""
        part = _part(thread_id)
        view = await self._log.fresh(part)
        found = await self._log.states(part, view, check_limit(limit))
        return [
            {**_info(record, header), "parent_checkpoint_id": header.parent_id, "thread_id": thread_id}
            for record, header in found
        ]

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete one checkpoint, or the whole thread; False if there was nothing to delete."""
        part = _part(thread_id)
        if checkpoint_id is None:
            return await remove(self._log, part, None)
        found = await self._log.find(part, check_name(checkpoint_id, "checkpoint_id"))
        return found is not None and await remove(self._log, part, Ranges.of([found[1].position]))

    async def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Whether the checkpoint, or any checkpoint of the thread, exists."""
        part = _part(thread_id)
        if checkpoint_id is not None:
            return await self._log.find(part, check_name(checkpoint_id, "checkpoint_id")) is not None
        return (await self._log.fresh(part)).head is not None

    async def close(self) -> None:
        """Give back connections; the checkpointer can be used again."""
        if self._owns_storage:
            await self.storage.close()

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Full-text search; a thread is answered once, with its newest checkpoint that still holds what was found."""
        if not isinstance(query, str):
            raise InputError(f"a search query must be a string, not {type(query).__name__}")
        found: list[dict[str, Any]] = []
        async for hit, view in self._hits(
            Query(self._log.space.name, text=query, one_per_part=True), check_limit(limit)
        ):
            header = await newest_holder(self._log, hit.record.key.part, view, hit.record, query)
            if header is not None:
                found.append({**_info(hit.record, header), "thread_id": hit.record.key.part[0], "score": hit.score})
            if len(found) >= limit:
                break
        return found

    async def query_by_metadata(
        self, key: str, value: Any, limit: int = 100, *, history: bool = False
    ) -> list[dict[str, Any]]:
        """Threads whose newest checkpoint has this metadata; with `history`, every checkpoint that has it."""
        query = Query(self._log.space.name, where=metadata_where(key, value), one_per_part=not history)
        found: list[dict[str, Any]] = []
        async for hit, view in self._hits(query, check_limit(limit)):
            live = self._log.live_state(hit.record, view)
            newest = live and view.head and live[1].position == view.head.position
            if live and (newest or (history and live[1].listed)):
                found.append({**_info(*live), "thread_id": hit.record.key.part[0]})
            if len(found) >= limit:
                break
        return found

    async def _hits(self, query: Query, limit: int) -> AsyncIterator[tuple[Hit, View]]:
        """Hits with a fresh view of their thread, page after page; the caller stops when it has enough."""
        await self._log.ready()
        views: dict[Part, View | CorruptRecordError] = {}
        offset, page = 0, max(2 * limit, 20)
        while limit:
            hits = await self.storage.search(replace(query, offset=offset, limit=page))
            parts = {hit.record.key.part for hit in hits} - views.keys()
            views |= await self._views(sorted(parts))
            for hit in hits:
                view = _readable(views[hit.record.key.part])
                if query.one_per_part and view.head and not self._log.live_state(hit.record, view):
                    hit = await self._live_hit(replace(query, prefix=hit.record.key.part), view) or hit
                yield hit, view
            if len(hits) < page:
                return
            offset += page

    async def _live_hit(self, query: Query, view: View) -> Hit | None:
        """The newest hit in a thread that is not removed, where a removed one whose content is still there hides it."""
        newest: Hit | None = None
        offset = 0
        while hits := await self.storage.search(replace(query, one_per_part=False, offset=offset, limit=_PAGE)):
            live = [hit for hit in hits if self._log.live_state(hit.record, view)]
            newest = max([newest, *live] if newest else live, key=lambda hit: hit.record.key.sort, default=None)
            offset += _PAGE
        return newest

    async def _views(self, parts: list[Part]) -> dict[Part, View | CorruptRecordError]:
        """What several threads end in, in one round trip; a damaged one does not stand in the way of the others."""
        tails = await self.storage.scan([self._log.back(part, limit=1) for part in parts])
        return {part: self._seen_or_damaged(part, tail) for part, tail in zip(parts, tails, strict=True)}

    def _seen_or_damaged(self, part: Part, tail: list[Record]) -> View | CorruptRecordError:
        try:
            return self._log.seen(part, tail[0] if tail else None)
        except CorruptRecordError as error:
            return error

    async def get_metadata(self, thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any] | None:
        """checkpoint_id, created_at, updated_at and metadata of a checkpoint; None if there is none."""
        part = _part(thread_id)
        if checkpoint_id is not None:
            found = await self._log.find(part, check_name(checkpoint_id, "checkpoint_id"))
            return _info(*found) if found else None
        heads = await self._heads({part: await self._log.fresh(part)})
        return _info(*heads[part]) if heads else None

    async def _heads(self, views: Mapping[Part, View]) -> dict[Part, tuple[Record, Header]]:
        """The newest live records of several threads, in one round trip."""
        alive = [(part, view.head.position) for part, view in views.items() if view.head]
        records = await self.storage.get([self._log.key(part, log_sort(position)) for part, position in alive])
        live = (self._log.live_state(record, views[part]) for (part, _), record in zip(alive, records, strict=True))
        heads = {part: head for (part, _), head in zip(alive, live, strict=True) if head}
        missed = [part for part, _ in alive if part not in heads]
        again = {part: _readable(view) for part, view in (await self._views(missed)).items()}  # removed as we looked
        changed = {part: view for part, view in again.items() if view.position != views[part].position}
        return {**heads, **await self._heads(changed)} if changed else heads

    async def vacuum(self, older_than_days: float = 30) -> int:
        """Remove checkpoints older than that; an idle thread goes whole, an unfinished one stays.

        Also finishes what a killed delete left and removes what has expired. Returns how many checkpoints went.
        """
        if (
            isinstance(older_than_days, bool)
            or not isinstance(older_than_days, int | float)
            or not older_than_days >= 0
        ):
            raise InputError(f"older_than_days must be a number of at least 0, not {older_than_days!r}")
        cutoff = self.storage.clock() - older_than_days * 86_400
        removed = 0
        damaged: list[CorruptRecordError | InputError] = []
        async for part, _ in self._threads(alive=False):
            try:
                removed += await self._vacuum_thread(part, cutoff)
            except (CorruptRecordError, InputError) as error:  # damaged, or too large to re-base: reported at the end
                damaged.append(error)
        await self.storage.purge()
        if damaged:
            raise damaged[0]
        return removed

    async def _vacuum_thread(self, part: Part, cutoff: float) -> int:
        view = await sweep(self._log, part)
        if view.head is None:
            return 0
        old = _Old()
        before: int | None = None
        while True:
            [records] = await self.storage.scan([self._log.back(part, before, limit=_PAGE)])
            for record in records:
                live = self._log.live_state(record, view)
                if live:
                    old.note(live[1], max(live[1].at, record.created_at) < cutoff)
            if len(records) < _PAGE:
                break
            before = int(records[-1].key.sort[1:])
        phase = view.tail.turn.get("phase", "done") if view.tail and view.tail.turn else "done"
        if not old.positions or (old.all and phase != "done"):
            return 0
        # An idle thread goes whole, but only as far as it was seen to be idle.
        target = Ranges([(1, view.position)]) if old.all else Ranges.of(old.positions)
        return old.listed if await remove(self._log, part, target) else 0

    async def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with its history to a new id; False if there is no such thread."""
        return await copy_log(self._log, _part(source_thread_id), _part(dest_thread_id))

    async def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """Thread ids that match a pattern in which `*` stands for anything."""
        if not isinstance(pattern, str):
            raise InputError(f"a pattern of thread ids must be a string, not {type(pattern).__name__}")
        found: list[str] = []
        if check_limit(limit):
            async for part, _ in self._threads(pattern=pattern):
                found.append(part[0])
                if len(found) == limit:
                    break
        return found

    async def list_with_metadata(self, limit: int = 100) -> list[dict[str, Any]]:
        """Each thread's newest checkpoint with its metadata, without loading a state."""
        views: dict[Part, View] = {}
        if check_limit(limit):
            async for part, view in self._threads():
                views[part] = _readable(view)
                if len(views) == limit:
                    break
        heads = await self._heads(views)
        return [{**_info(*head), "thread_id": part[0]} for part, head in heads.items()]

    async def _threads(
        self, *, alive: bool = True, pattern: str = "*"
    ) -> AsyncIterator[tuple[Part, View | CorruptRecordError]]:
        """All threads, or those that have a checkpoint (or had, and are damaged), with what their logs end in; two round trips a page."""
        await self._log.ready()
        cursor: str | None = None
        while True:
            page = await self.storage.parts(self._log.space.name, cursor=cursor, limit=_PAGE)
            parts = [part for part in page.parts if _matches(pattern, part[0])]
            for part, view in (await self._views(parts)).items() if parts else ():
                if isinstance(view, CorruptRecordError) or view.head is not None or not alive:
                    yield part, view
            cursor = page.cursor
            if cursor is None:
                return

    async def load_turn(
        self, thread_id: str, checkpoint_id: str | None = None
    ) -> tuple[AgentState, Turn | None] | None:
        """The named state, or the newest one, and where its turn stood; no turn when it was saved outside of any."""
        part = _part(thread_id)
        if checkpoint_id is not None:
            found = await self._log.load_named(part, check_name(checkpoint_id, "checkpoint_id"))
            return (_state(found[1]), turn_from_json(found[0].turn)) if found else None
        view = await self._log.with_doc(part, await self._log.fresh(part))
        return (_state(view.doc), turn_from_json(view.tail.turn if view.tail else None)) if view.doc else None

    async def begin(self, thread_id: str, *, wait_seconds: float = 0.0) -> LogRun:
        """Hold the thread for a run; raises `ThreadBusyError` if another holds it for longer than `wait_seconds`."""
        return await begin(self._log, _part(thread_id), wait_seconds=wait_seconds, seen=self._seen)


@dataclass(slots=True)
class _Old:
    """What a vacuum of one thread would remove."""

    positions: list[int] = field(default_factory=list)
    listed: int = 0
    all: bool = True

    def note(self, header: Header, old: bool) -> None:
        if old:
            self.positions.append(header.position)
            self.listed += header.listed
        else:
            self.all = False


def _matches(pattern: str, name: str) -> bool:
    """Whether `name` is `pattern` with anything for each `*`, in one pass however many there are."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    at = len(first)
    for piece in others[:-1]:
        at = name.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    last = others[-1]
    return name.startswith(first) and name.endswith(last) and len(name) - len(last) >= at


def _part(thread_id: str) -> Part:
    return (check_name(thread_id, "thread_id"),)


def _doc(state: AgentState) -> Doc:
    if not isinstance(state, AgentState):
        raise InputError(f"save() takes an AgentState, not {type(state).__name__}")
    return Doc(*codec.split(state))


def _state(doc: Doc) -> AgentState:
    return codec.join(doc.small, doc.long)


def _is_repeated(view: View, header: Header, doc: Doc, entry: Entry) -> bool:
    """Whether a save says again what the newest state is."""
    newest = view.head is not None and view.head.position == header.position
    return newest and view.doc is not None and _same(view.doc, doc) and _same_json(header.metadata, entry.metadata)


def _readable(view: View | CorruptRecordError) -> View:
    if isinstance(view, CorruptRecordError):
        raise view
    return view


def _same(one: Doc, other: Doc) -> bool:
    """Whether two states are the same; one that was read has no long fields that are empty."""
    long = ({name: items for name, items in doc.long.items() if items} for doc in (one, other))
    return _same_json(one.small, other.small) and next(long) == next(long)


def _same_json(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return encode_json(one) == encode_json(other)


def _checked(metadata: dict[str, Any] | None) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, dict):
        raise InputError(f"metadata must be a dict, not {type(metadata).__name__}")
    return metadata or {}


def _info(record: Record, header: Header) -> dict[str, Any]:
    return {
        "checkpoint_id": header.checkpoint_id,
        "metadata": dict(header.metadata),
        "created_at": header.at,
        "updated_at": max(header.at, record.created_at),
    }
