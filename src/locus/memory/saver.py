"""The versioned saver: explicit checkpoint ids, parents, namespaces and pending writes, on any storage.

The method surface is the one that graph runtimes use. Storage is the same log as the checkpointer's: a checkpoint that
repeats the lists of the one before it, longer by a few items, is stored as those items.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from locus._ids import check_name, encode_name
from locus.errors import ConfigError, ConflictError, CorruptRecordError, InputError
from locus.memory.log.doc import Doc, Part
from locus.memory.log.log import Log, check_limit
from locus.memory.log.record import Entry, Header
from locus.memory.log.removal import remove, sweep
from locus.memory.log.tags import metadata_tags
from locus.storage._json import encode_json
from locus.storage.base import Delete, Key, Put, Record, Space, Span, Storage

__all__ = ["DEFAULT_SAVER_TABLE", "CheckpointSaver"]

DEFAULT_SAVER_TABLE = "locus_saver"
_DEPTH = 4
_PAGE = 100


class CheckpointSaver:
    """Versioned checkpoints with pending writes.

    `put` under an id that exists is a retry if the content is the same, and a `ConflictError` if it is not.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        table_name: str = DEFAULT_SAVER_TABLE,
        ttl_seconds: float | None = None,
        owns_storage: bool = True,
    ) -> None:
        if ttl_seconds is not None and not ttl_seconds > 0:
            raise ConfigError(f"ttl_seconds must be more than 0, not {ttl_seconds!r}; leave it out to keep threads")
        self.storage = storage
        self._owns_storage = owns_storage
        self._log = Log(storage, Space(table_name, log=True), _JsonCodec(), ttl_seconds=ttl_seconds)

    @property
    def blocking(self) -> bool:
        """Whether sync callers may drive this saver inline."""
        return self.storage.blocking

    async def put(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        checkpoint_data: dict[str, Any],
        checkpoint_ns: str = "default",
        parent_checkpoint_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Persist a checkpoint as the newest of its thread and namespace."""
        part = _part(thread_id, checkpoint_ns)
        check_name(checkpoint_id, "checkpoint_id")
        if parent_checkpoint_id is not None:
            check_name(parent_checkpoint_id, "parent_checkpoint_id")
        data = _json(checkpoint_data, "checkpoint_data")
        metadata = _json({} if metadata is None else metadata, "metadata")
        stored = {"m": metadata, "parent": parent_checkpoint_id}
        entry = Entry(checkpoint_id, stored, tags=metadata_tags(metadata), parent_id=parent_checkpoint_id)
        while not await self._put(part, checkpoint_id, data, entry):
            pass  # somebody wrote first, perhaps under the same id: look again

    async def _put(self, part: Part, checkpoint_id: str, data: dict[str, Any], entry: Entry) -> bool:
        """Append a checkpoint, or find that it is there; False if the log went on meanwhile."""
        view = await self._log.to_write_from(part)
        found = await self._log.find(part, checkpoint_id, view)
        doc = await self._log.load_state(part, *found) if found else None
        if found and doc:
            _check_retry(part, _shape(found[1], doc), data, entry)
            return True
        try:
            await self._log.append_after(part, view, _split(data), entry)
        except ConflictError:
            return False
        return True

    async def get(
        self, *, thread_id: str, checkpoint_id: str | None = None, checkpoint_ns: str = "default"
    ) -> dict[str, Any] | None:
        """The named checkpoint, or the newest; None if there is none."""
        part = _part(thread_id, checkpoint_ns)
        if checkpoint_id is not None:
            found = await self._log.load_named(part, check_name(checkpoint_id, "checkpoint_id"))
            return _shape(*found) if found else None
        newest = await self.list_checkpoints(thread_id=thread_id, checkpoint_ns=checkpoint_ns, limit=1)
        return newest[0] if newest else None

    async def list_checkpoints(
        self, *, thread_id: str, checkpoint_ns: str = "default", limit: int = 10, before: str | None = None
    ) -> list[dict[str, Any]]:
        """Checkpoints newest first; with `before`, only those older than that one."""
        part = _part(thread_id, checkpoint_ns)
        view = await self._log.fresh(part)
        position: int | None = None
        if before is not None:
            bound = await self._log.find(part, check_name(before, "before"))
            if bound is None:
                return []
            position = bound[1].position
        found = (await self._log.states(part, view, check_limit(limit), before=position))[::-1]
        docs = await self._log.load_states(part, found)
        return [_shape(header, doc) for (_, header), doc in zip(found, docs, strict=True) if doc][::-1]

    async def put_writes(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        checkpoint_ns: str = "default",
    ) -> None:
        """Persist the pending writes of a task at a checkpoint, in place of those it had there."""
        await self._log.ready()
        body = {
            "v": 1,
            "kind": "writes",
            "checkpoint": check_name(checkpoint_id, "checkpoint_id"),
            "task": check_name(task_id, "task_id"),
            "writes": [[check_name(channel, "a channel"), value] for channel, value in writes],
        }
        key = self._writes_key(_part(thread_id, checkpoint_ns), checkpoint_id, task_id)
        await self.storage.commit([Put(key, body, expires_at=self._log.expiry())])

    async def get_writes(
        self,
        *,
        thread_id: str,
        checkpoint_id: str,
        checkpoint_ns: str = "default",
        task_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """Pending writes at a checkpoint, of one task or of all, ordered by task and index."""
        await self._log.ready()
        part = _part(thread_id, checkpoint_ns)
        if task_id is not None:
            [record] = await self.storage.get([self._writes_key(part, checkpoint_id, check_name(task_id, "task_id"))])
            records = [record] if record else []
        else:
            start = f"w.{encode_name(check_name(checkpoint_id, 'checkpoint_id'))}."
            [records] = await self.storage.scan([Span(self._log.space.name, part, start, f"{start}~~")])
        rows = [row for record in records for row in _writes(record, checkpoint_id)]
        return sorted(rows, key=lambda row: (row["task_id"], row["idx"]))

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint and pending write of a thread, in all namespaces; False if there was none."""
        await self._log.ready()
        found = False
        async for part in self._namespaces(check_name(thread_id, "thread_id")):
            found |= await remove(self._log, part, None)
            [writes] = await self.storage.scan([Span(self._log.space.name, part, "w", "x", bodies=False)])
            found |= bool(writes)
            await self.storage.commit([Delete(record.key) for record in writes])
        return found

    async def sweep(self) -> None:
        """Finish what a killed delete left, drop what stays of deleted threads after a day, remove what has expired."""
        await self._log.ready()
        async for part in self._namespaces():
            await sweep(self._log, part)
        await self.storage.purge()

    async def close(self) -> None:
        """Give back connections; the saver can be used again."""
        if self._owns_storage:
            await self.storage.close()

    async def _namespaces(self, *thread_id: str) -> AsyncIterator[Part]:
        """The namespaces of a thread, or of all."""
        cursor: str | None = None
        while True:
            page = await self.storage.parts(self._log.space.name, thread_id, cursor=cursor, limit=_PAGE)
            for part in page.parts:
                yield part
            cursor = page.cursor
            if cursor is None:
                return

    def _writes_key(self, part: Part, checkpoint_id: str, task_id: str) -> Key:
        sort = f"w.{encode_name(check_name(checkpoint_id, 'checkpoint_id'))}.{encode_name(task_id)}"
        return self._log.key(part, sort)


class _JsonCodec:
    """Items are kept as JSON text: comparing two is comparing strings, and nobody can change one in place."""

    def dump_items(self, field: str, items: Sequence[Any]) -> list[Any]:
        return [json.loads(item) for item in items]

    def load_items(self, field: str, items: list[Any]) -> Sequence[Any]:
        return [_text(item) for item in items]

    def text_of_all(self, long: Mapping[str, Sequence[Any]]) -> str:
        return "\n".join(text for items in long.values() for item in items for text in _strings(json.loads(item)))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _strings(value: Any) -> Iterator[str]:
    """Every string value within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _split(data: dict[str, Any]) -> Doc:
    """Lists within the first few levels are long fields, named by their path; the rest is small."""
    lists: dict[str, tuple[Any, ...]] = {}

    def without(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, list | tuple) and path:
            lists[_text(path)] = tuple(map(_text, value))
            return None
        if isinstance(value, dict) and len(path) < _DEPTH:
            return {name: without(inner, (*path, name)) for name, inner in value.items()}
        return value

    rest = without(data, ())
    return Doc({"rest": rest, "lists": list(lists)}, lists)


def _join(doc: Doc) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_text(doc.small["rest"]))
    for field in doc.small["lists"]:
        *above, name = json.loads(field)
        place = data
        for step in above:
            place = place[step]
        place[name] = [json.loads(item) for item in doc.long.get(field, ())]
    return data


def _json(value: dict[str, Any], what: str) -> dict[str, Any]:
    """The value as it will be read, or a refusal before anything is asked of the storage."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must be a dict, not {type(value).__name__}")
    return json.loads(encode_json(value))  # type: ignore[no-any-return]  # JSON


def _check_retry(part: Part, have: dict[str, Any], data: dict[str, Any], entry: Entry) -> None:
    had = {"m": have["metadata"], "parent": have["parent_checkpoint_id"]}
    if _canonical(have["checkpoint"], had) != _canonical(data, entry.metadata):
        raise ConflictError(
            f"checkpoint {have['checkpoint_id']!r} of thread {part[0]!r} exists with another content; "
            "a checkpoint is never rewritten: put the new one under a new id"
        )


def _canonical(*values: Any) -> str:  # Any: JSON
    """JSON in one order of its keys, in which 1 and true are two values."""
    return json.dumps(values, sort_keys=True)


def _joined(header: Header, doc: Doc) -> dict[str, Any]:
    try:
        return _join(doc)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(f"checkpoint {header.checkpoint_id!r} is damaged: {error!r}") from error


def _shape(header: Header, doc: Doc) -> dict[str, Any]:
    return {
        "checkpoint_id": header.checkpoint_id,
        "parent_checkpoint_id": header.metadata.get("parent"),
        "checkpoint": _joined(header, doc),
        "metadata": dict(header.metadata.get("m", {})),
        "created_at": header.at,
    }


def _writes(record: Record, checkpoint_id: str) -> Iterator[dict[str, Any]]:
    if record.body.get("checkpoint") == checkpoint_id:
        for at, (channel, value) in enumerate(record.body["writes"]):
            yield {"task_id": record.body["task"], "idx": at, "channel": channel, "value": value}


def _part(thread_id: str, checkpoint_ns: str) -> Part:
    if not isinstance(checkpoint_ns, str):
        raise InputError(f"checkpoint_ns must be a string, not {type(checkpoint_ns).__name__}")
    return (check_name(thread_id, "thread_id"), f"ns:{checkpoint_ns}")
