"""One readable JSON file per record: `base_dir/<space>/<names of the part>/<sort>.json`.

The names of a part are encoded and joined by `+`, which no encoded name holds. Every change of a part is made under its
`flock`, held only while names change; contents are written and synced before, under temporary names:

- A file gets its name by `link` (new) or `rename` (replaced) when it is complete and on the disk, so no half is seen.
- A writer decides on what it read without the lock, then takes the lock and looks again: only if the same bytes are
  still there does its file get its name, else it begins anew. Each content holds a random `rev`, so same bytes are the
  same write. A creation needs no second look: `link` refuses a name that is taken. A resent creation therefore meets
  either its own token, or another's record and conflicts, or nothing, if somebody deleted it in between.
- Who deletes the last record also removes the directory. `rmdir` refuses if a temporary file has come in; a writer
  whose directory vanished makes it again; a lock on a removed lock file is not taken for a lock (see `_durable`).
- Two `fsync` make an append: the content, then the directory. One more, of the space, when the directory is new.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from locus._ids import new_token
from locus.errors import CorruptRecordError, InputError, SetupError
from locus.storage import _durable, _fallback
from locus.storage._conditions import to_be_done
from locus.storage._durable import locked, publish, read_file, temporary, translated
from locus.storage._files import META, PartMeta, decode_directory, decode_records, encode_directory, encode_record
from locus.storage.base import (
    Capabilities,
    Check,
    Delete,
    Hit,
    Key,
    Op,
    PartPage,
    Put,
    Query,
    Record,
    Space,
    Span,
)
from locus.storage.blocking import BlockingStorage

__all__ = ["FileStorage"]

FORMAT = 1
_FORMAT_FILE = "locus.json"
_BATCH = 256
_REMEMBERED = 10_000

_CAPABILITIES = Capabilities(
    atomic="record", durable=True, shared=True, chain=256, client_side=frozenset({"text", "vector", "filters"})
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is at a key: the bytes, the record if it is alive, and whether its part has expired whole."""

    raw: bytes | None
    record: Record | None
    part_expired: bool

    @property
    def rev(self) -> str | None:
        return self.record.rev if self.record else None

    @property
    def token(self) -> str | None:
        return self.record.token if self.record else None


class FileStorage(BlockingStorage):
    """Records as files in a directory that many processes of one machine may use together."""

    def __init__(self, base_dir: str | os.PathLike[str], *, pretty: bool = True) -> None:
        super().__init__()
        self.base_dir = Path(os.path.abspath(base_dir))  # the same place when the process changes its directory
        self._pretty = pretty
        self._known: dict[str, int] = {}  # directories whose own name is known to be on the disk, with their inode

    @classmethod
    def from_url(cls, url: str, *, pretty: bool = True) -> FileStorage:
        """`file:///absolute/dir` or `file://relative/dir`."""
        path = unquote(url.partition("://")[2])
        if not path.strip("/"):
            raise InputError(f"{url!r} names no directory; write file:///absolute/dir or file://relative/dir")
        return cls(path, pretty=pretty)

    @property
    def capabilities(self) -> Capabilities:
        """What this storage promises."""
        return _CAPABILITIES

    def part_path(self, space: str, part: tuple[str, ...]) -> Path:
        """The directory that holds the records of a part, whether or not there are any."""
        return Path(self._directory(space, part))

    async def disk_usage(self, part: tuple[str, ...] | None = None) -> int:
        """Bytes of all files, or of those of one part in every space."""
        return await self.offload(self.do_disk_usage, part)

    def do_disk_usage(self, part: tuple[str, ...] | None = None) -> int:
        """What `disk_usage` awaits."""
        with translated(self.base_dir):
            if part is None:
                roots: Iterable[Path] = [self.base_dir]
            else:
                roots = [self.part_path(space, part) for space in _directories(str(self.base_dir))]
            return sum(
                _size(os.path.join(at, file)) for root in roots for at, _, files in os.walk(root) for file in files
            )

    def do_setup(self, spaces: Sequence[Space]) -> None:
        with translated(self.base_dir):
            _durable.make_directories(str(self.base_dir))
            self._check_format(create=True)
            for space in spaces:
                _durable.make_directories(f"{self.base_dir}/{space.name}")
            _durable.sync_directory(str(self.base_dir))  # another process may have made them a moment ago
            _durable.sweep(str(self.base_dir))

    def do_verify(self) -> list[str]:
        with translated(self.base_dir):
            if not self.base_dir.exists():
                return [f"{self.base_dir} does not exist; setup() makes it"]
            wrong = []
            try:
                self._check_format(create=False)
            except SetupError as error:
                wrong.append(str(error))
            if not os.access(self.base_dir, os.R_OK | os.W_OK | os.X_OK):
                wrong.append(f"{self.base_dir} cannot be read and written by this user")
            return wrong

    def do_get(self, keys: list[Key]) -> list[Record | None]:
        with translated(self.base_dir):
            now = self.clock()
            return [self._find(key, now).record for key in keys]

    def do_scan(self, spans: list[Span]) -> list[list[Record]]:
        with translated(self.base_dir):
            return [self._scan_one(span) for span in spans]

    def do_parts(self, space: str, prefix: tuple[str, ...], cursor: str | None, limit: int) -> PartPage:
        with translated(self.base_dir):
            page: list[tuple[str, ...]] = []
            last = cursor
            for directory in sorted(_directories(f"{self.base_dir}/{space}")):
                if cursor is not None and directory <= cursor:
                    continue
                names = self._names_if_alive(space, directory, prefix)
                if names is None:
                    continue
                if len(page) == limit:
                    return PartPage(page, last)
                page.append(names)
                last = directory
            return PartPage(page, None)

    def do_commit(self, ops: list[Op]) -> list[str | None]:
        with translated(self.base_dir):
            return [self._do(op, index) for index, op in enumerate(ops)]

    def do_search(self, query: Query) -> list[Hit]:
        with translated(self.base_dir):
            return _fallback.search(self._candidates(query), query, self._spaces[query.space])

    def do_purge(self) -> int:
        with translated(self.base_dir):
            gone = 0
            for space in _directories(str(self.base_dir)):
                for name in _directories(f"{self.base_dir}/{space}"):
                    directory = f"{self.base_dir}/{space}/{name}"
                    _durable.sweep(directory)
                    gone += self._purge_part(space, directory)
            return gone

    def do_close(self) -> None:
        """No file stays open between calls."""

    def _directory(self, space: str, part: tuple[str, ...]) -> str:
        return f"{self.base_dir}/{space}/{encode_directory(part)}"

    def _path(self, key: Key) -> str:
        return f"{self._directory(key.space, key.part)}/{key.sort}.json"

    def _find(self, key: Key, now: float) -> _Found:
        path = self._path(key)
        raw = read_file(path)
        if raw is None:
            return _Found(None, None, False)
        log = self._spaces[key.space].log
        meta = _meta(os.path.dirname(path)) if log else PartMeta()
        record = decode_records([(key, path, raw)], meta, log=log)[0]
        return _Found(raw, record if _alive(record, now) else None, meta.expired(now))

    def _scan_one(self, span: Span) -> list[Record]:
        directory = self._directory(span.space, span.part)
        sorts = [
            sort
            for sort in _sorts(directory)
            if (span.start is None or sort >= span.start) and (span.end is None or sort < span.end)
        ]
        sorts.sort(reverse=span.reverse)
        found: list[Record] = []
        for batch in _batches(sorts, span.limit):
            wanted = None if span.limit is None else span.limit - len(found)
            if wanted == 0:
                break
            found += self._read_live(span, directory, batch)[:wanted]
        if not span.bodies:
            for record in found:
                record.body = {}
        return found

    def _read_live(self, span: Span, directory: str, sorts: list[str]) -> list[Record]:
        log = self._spaces[span.space].log
        meta = _meta(directory) if log else PartMeta()
        read = [(sort, f"{directory}/{sort}.json") for sort in sorts]
        files = [
            (Key(span.space, span.part, sort), path, raw)
            for sort, path in read
            if (raw := read_file(path)) is not None  # deleted since it was listed
        ]
        now = self.clock()
        return [record for record in decode_records(files, meta, log=log) if _alive(record, now)]

    def _candidates(self, query: Query) -> Iterator[Record]:
        for name in _directories(f"{self.base_dir}/{query.space}"):
            names = self._names_if_alive(query.space, name, query.prefix)
            if names is not None:
                yield from self._scan_one(Span(query.space, names))

    def _names_if_alive(self, space: str, name: str, prefix: tuple[str, ...]) -> tuple[str, ...] | None:
        """The part in a directory, if it begins with `prefix` and has a record that is alive."""
        directory = f"{self.base_dir}/{space}/{name}"
        known = decode_directory(name)
        if known is not None and known[: len(prefix)] != prefix:
            return None
        meta = _meta(directory)
        names = known or meta.names or _names_in_records(directory)
        if names is None or names[: len(prefix)] != prefix or meta.expired(self.clock()):
            return None
        if meta.expiring:
            return names if self._scan_one(Span(space, names, limit=1)) else None
        return names if next(_records_in(directory), None) else None

    def _do(self, op: Op, index: int) -> str | None:
        if isinstance(op, Put):
            return self._put(op, index)
        if isinstance(op, Delete):
            self._delete(op, index)
        else:
            self._check(op, index)
        return None

    def _check(self, op: Check, index: int) -> None:
        found = self._find(op.key, self.clock())
        to_be_done(op, index, found.rev, found.token)

    def _put(self, op: Put, index: int) -> str:
        directory = self._directory(op.key.space, op.key.part)
        while True:
            now = self.clock()
            found = self._find(op.key, now)
            if not to_be_done(op, index, found.rev, found.token):
                self._sync(directory)  # the earlier send may have been stopped before this
                return found.rev or ""
            created_at = found.record.created_at if found.record else now
            record = _new_record(op, created_at, now)
            if directory not in self._known:
                _make_part(directory)
            if self._publish(op, found, encode_record(record, op.body_json, pretty=self._pretty), now):
                self._sync(directory)
                return record.rev

    def _publish(self, op: Put, found: _Found, content: bytes, now: float) -> bool:
        """Put the new content where `found` was; False if that has changed meanwhile."""
        path = self._path(op.key)
        directory = os.path.dirname(path)
        try:
            with temporary(directory, content) as written, locked(directory):
                if read_file(path) != found.raw:
                    return False
                cleared = self._ready_part(op, directory, now)
                return publish(written, path, replace=found.raw is not None and not cleared)
        except FileNotFoundError:  # the last record was deleted meanwhile, and the directory with it
            self._known.pop(directory, None)
            return False

    def _ready_part(self, op: Put, directory: str, now: float) -> bool:
        """Note what the new record means for its part; True if the part was expired and has been emptied.

        Under the lock. What is expired goes before the part is alive again, or it would come back.
        """
        meta = _meta(directory)
        log = self._spaces[op.key.space].log
        cleared = log and meta.expired(now)
        if cleared:
            _remove_records(directory)
            _durable.sync_directory(directory)
        if log:
            wanted = replace(meta, expires_at=op.expires_at)
        else:
            wanted = replace(meta, expiring=meta.expiring or op.expires_at is not None)
        if decode_directory(os.path.basename(directory)) is None:
            wanted = replace(wanted, names=op.key.part)
        if wanted != meta:
            with temporary(directory, wanted.encode()) as written:
                publish(written, f"{directory}/{META}", replace=True)
        return cleared

    def _delete(self, op: Delete, index: int) -> None:
        directory = self._directory(op.key.space, op.key.part)
        try:
            with locked(directory):
                found = self._find(op.key, self.clock())
                if to_be_done(op, index, found.rev, found.token):
                    os.unlink(self._path(op.key))
                    self._discard_if_empty(directory)
        except FileNotFoundError:
            pass  # absent, as was asked
        self._sync(directory)

    def _purge_part(self, space: str, directory: str) -> int:
        meta = _meta(directory)
        now = self.clock()
        if not (meta.expiring or meta.expired(now)):
            return 0
        gone = 0
        try:
            with locked(directory):
                if _meta(directory).expired(now):
                    gone = _remove_records(directory)
                elif meta.expiring:
                    gone = _remove_expired(directory, now)
                self._discard_if_empty(directory)
        except FileNotFoundError:
            return gone
        self._sync(directory)
        return gone

    def _discard_if_empty(self, directory: str) -> None:
        with os.scandir(directory) as entries:
            if any(entry.name not in ("+lock", META) for entry in entries):
                return
        if os.path.exists(f"{directory}/{META}"):
            os.unlink(f"{directory}/{META}")
        _durable.discard(directory)

    def _sync(self, directory: str) -> None:
        """Make what was done in a directory durable, and that directory's own name if it is new to us."""
        parent = os.path.dirname(directory)
        try:
            inode = _durable.sync_directory(directory)
        except FileNotFoundError:
            self._known.pop(directory, None)
            inode = -1
        if inode == -1 or self._known.get(directory) != inode:
            with contextlib.suppress(FileNotFoundError):
                _durable.sync_directory(parent)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            if inode != -1:
                self._known[directory] = inode

    def _check_format(self, *, create: bool) -> None:
        path = f"{self.base_dir}/{_FORMAT_FILE}"
        raw = read_file(path)
        if raw is None and create:
            with temporary(str(self.base_dir), json.dumps({"format": FORMAT}).encode()) as written:
                publish(written, path, replace=False)
            _durable.sync_directory(str(self.base_dir))
            raw = read_file(path)
        if raw is None:
            raise SetupError(f"{path} is missing; setup() makes it")
        try:
            found = int(json.loads(raw)["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(f"{path} does not say which format the files have; is this Locus's directory?") from error
        if found > FORMAT:
            raise SetupError(f"{self.base_dir} has format {found}, and this version knows {FORMAT}; upgrade locus")


def _new_record(op: Put, created_at: float, now: float) -> Record:
    return Record(
        op.key,
        {},
        new_token(),
        op.token,
        created_at,
        now,
        op.expires_at,
        op.tags,
        op.text,
        op.vector,
        op.blob,
    )


def _alive(record: Record, now: float) -> bool:
    return record.expires_at is None or record.expires_at > now


def _meta(directory: str) -> PartMeta:
    path = f"{directory}/{META}"
    raw = read_file(path)
    return PartMeta() if raw is None else PartMeta.decode(raw, path)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _sorts(directory: str) -> list[str]:
    """The sorts of the records in a directory, listed under the lock so that no later one is seen without an earlier."""
    try:
        with locked(directory, shared=True):
            return list(_records_in(directory))
    except FileNotFoundError:  # no lock: a copy made without it, or nothing at all
        return list(_records_in(directory))


def _records_in(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name[0] != "+" and entry.name.endswith(".json"):
                    yield entry.name[: -len(".json")]
    except FileNotFoundError:
        return


def _batches(sorts: list[str], limit: int | None) -> Iterator[list[str]]:
    size = max(1, min(_BATCH, len(sorts) if limit is None else limit))
    for first in range(0, len(sorts), size):
        yield sorts[first : first + size]


def _remove_records(directory: str) -> int:
    sorts = list(_records_in(directory))
    for sort in sorts:
        os.unlink(f"{directory}/{sort}.json")
    return len(sorts)


def _remove_expired(directory: str, now: float) -> int:
    gone = 0
    for sort in list(_records_in(directory)):
        path = f"{directory}/{sort}.json"
        try:
            expires_at = json.loads(read_file(path) or b"{}").get("expires_at")
        except (ValueError, AttributeError) as error:
            raise CorruptRecordError(f"{path} is damaged: {error}; restore it from a copy or remove it") from error
        if expires_at is not None and expires_at <= now:
            os.unlink(path)
            gone += 1
    return gone


def _names_in_records(directory: str) -> tuple[str, ...] | None:
    for sort in _records_in(directory):
        path = f"{directory}/{sort}.json"
        try:
            return tuple(json.loads(read_file(path) or b"")["part"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptRecordError(f"{path} is damaged: {error!r}; restore it from a copy or remove it") from error
    return None


def _make_part(directory: str) -> None:
    """Make a part's directory; `_sync` makes its name durable."""
    try:
        os.mkdir(directory)
    except FileExistsError:
        return
    except FileNotFoundError:  # somebody removed the space behind our back
        _durable.make_directories(directory)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
