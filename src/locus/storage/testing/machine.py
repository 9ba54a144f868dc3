"""A storage beside a dict: random operations on both, compared after each."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from locus._ids import new_token
from locus._sync import run
from locus.errors import ConflictError
from locus.storage.base import ABSENT, ANY, Check, Delete, IfRev, Key, Op, Put, Space, Span, Storage
from locus.storage.testing.simulation import FakeClock

__all__ = ["StorageMachine", "storage_machine"]

T = TypeVar("T")

SPACES = (Space("plain"), Space("logs", log=True))
PARTS = (("a",), ("a", "b"), ("A",))
SORTS = ("1", "10")
_WAITS = st.sampled_from([0.0, 0.0, 1.0, 5.0, 49.0])
_LIFE = st.sampled_from([None, None, 5.0, 50.0])
_KEYS = st.builds(Key, st.sampled_from([s.name for s in SPACES]), st.sampled_from(PARTS), st.sampled_from(SORTS))
_CONDITIONS = st.sampled_from(["any", "absent", "current", "stale", "resend"])

Condition: TypeAlias = Literal["any", "absent", "current", "stale", "resend"]


@dataclass(frozen=True)
class _Step:
    """One operation before it is known what it is tried on."""

    kind: Literal["put", "delete", "check"]
    key: Key
    condition: Condition
    value: int
    life: float | None


_STEPS = st.builds(
    _Step, st.sampled_from(["put", "put", "put", "delete", "check"]), _KEYS, _CONDITIONS, st.integers(0, 9), _LIFE
)


@dataclass(frozen=True)
class _Entry:
    """What the model knows of a record."""

    body: dict[str, Any]  # JSON
    token: str
    created_at: float
    updated_at: float
    expires_at: float | None
    rev: str | None = None


class _Model:
    """The contract over a dict. A rev that only the storage knows is None until it has been read."""

    def __init__(self) -> None:
        self.entries: dict[Key, _Entry] = {}
        self.ends: dict[tuple[str, tuple[str, ...]], float | None] = {}

    def copy(self) -> _Model:
        other = _Model()
        other.entries, other.ends = dict(self.entries), dict(self.ends)
        return other

    def live(self, key: Key, now: float) -> _Entry | None:
        entry = self.entries.get(key)
        if entry is None:
            return None
        end = self.ends.get(key[:2]) if key.space == "logs" else entry.expires_at
        return entry if end is None or end > now else None

    def all_live(self, now: float) -> dict[Key, _Entry]:
        return {key: entry for key in self.entries if (entry := self.live(key, now))}

    def holds(self, op: Op, now: float) -> bool | None:
        """Whether the condition holds; None: there is nothing left to do."""
        have = self.live(op.key, now)
        if have is None and isinstance(op, Delete):
            return None
        if op.if_rev is ANY or (have is None if op.if_rev is ABSENT else have is not None and have.rev == op.if_rev):
            return True
        return None if isinstance(op, Put) and have is not None and have.token == op.token else False

    def do(self, op: Op, now: float) -> bool:
        """Do one operation; False if it is refused."""
        verdict = self.holds(op, now)
        if not verdict:
            return verdict is None
        if isinstance(op, Delete):
            del self.entries[op.key]
        elif isinstance(op, Put):
            have = self.live(op.key, now)
            if op.key.space == "logs":
                self._begin_log(op, now)
            created_at = have.created_at if have else now
            self.entries[op.key] = _Entry(dict(op.body), op.token, created_at, now, op.expires_at)
        return True

    def _begin_log(self, op: Put, now: float) -> None:
        place = op.key[:2]
        end = self.ends.get(place)
        if end is not None and end <= now:
            self.entries = {key: entry for key, entry in self.entries.items() if key[:2] != place}
        self.ends[place] = op.expires_at


def _is(found: _Entry, expected: _Entry) -> bool:
    """Whether a record is the expected one. Its rev may be any after a write, and must be the same without one."""
    return found == replace(expected, rev=expected.rev or found.rev)


class StorageMachine(RuleBasedStateMachine):
    """Random operations on what `make_storage` makes; see `storage_machine`."""

    make_storage: ClassVar[Callable[[], Storage]]

    def __init__(self) -> None:
        super().__init__()
        self.storage = type(self).make_storage()
        self.clock = self.storage.clock = FakeClock()
        self.model = _Model()
        self.used: dict[Key, set[str]] = {}
        self.last_sent: dict[Key, Put] = {}
        self.run(self.storage.setup(*SPACES))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return run(coroutine, blocking=self.storage.blocking)

    def teardown(self) -> None:
        self.run(self.storage.close())

    @rule(step=_STEPS, wait=_WAITS)
    def commit_one(self, step: _Step, wait: float) -> None:
        self.commit_several([step], wait)

    @rule(steps=st.lists(_STEPS, min_size=2, max_size=4), wait=_WAITS)
    def commit_several(self, steps: list[_Step], wait: float) -> None:
        self.clock.advance(wait)
        ops = [self._op(step) for step in steps]
        states = [self.model]
        for op in ops:
            after = states[-1].copy()
            if not after.do(op, self.clock()):
                break
            states.append(after)
        refused = len(states) <= len(ops)
        revs = self._commit(ops)
        if isinstance(revs, ConflictError):
            assert refused, (ops, revs)
            assert revs.op_index == len(states) - 1, (ops, revs)
            self._adopt(states[:1] if self.storage.capabilities.atomic == "store" else states)
            self._begin_anew({op.key.part for op in ops if op.key.space == "logs" and len(states) > 1})
            return
        assert not refused, ops
        assert [rev is not None for rev in revs] == [isinstance(op, Put) for op in ops]
        self._adopt(states[-1:])

    def _begin_anew(self, parts: set[tuple[str, ...]]) -> None:
        """How far a refused commit came may not show, but decides when a log ends: write to it, so that both know."""
        for part in sorted(parts):
            op = Put(Key("logs", part, SORTS[0]), {"value": 0})
            self.run(self.storage.commit([op]))
            after = self.model.copy()
            after.do(op, self.clock())
            self._adopt([after])

    @rule()
    def purge(self) -> None:
        dead = len(self.model.entries) - len(self.model.all_live(self.clock()))
        assert 0 <= self.run(self.storage.purge()) <= dead
        assert self.run(self.storage.purge()) == 0
        self.model.entries = self.model.all_live(self.clock())

    @rule()
    def close(self) -> None:
        self.run(self.storage.close())

    @rule(part=st.sampled_from(PARTS), start=st.sampled_from(SORTS), reverse=st.booleans(), limit=st.integers(0, 3))
    def scan_a_stretch(self, part: tuple[str, ...], start: str, reverse: bool, limit: int) -> None:
        spans = [Span(s.name, part, start, reverse=reverse, limit=limit) for s in SPACES]
        live = self.model.all_live(self.clock())
        for span, records in zip(spans, self.run(self.storage.scan(spans)), strict=True):
            expected = [key for key in live if key[:2] == (span.space, part) and key.sort >= start]
            assert [record.key for record in records] == sorted(expected, reverse=reverse)[:limit]

    @invariant()
    def parts_are_those_with_records(self) -> None:
        live = self.model.all_live(self.clock())
        for space in SPACES:
            page = self.run(self.storage.parts(space.name))
            assert sorted(page.parts) == sorted({key.part for key in live if key.space == space.name})
            assert page.cursor is None

    @invariant()
    def records_are_the_same(self) -> None:
        assert self._read() == self.model.all_live(self.clock())

    def _commit(self, ops: list[Op]) -> list[str | None] | ConflictError:
        try:
            return self.run(self.storage.commit(ops))
        except ConflictError as error:
            return error

    def _read(self) -> dict[Key, _Entry]:
        """Everything the storage has, as the model would know it."""
        spans = [Span(space.name, part) for space in SPACES for part in PARTS]
        found = [record for records in self.run(self.storage.scan(spans)) for record in records]
        assert [r for r in self.run(self.storage.get([record.key for record in found])) if r] == found
        return {
            r.key: replace(
                self.model.entries.get(r.key) or _Entry({}, "", 0, 0, None),
                body=r.body,
                token=r.token,
                created_at=r.created_at,
                updated_at=r.updated_at,
                rev=r.rev,
            )
            for r in found
        }

    def _adopt(self, allowed: list[_Model]) -> None:
        """Take over the allowed state that the storage is in, with the revs it chose."""
        for state in reversed(allowed):  # of two that look alike, the one that may hold more that is expired
            self.model = state
            found = self._read()
            live = state.all_live(self.clock())
            if found.keys() == live.keys() and all(_is(found[key], live[key]) for key in live):
                break
        else:
            raise AssertionError(f"the storage holds {self._read()}, which no allowed state is")
        for key, entry in found.items():
            if live[key].rev is None:
                assert entry.rev not in self.used.get(key, ()), "a rev was used twice"
                self.used.setdefault(key, set()).add(entry.rev or "")
            self.model.entries[key] = entry

    def _op(self, step: _Step) -> Op:
        have = self.model.live(step.key, self.clock())
        conditions: dict[Condition, IfRev] = {"any": ANY, "absent": ABSENT, "stale": "no-such-rev"}
        if_rev = conditions.get(step.condition, (have.rev if have else None) or ABSENT)
        if step.kind == "delete":
            return Delete(step.key, ANY if if_rev is ABSENT else if_rev)
        if step.kind == "check":
            return Check(step.key, ABSENT if if_rev is ANY else if_rev)
        if step.condition == "resend" and step.key in self.last_sent:
            return self.last_sent[step.key]
        end = None if step.life is None else self.clock() + step.life
        op = Put(step.key, {"value": step.value}, if_rev, new_token(), end)
        self.last_sent[step.key] = op
        return op


def storage_machine(make_storage: Callable[[], Storage]) -> type[StorageMachine]:
    """A state machine over the storages that `make_storage` makes, each new and empty.

    Use: `TestMyStorage = storage_machine(make).TestCase`.
    """
    return type("StorageMachine", (StorageMachine,), {"make_storage": staticmethod(make_storage)})
