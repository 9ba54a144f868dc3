"""The writer of one SQLite file: callers who commit at the same time share one transaction, and one wait for the disk.

Requests wait in a queue. Whoever holds the lock takes them all, does each under a savepoint of its own and commits
once; nobody is answered before that. A sync caller takes the lock itself, so that it needs no other thread when it is
alone; requests of coroutines are taken by one background thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from locus.storage._sqlite_connection import Database, is_broken

__all__ = ["Writer"]

T = TypeVar("T")

_BATCH = 128
_IDLE_SECONDS = 5.0


class _Request(Generic[T]):
    """A caller's work, and what came of it."""

    __slots__ = ("done", "error", "notify", "tried", "value", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], notify: Callable[[], object] | None = None) -> None:
        self.work = work
        self.notify = notify
        self.value: T | None = None
        self.error: Exception | None = None
        self.tried = False
        self.done = False

    def finish(self) -> None:
        self.done = True
        if self.notify is not None:
            with contextlib.suppress(RuntimeError):  # the caller's loop has ended: nobody is waiting
                self.notify()

    def answer(self, database: Database) -> T:
        if isinstance(self.error, sqlite3.Error):
            raise database.translate(self.error) from self.error
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # set when there is no error


class Writer:
    """One writing connection and the queue before it. `after` is called after each batch, once all are answered."""

    def __init__(self, database: Database, after: Callable[[sqlite3.Connection], None]) -> None:
        self._database = database
        self._after = after
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._pending: deque[_Request[object]] = deque()
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a transaction, in this thread or another's batch, and return when it is committed."""
        request = _Request(work)
        self._pending.append(request)  # type: ignore[arg-type]  # only its own caller reads the value
        try:
            with self._lock:
                while not request.done:
                    self._commit_batch()
        except BaseException:
            with contextlib.suppress(ValueError):  # taken from the queue already
                self._pending.remove(request)  # type: ignore[arg-type]  # as above
            raise
        return request.answer(self._database)

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a transaction on the background thread, together with all that is waiting."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        request = _Request(work, lambda: loop.call_soon_threadsafe(_settle, woken))
        with self._guard:
            self._pending.append(request)  # type: ignore[arg-type]  # only its own caller reads the value
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="locus-sqlite-writer", daemon=True)
                self._thread.start()
        await woken
        return request.answer(self._database)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[sqlite3.Connection]:
        """The connection alone and outside a transaction, after all that was waiting."""
        with self._lock:
            self._commit_waiting()
            try:
                yield self._open()
            except BaseException as error:
                self._recover(error)
                if isinstance(error, sqlite3.Error):
                    raise self._database.translate(error) from error
                raise

    def close(self) -> None:
        """Finish what waits, end the thread, close the connection."""
        with self._guard:
            thread, self._stopping = self._thread, True
            self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._stopping = False
        with self._lock:
            self._commit_waiting()
            self._discard()

    def pause(self, seconds: float) -> bool:
        """Keep everybody out and close the connection; False if it was in use for all of `seconds`."""
        if not self._lock.acquire(timeout=seconds):
            return False
        self._discard()
        return True

    def resume(self) -> None:
        """Let callers in again after `pause` returned True."""
        self._lock.release()

    def abandoned(self) -> sqlite3.Connection | None:
        """The connection as it stands, for a process that must neither use nor close it."""
        return self._connection

    def _serve(self) -> None:
        ending = False
        while not ending:
            woken = self._wake.wait(_IDLE_SECONDS)
            with self._guard:
                ending = self._stopping or not (woken or self._wake.is_set())
                if ending:
                    self._thread = None
                self._wake.clear()
            with self._lock:
                self._commit_waiting()

    def _commit_waiting(self) -> None:
        while self._pending:
            self._commit_batch()

    def _commit_batch(self) -> None:
        batch = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            for request in batch:
                self._attempt(connection, request, alone=len(batch) == 1)
            if connection.in_transaction:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # whatever it was, it is told to every caller of the batch
            self._recover(error)
            for request in batch:
                request.error = error
        except BaseException as error:
            self._interrupted(batch, error)
            raise
        for request in batch:
            request.finish()
        if self._connection is not None:
            try:
                self._after(self._connection)
            except sqlite3.Error:
                return  # everybody is answered; what was not tidied is next time

    def _attempt(self, connection: sqlite3.Connection, request: _Request[object], *, alone: bool) -> None:
        if not alone:
            connection.execute("SAVEPOINT caller")
        try:
            request.value = request.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite gave up the whole transaction, so nobody's work stands
            request.error = error
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO caller")
        request.tried = True
        if not alone:
            connection.execute("RELEASE caller")

    def _interrupted(self, batch: list[_Request[object]], error: BaseException) -> None:
        """Ctrl-C in the thread that leads: its own call ends with it, everybody else's goes back to the queue."""
        if self._connection is not None and not self._connection.in_transaction and batch[-1].tried:
            for request in batch:
                request.finish()  # the commit had returned already
            return
        self._recover(error)
        for request in reversed(batch):
            request.value, request.error, request.tried = None, None, False
            self._pending.appendleft(request)
        self._wake.set()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._database.open_writer()
        return self._connection

    def _recover(self, error: BaseException) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._discard()
            return
        if is_broken(error):
            self._discard()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # the next one is opened anew either way
                connection.close()


def _settle(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
