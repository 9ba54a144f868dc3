"""Time: what expires, when it is gone, and what a purge removes."""

from __future__ import annotations

import pytest

from locus.errors import ConflictError, UnsupportedError
from locus.storage.base import ABSENT, Check, Delete, Query, Space, Span, Storage
from locus.storage.testing.rules import PART, all_parts, key, needs, one, put, refuses, sorts
from locus.storage.testing.simulation import FakeClock

LOG = Space("logs", log=True)


class TimeRules:
    @needs("expiry")
    async def test_an_expired_record_is_nowhere_to_be_found(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await put(storage, "1", expires_at=1010.0, text="apple")
        await put(storage, "2", text="apple")
        await put(storage, "1", part=("b",), expires_at=1010.0)
        clock.advance(9.5)
        assert await sorts(storage) == ["1", "2"]
        clock.advance(0.5)
        assert await one(storage, "1") is None
        assert await sorts(storage) == ["2"]
        assert await storage.scan([Span("notes", PART, reverse=True, limit=2, end="2")]) == [[]]
        assert [hit.record.key.sort for hit in await storage.search(Query("notes"))] == ["2"]
        assert await all_parts(storage) == [PART]

    @needs("expiry")
    async def test_a_limit_counts_only_what_is_alive(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        for n in range(6):
            await put(storage, str(n), expires_at=1010.0 if n % 2 else None)
        clock.advance(10)
        for reverse, expected in ((False, ["0", "2"]), (True, ["4", "2"])):
            (records,) = await storage.scan([Span("notes", PART, reverse=reverse, limit=2)])
            assert [record.key.sort for record in records] == expected

    @needs("expiry")
    async def test_for_conditions_what_is_expired_is_absent(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        rev = await put(storage, "1", {"v": 1}, expires_at=1010.0)
        other = await put(storage, "2", expires_at=1010.0)
        clock.advance(20)
        for op in (Check(key("1"), rev), Check(key("2"), other)):
            with pytest.raises(ConflictError):
                await storage.commit([op])
        with pytest.raises(ConflictError):
            await put(storage, "1", if_rev=rev)
        assert await storage.commit([Check(key("1"), ABSENT), Delete(key("2"), "another rev")]) == [None, None]
        new = await put(storage, "1", {"v": 2}, if_rev=ABSENT)
        record = await one(storage, "1")
        assert record is not None
        assert (record.body, record.created_at, record.rev) == ({"v": 2}, 1020.0, new)
        assert new != rev

    @needs("expiry")
    async def test_a_new_expiry_replaces_the_old(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await put(storage, "1", expires_at=1010.0)
        await put(storage, "1", expires_at=1020.0)
        await put(storage, "2", expires_at=1010.0)
        await put(storage, "2")
        clock.advance(15)
        assert await sorts(storage) == ["1", "2"]
        record = await one(storage, "1")
        assert record is not None
        assert record.expires_at == 1020.0

    @needs("expiry")
    async def test_purge_removes_what_has_expired_and_nothing_else(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        for n in range(4):
            await put(storage, str(n), {"n": n}, expires_at=1010.0 + n)
        await put(storage, "9")
        await put(storage, "1", part=("gone",), expires_at=1001.0)
        assert await storage.purge() == 0
        clock.advance(11)
        assert await storage.purge() == 3
        assert await storage.purge() == 0
        assert await sorts(storage) == ["2", "3", "9"]
        assert await all_parts(storage) == [PART]

    @needs("expiry")
    async def test_in_a_log_the_last_put_decides_for_the_whole_part(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await storage.setup(LOG)
        await put(storage, "1", space="logs", expires_at=1010.0)
        await put(storage, "2", space="logs", expires_at=1020.0)
        await put(storage, "1", space="logs", part=("other",))
        clock.advance(15)
        assert await sorts(storage, space="logs") == ["1", "2"]
        await put(storage, "1", space="logs", expires_at=1030.0)
        clock.advance(10)
        assert await sorts(storage, space="logs") == ["1", "2"]
        assert await storage.purge() == 0
        clock.advance(5)
        assert await sorts(storage, space="logs") == []
        assert await one(storage, "2", space="logs") is None
        assert await storage.search(Query("logs", PART)) == []
        assert await all_parts(storage, "logs") == [("other",)]
        assert await storage.purge() == 2
        assert await sorts(storage, ("other",), "logs") == ["1"]

    @needs("expiry")
    async def test_a_log_put_without_end_keeps_the_part_for_good(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await storage.setup(LOG)
        await put(storage, "1", space="logs", expires_at=1010.0)
        await put(storage, "2", space="logs")
        clock.advance(1_000_000)
        assert await storage.purge() == 0
        assert await sorts(storage, space="logs") == ["1", "2"]

    @needs("expiry")
    async def test_a_refused_put_does_not_move_a_logs_end(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await storage.setup(LOG)
        await put(storage, "1", space="logs", expires_at=1010.0)
        with pytest.raises(ConflictError):
            await put(storage, "1", space="logs", expires_at=2000.0, if_rev=ABSENT)
        clock.advance(10)
        assert await sorts(storage, space="logs") == []

    @needs("expiry")
    async def test_an_expired_log_begins_anew_and_does_not_come_back(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        await storage.setup(LOG)
        for n in (1, 2, 3):
            await put(storage, str(n), {"old": n}, space="logs", expires_at=1010.0)
        clock.advance(10)
        await put(storage, "1", {"new": 1}, space="logs", if_rev=ABSENT, expires_at=1050.0)
        (records,) = await storage.scan([Span("logs", PART)])
        assert [record.body for record in records] == [{"new": 1}]
        assert await storage.purge() in {0, 2}
        assert await sorts(storage, space="logs") == ["1"]

    @refuses("expiry")
    async def test_a_storage_without_expiry_says_so(self, storage: Storage) -> None:
        with pytest.raises(UnsupportedError, match="expir"):
            await put(storage, "1", expires_at=1.0)
