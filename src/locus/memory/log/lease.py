"""A lease on a thread: one run at a time, and the rest wait, are told, or take over from the dead.

There is no shared clock. A lease is taken over when it has not changed for its whole length on the taker's own clock,
or at once when its holder is a process of this machine that is no more, or a run of this process that has ended (its
last word was lost in an outage). It is renewed from a thread of its own, so that a blocking tool does not stop it. The
record is kept after release: a revision must never come back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from locus import _sync
from locus._clock import elapsed_seconds
from locus._ids import new_token
from locus.errors import ConflictError, LocusError, ThreadBusyError
from locus.memory.log.doc import Part
from locus.memory.log.log import Log
from locus.storage.base import ABSENT, Put, Record

__all__ = ["LEASE", "LEASE_SECONDS", "Lease", "Seen", "give_back", "keep", "try_acquire"]

LEASE = "lease"
LEASE_SECONDS = 30.0

Seen = dict[Part, tuple[str, float]]
"""Leases of others: the revision last seen, and since when, on this process's own clock."""

_in_use: set[str] = set()
"""Holders of this process that have a lease, or are about to: what is not here has ended, whatever the record says."""


@dataclass(slots=True)
class Lease:
    """A lease that was ours when it was last heard of."""

    log: Log
    part: Part
    holder: str
    rev: str
    valid_until: float
    renewals: int = 0
    lost: bool = False
    returned: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)
    clock: Callable[[], float] = elapsed_seconds

    def check(self) -> None:
        """Raise unless the lease is still certainly ours."""
        if self.lost or self.clock() >= self.valid_until:
            raise ThreadBusyError(
                f"this run no longer holds thread {self.part[0]!r}: it was paused for longer than its lease, or another "
                "run took over; run again to go on from what is on record"
            )

    def renew(self) -> None:
        """Prolong the lease (blocking; for the keeper's thread)."""
        with self.guard:
            try:
                # A refusal may be the echo of an earlier renewal whose answer was lost. That one does not count: others
                # have measured from the moment it was made, which is not known here.
                if not (self.lost or self._renewed() or (self._still_ours() and self._renewed())):
                    self.lost = True
            except LocusError:
                return  # not heard of: it stays valid until its time is over, and is tried again before that

    def _renewed(self) -> bool:
        began = self.clock()
        put = _put(self.log, self.part, self.holder, self.renewals + 1, self.rev)
        try:
            [rev] = _sync.run(self.log.storage.commit([put]), blocking=self.log.storage.blocking)
        except ConflictError:
            return False
        self.rev, self.renewals, self.valid_until = str(rev), self.renewals + 1, began + LEASE_SECONDS
        return True

    def _still_ours(self) -> bool:
        found = self.log.storage.get([self.log.key(self.part, LEASE)])
        [record] = _sync.run(found, blocking=self.log.storage.blocking)
        if record is None or record.body.get("holder") != self.holder:
            return False
        self.rev = record.rev
        return True


async def try_acquire(
    log: Log, part: Part, holder: str, seen: Seen, current: Record | None
) -> tuple[Lease, bool] | None:
    """Take the lease if it is free or may be taken over. The second value says that it was taken over."""
    began = log.monotonic()
    taken = current is not None and bool(current.body.get("holder"))
    if current is not None and taken and not _may_take_over(part, current, seen, began):
        return None
    put = _put(log, part, holder, 0, current.rev if current else None)
    _in_use.add(holder)
    try:
        [rev] = await log.storage.commit([put])
    except BaseException as error:
        _in_use.discard(holder)
        if isinstance(error, ConflictError):
            return None
        raise
    seen.pop(part, None)
    return Lease(log, part, holder, str(rev), began + LEASE_SECONDS, clock=log.monotonic), taken


async def give_back(lease: Lease) -> None:
    """Release the lease; if it is no longer ours, or was given back already, there is nothing to do."""
    keeper().drop(lease)
    lease.lost = True
    try:
        for _ in range(3):
            if lease.returned or await _try_to_release(lease):
                lease.returned = True
                return
    finally:
        _in_use.discard(lease.holder)


async def _try_to_release(lease: Lease) -> bool:
    put = _put(lease.log, lease.part, None, lease.renewals, lease.rev)
    try:
        await lease.log.storage.commit([put])
    except ConflictError:  # a renewal was under way, or somebody took it over
        [record] = await lease.log.storage.get([lease.log.key(lease.part, LEASE)])
        if record is not None and record.body.get("holder") == lease.holder:
            lease.rev = record.rev
            return False
    return True


def keep(lease: Lease) -> None:
    """Renew the lease from the keeper's thread until it is given back."""
    keeper().add(lease)


def _put(log: Log, part: Part, holder: str | None, renewals: int, rev: str | None) -> Put:
    body: dict[str, Any] = {"v": 1, "kind": "lease", "holder": holder, "renewals": renewals}
    if holder is not None:
        body["process"] = _this_process(os.getpid())
    return Put(log.key(part, LEASE), body, ABSENT if rev is None else rev, expires_at=log.expiry())


def _may_take_over(part: Part, current: Record, seen: Seen, now: float) -> bool:
    process = current.body.get("process")
    if _is_dead(process) or (_is_ours(process) and current.body["holder"] not in _in_use):
        return True
    rev, since = seen.get(part, ("", now))
    if rev != current.rev:
        seen[part] = (current.rev, now)
        return False
    return now - since >= LEASE_SECONDS


@cache
def _this_process(pid: int) -> dict[str, Any]:
    """What tells this process from every other, and on Linux lets others of this machine see whether it lives."""
    known: dict[str, Any] = {"pid": pid, "instance": new_token()}
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return known | {"boot": boot, "namespace": os.readlink("/proc/self/ns/pid"), "start": _start_time(pid)}
    except OSError:
        return known


def _start_time(pid: int) -> str:
    """The moment a process began, in clock ticks since boot: a pid may be used again, with this it may not."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]


def _is_ours(process: Any) -> bool:  # JSON from a record
    return isinstance(process, dict) and process.get("instance") == _this_process(os.getpid())["instance"]


def _is_dead(process: Any) -> bool:  # JSON from a record
    """Whether the holder certainly is a dead process of this machine."""
    ours = _this_process(os.getpid())
    if not isinstance(process, dict) or "boot" not in ours:
        return False
    if process.get("boot") != ours["boot"] or process.get("namespace") != ours["namespace"]:
        return False
    try:
        pid = int(process["pid"])
        return _start_time(pid) != process["start"] or _is_zombie(pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (KeyError, ValueError, OSError):
        return False


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] in "ZX"


class _Keeper:
    """The thread that renews every lease of this process, and gives them back on SIGTERM."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, lease: Lease) -> None:
        with self._guard:
            self._leases.append(lease)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="locus-lease", daemon=True)
                self._thread.start()
        self._handle_sigterm()

    def drop(self, lease: Lease) -> None:
        with self._guard:
            if lease in self._leases:
                self._leases.remove(lease)

    def _run(self) -> None:
        while True:
            self._wake.wait(LEASE_SECONDS / 3)
            with self._guard:
                leases = list(self._leases)
                if not leases:
                    self._thread = None
                    return
            for lease in leases:
                lease.renew()

    def _handle_sigterm(self) -> None:
        """Give leases back when the process is told to end, unless the program has its own way of ending."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, *_: object) -> None:
        worker = threading.Thread(target=self._release_all, name="locus-sigterm", daemon=True)
        worker.start()  # a thread of its own: the interrupted one may hold the storage's lock
        worker.join(timeout=2.0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _release_all(self) -> None:
        for lease in list(self._leases):
            with contextlib.suppress(LocusError):
                _sync.run(give_back(lease), blocking=lease.log.storage.blocking)


_keeper = _Keeper()


def keeper() -> _Keeper:
    """This process's keeper."""
    return _keeper


def _forget_after_fork() -> None:
    """A child holds none of its parent's leases, and may have the pid of an ancestor that is no more."""
    global _keeper
    _keeper = _Keeper()
    _in_use.clear()
    _this_process.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
