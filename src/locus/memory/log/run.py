"""One run's hold on a logged thread: the lease, the last record, and the appends that only its holder can make."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from locus._ids import encode_name, new_token
from locus._sync import is_inline
from locus.core import codec
from locus.core.state import AgentState
from locus.errors import ConflictError, CorruptRecordError, ThreadBusyError
from locus.memory.log.doc import Doc, Part
from locus.memory.log.lease import LEASE, Lease, Seen, give_back, keep, try_acquire
from locus.memory.log.log import STALE_AFTER, Log
from locus.memory.log.record import Entry, Header, header_of, result_sort
from locus.memory.log.tags import metadata_tags
from locus.memory.log.view import View, same_state
from locus.memory.run import Turn
from locus.storage.base import ABSENT, Delete, Put, Query, Record, Span

__all__ = ["LogRun", "begin", "turn_from_json"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25


async def begin(log: Log, part: Part, *, wait_seconds: float, seen: Seen, renew: bool = True) -> LogRun:
    """Take the thread's lease, waiting for it if need be, and read where the thread stands."""
    await log.ready()
    holder, deadline, pause = new_token(), log.monotonic() + wait_seconds, _FIRST_PAUSE
    while True:
        lease_span = Span(log.space.name, part, LEASE, f"{LEASE}.")
        leases, tails = await log.storage.scan([lease_span, log.back(part, limit=1)])
        got = await _acquired(log, part, holder, seen, leases[0] if leases else None)
        if got is not None:
            break
        if log.monotonic() >= deadline:
            raise ThreadBusyError(
                f"thread {part[0]!r} is held by another run; wait for it (wait_seconds), cancel it, or use another thread"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    lease, taken_over = got
    if renew:
        keep(lease)
    try:
        view = log.seen(part, tails[0] if tails else None)
        if taken_over:
            view = await _fence(log, part, holder)
        view = await log.with_doc(part, view)
    except BaseException:
        await give_back(lease)
        raise
    return LogRun(log, part, lease, view)


async def _acquired(log: Log, part: Part, holder: str, seen: Seen, current: Record | None) -> tuple[Lease, bool] | None:
    """Try for the lease. A caller that is cancelled while the storage writes gives back what it got."""
    if is_inline():  # nobody can be cancelled there
        return await try_acquire(log, part, holder, seen, current)
    attempt = asyncio.ensure_future(try_acquire(log, part, holder, seen, current))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        got = await attempt
        if got is not None:
            await give_back(got[0])
        raise


async def _fence(log: Log, part: Part, holder: str) -> View:
    """Append the mark that refuses the old holder's next append; its position is the fencing number."""
    while True:
        view = await log.lasting(part, await log.fresh(part))
        try:
            return await log.append_mark(part, view, log.mark(view, fence=holder))
        except ConflictError:
            continue


class LogRun:
    """A `ThreadRun` on a log: keeps the whole promise."""

    separate_results = True

    def __init__(self, log: Log, part: Part, lease: Lease, view: View) -> None:
        self.thread_id = part[0]
        self._log = log
        self._part = part
        self._lease = lease
        self._view = view
        self._results: list[str] = []
        self.state: AgentState | None = codec.join(view.doc.small, view.doc.long) if view.doc else None
        self.turn: Turn | None = turn_from_json(view.tail.turn) if view.tail and view.head else None
        self._resumed = self.turn is not None and self.turn.phase != "done"

    async def append(
        self, state: AgentState, turn: Turn, *, listed: bool = True, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Record the next state; see `ThreadRun.append`."""
        self.check()
        if self._log.monotonic() - self._view.read_at > STALE_AFTER or self._log.expiring(self._view):
            self._view = await self._stepped_over()
        over = turn.phase in ("done", "interrupted")
        tags = {**metadata_tags(metadata or {}), **({"turn": turn.turn_id} if over else {})}
        doc = Doc(*codec.split(state))
        entry = Entry(metadata=metadata or {}, turn=turn_to_json(turn), listed=listed, tags=tags)
        used = await self._used() if turn.phase == "done" else []
        header: Header | None = None
        while header is None:
            try:
                header = await self._log.append_after(self._part, self._view, doc, entry, more=used)
            except ConflictError:
                self._view = await self._stepped_over()
        self._view = View(header, doc, self._log.monotonic(), self._log.expiry())
        self.state, self.turn = state, turn
        if turn.phase == "done":
            self._results, self._resumed = [], False
        return header.checkpoint_id

    async def _used(self) -> list[Delete]:
        """The results that the state holds by now, those of a run that was killed in this turn too."""
        if self._resumed:
            [records] = await self._log.storage.scan([Span(self._log.space.name, self._part, "r", "s", bodies=False)])
            self._results = [record.key.sort for record in records]
        return [Delete(self._log.key(self._part, sort)) for sort in self._results]

    async def _stepped_over(self) -> View:
        """A view past marks that leave our head alive; anything else means that the thread is no longer ours."""
        mine = self._view
        view = await self._log.lasting(self._part, await self._log.fresh(self._part))
        same = same_state(view.head, mine.head) or view.head is mine.head is None
        [between] = await self._log.storage.scan([self._log.span(self._part, mine.position + 1, view.position)])
        fenced = any(header_of(record).fence not in (None, self._lease.holder) for record in between)
        if not same or fenced:
            self._lease.lost = True
            raise ThreadBusyError(
                f"thread {self.thread_id!r} was changed by somebody else during this run: another run took it over, a plain "
                "save() was made, or its newest checkpoint was deleted; run again to go on from what is on record"
            )
        return replace(view, doc=mine.doc)

    def _reply_position(self) -> int:
        if self._view.head is None:
            raise ThreadBusyError(f"thread {self.thread_id!r} has no reply on record whose calls could be settled")
        return self._view.head.position

    async def settle(self, call_id: str, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record a call's outcome, or learn the one on record; see `ThreadRun.settle`."""
        sort = result_sort(self._reply_position(), encode_name(call_id))
        key = self._log.key(self._part, sort)
        body = {"v": 1, "kind": "result", "call": call_id, "outcome": dict(outcome)}
        self._results.append(sort)
        try:
            await self._log.storage.commit([Put(key, body, ABSENT, expires_at=self._log.expiry())])
        except ConflictError:
            [record] = await self._log.storage.get([key])
            if record is None:
                raise
            return _outcome(record.body, key.sort)
        return outcome

    async def settled(self) -> dict[str, Mapping[str, Any]]:
        """Outcomes on record for the newest reply; see `ThreadRun.settled`."""
        if self._view.head is None:
            return {}
        position = self._reply_position()
        span = Span(self._log.space.name, self._part, result_sort(position), result_sort(position + 1))
        [records] = await self._log.storage.scan([span])
        self._results += [record.key.sort for record in records]
        return {str(record.body.get("call")): _outcome(record.body, record.key.sort) for record in records}

    async def find_turn(self, turn_id: str) -> tuple[Turn, AgentState] | None:
        """An earlier turn by its id; see `ThreadRun.find_turn`."""
        hits = await self._log.storage.search(
            Query(self._log.space.name, self._part, where={"turn": turn_id}, one_per_part=True, limit=10)
        )
        for hit in hits:
            live = self._log.live_state(hit.record, self._view) if hit.record.key.part == self._part else None
            turn = turn_from_json(live[1].turn) if live else None
            doc = await self._log.load_state(self._part, *live) if live and turn else None
            if turn and doc:
                return turn, codec.join(doc.small, doc.long)
        return None

    def check(self) -> None:
        """Raise `ThreadBusyError` unless the lease is still certainly ours."""
        self._lease.check()

    async def release(self) -> None:
        """Give the thread back."""
        await give_back(self._lease)


def turn_to_json(turn: Turn) -> dict[str, Any]:
    """A turn as stored beside a state; what is empty is left out."""
    out: dict[str, Any] = {"id": turn.turn_id, "phase": turn.phase, "base": turn.base_iteration}
    out |= {"interrupts": [dict(one) for one in turn.interrupts]} if turn.interrupts else {}
    out |= {"answers": dict(turn.answers)} if turn.answers else {}
    out |= {"stop": turn.stop_reason} if turn.stop_reason else {}
    return out


def turn_from_json(stored: Mapping[str, Any] | None) -> Turn | None:
    """A stored turn; None when the state was saved outside of any turn."""
    if not stored:
        return None
    try:
        return Turn(
            turn_id=stored["id"],
            phase=stored["phase"],
            base_iteration=int(stored.get("base", 0)),
            interrupts=tuple(stored.get("interrupts", ())),
            answers=stored.get("answers", {}),
            stop_reason=stored.get("stop"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(f"a stored turn is damaged: {error!r}") from error


def _outcome(body: Mapping[str, Any], sort: str) -> Mapping[str, Any]:
    outcome = body.get("outcome")
    if not isinstance(outcome, Mapping):
        raise CorruptRecordError(f"the tool result at {sort!r} is damaged")
    return outcome
