"""Connections to one SQLite file: how they are opened, lent to readers, and what their errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from urllib.parse import quote

from locus.errors import CorruptRecordError, InputError, LocusError, SetupError, StorageError, UnavailableError

__all__ = ["Database", "Readers", "has_fts5", "is_broken"]

PAGE_BYTES = 8_192  # rows of about a kilobyte leave half as much of a page empty as with the usual 4,096
CHECKPOINT_PAGES = 96  # keeps the log below a megabyte
WAL_BYTES = (
    4 << 20
)  # only after a large commit: a log that is cut each time must grow each time, which makes a sync dear
READER_CACHE_KB = 8_192  # a part of some thousand records is read again without the disk
_KEPT_READERS = 8

# A connection that met one of these is not used again. An I/O error is not among them: rolled back, the connection
# writes over what may not have reached the disk, where a new one would take it for committed and build on it.
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN}


@cache
def has_fts5() -> bool:
    """Whether this build of SQLite can search text."""
    with closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return found is not None


def is_broken(error: BaseException) -> bool:
    """Whether a connection should be given up after this error."""
    return isinstance(error, sqlite3.Error) and _code(error) in _BROKEN


class _Connection(sqlite3.Connection):
    """A storage that is let go without `close` is no leak to warn of: its connections close with it."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):
            self.close()


class Database:
    """A file, and how to open it."""

    def __init__(self, path: str, *, durable: bool, busy_timeout: float) -> None:
        self.path = path
        self.synchronous = "FULL" if durable else "NORMAL"
        self.busy_timeout = busy_timeout

    def open_writer(self) -> sqlite3.Connection:
        """A connection that may write; makes the file and turns its write-ahead log on."""
        connection = self._connect(self.path)
        try:
            self._use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def open_reader(self) -> sqlite3.Connection:
        """A connection that only reads."""
        connection = self._connect(self.path)
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KB}")
        except BaseException:
            connection.close()
            raise
        return connection

    def open_untouched(self) -> sqlite3.Connection:
        """A connection that neither makes nor changes any file."""
        # Without a log nobody is writing, and only `immutable` keeps SQLite from making an empty one.
        options = "mode=ro" if os.path.exists(f"{self.path}-wal") else "mode=ro&immutable=1"
        return self._connect(f"file:{quote(self.path)}?{options}", uri=True)

    def translate(self, error: sqlite3.Error) -> LocusError:
        """What an error of the driver means, by its code."""
        code = _code(error)
        kind, advice = _MEANINGS.get(code, (StorageError, "see the cause"))
        if code == sqlite3.SQLITE_BUSY:
            advice = (
                f"another process held it locked for over {self.busy_timeout:g} s; try again, or raise busy_timeout"
            )
        elif code == sqlite3.SQLITE_CANTOPEN and self._could_be_opened():
            kind, advice = UnavailableError, "it is there but could not be opened; are too many files open?"
        return kind(f"{self.path}: {advice} (SQLite: {error})")

    def _connect(self, target: str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(
            target,
            uri=uri,
            timeout=self.busy_timeout,
            isolation_level=None,
            factory=_Connection,
            check_same_thread=False,  # a connection is used by one thread at a time, not always the same
            cached_statements=256,
        )

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait for a lock here when several processes turn the log on at once, so we do.
        deadline = time.monotonic() + self.busy_timeout
        mode = None
        while mode is None:
            try:
                if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
                    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            raise SetupError(f"{self.path}: no write-ahead log can be kept there; use a local, not a network, disk")

    def _could_be_opened(self) -> bool:
        folder = os.path.dirname(self.path)
        return os.access(folder, os.W_OK | os.X_OK) and not os.path.isdir(self.path)


class Readers:
    """Connections lent to one thread at a time."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._state = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._busy = 0
        self._epoch = 0
        self._paused = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """A connection for the time of the block."""
        with self._state:
            while self._paused:
                self._state.wait()
            self._busy += 1
            epoch = self._epoch
            connection = self._idle.pop() if self._idle else None
        sound = False
        try:
            if connection is None:
                connection = self._connect()
            yield connection
            sound = not connection.in_transaction
        except BaseException as error:
            sound = connection is not None and not is_broken(error) and not connection.in_transaction
            raise
        finally:
            self._take_back(connection if sound else None, None if sound else connection, epoch)

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with self._state:
            self._epoch += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def pause(self, seconds: float) -> bool:
        """Lend no more and close everything; False if something was still lent after `seconds`."""
        with self._state:
            self._paused = True
            quiet = self._state.wait_for(lambda: not self._busy, seconds)
        self.close()
        return quiet

    def resume(self) -> None:
        """Lend again."""
        with self._state:
            self._paused = False
            self._state.notify_all()

    def _take_back(self, sound: sqlite3.Connection | None, spoilt: sqlite3.Connection | None, epoch: int) -> None:
        with self._state:
            if sound is not None and epoch == self._epoch and len(self._idle) < _KEPT_READERS and not self._paused:
                self._idle.append(sound)
                sound = None
        for connection in (sound, spoilt):
            if connection is not None:
                connection.close()
        with self._state:
            self._busy -= 1
            self._state.notify_all()


def _code(error: sqlite3.Error) -> int | None:
    """The primary result code; None for a misuse that never reached SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_MEANINGS: dict[int | None, tuple[type[LocusError], str]] = {
    None: (UnavailableError, "the connection was closed meanwhile; try again"),
    sqlite3.SQLITE_ERROR: (SetupError, "its tables are not as Locus made them; a new storage object makes them again"),
    sqlite3.SQLITE_SCHEMA: (SetupError, "its tables were changed meanwhile; open it anew"),
    sqlite3.SQLITE_BUSY: (UnavailableError, "it is locked; try again"),
    sqlite3.SQLITE_LOCKED: (UnavailableError, "a table is locked; try again"),
    sqlite3.SQLITE_FULL: (UnavailableError, "the disk is full; nothing was written, free some space and try again"),
    sqlite3.SQLITE_IOERR: (UnavailableError, "reading or writing the disk failed; check it and try again"),
    sqlite3.SQLITE_NOMEM: (UnavailableError, "memory ran out; try again"),
    sqlite3.SQLITE_INTERRUPT: (UnavailableError, "the statement was interrupted; try again"),
    sqlite3.SQLITE_PROTOCOL: (UnavailableError, "the locks of the write-ahead log are contended; try again"),
    sqlite3.SQLITE_CANTOPEN: (
        SetupError,
        "it cannot be opened; is it a directory, or its directory missing or closed?",
    ),
    sqlite3.SQLITE_PERM: (SetupError, "access is denied; check the permissions of the file"),
    sqlite3.SQLITE_READONLY: (SetupError, "it may not be written; check the permissions of file and directory"),
    sqlite3.SQLITE_AUTH: (SetupError, "access is denied; check the permissions of the file"),
    sqlite3.SQLITE_NOTADB: (SetupError, "it is not a SQLite database; give the path of one, or of a new file"),
    sqlite3.SQLITE_CORRUPT: (CorruptRecordError, "the file is damaged; restore it, or try `.recover` of sqlite3"),
    sqlite3.SQLITE_CONSTRAINT: (CorruptRecordError, "what is stored contradicts itself; run `PRAGMA integrity_check`"),
    sqlite3.SQLITE_TOOBIG: (InputError, "a value is larger than SQLite takes"),
}
