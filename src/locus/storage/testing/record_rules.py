"""Records: order, ranges, conditions, tokens, and what a failed commit leaves."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from locus.errors import ConflictError, InputError
from locus.storage.base import ABSENT, ANY, Check, Delete, Op, Put, Space, Span, Storage
from locus.storage.testing.rules import PART, all_parts, key, needs, one, put, sorts
from locus.storage.testing.simulation import FakeClock


class RecordRules:
    @pytest.mark.parametrize("blob", [None, b"", bytes(range(256)) * 40])
    async def test_what_was_put_is_got_back_whole(self, storage: Storage, blob: bytes | None) -> None:
        storage.clock = FakeClock(1_700_000_000.125)
        tags = {"user": "ada", "age": 36, "score": 0.1, "member": True, "left": None}
        rev = await put(storage, "1", {"a": [1, {"b": None}]}, token="t-1", tags=tags, text="Hello", blob=blob)
        record = await one(storage, "1")
        assert record is not None
        assert (record.key, record.body, record.rev, record.token) == (key("1"), {"a": [1, {"b": None}]}, rev, "t-1")
        assert (record.created_at, record.updated_at, record.expires_at) == (1_700_000_000.125, 1_700_000_000.125, None)
        assert (dict(record.tags), record.text, record.vector, record.blob) == (tags, "Hello", None, blob)
        assert {tag: type(value) for tag, value in record.tags.items()} == {tag: type(v) for tag, v in tags.items()}
        assert await storage.scan([Span("notes", PART)]) == [[record]]

    async def test_get_answers_in_the_order_of_the_keys(self, storage: Storage) -> None:
        for sort in "abc":
            await put(storage, sort, {"at": sort})
        found = await storage.get([key("c"), key("x"), key("a"), key("c"), key("a", ("other",)), key("b")])
        assert [record and record.body["at"] for record in found] == ["c", None, "a", "c", None, "b"]

    async def test_asking_for_nothing_gets_nothing(self, storage: Storage) -> None:
        assert await storage.get([]) == []
        assert await storage.scan([]) == []
        assert await storage.commit([]) == []
        assert await storage.scan([Span("notes", PART)]) == [[]]

    async def test_sorts_are_in_the_order_of_their_bytes(self, storage: Storage) -> None:
        names = ["%41", "-", "_", "~", ".", "..", ".json", "a", "a-", "a.", "a.json", "a0", "aa", "a_", "a~", "0"]
        names += ["10", "9", "_part", "lock", "con", "latest", "a" * 160, "a" * 159, "%", "-1"]
        random.Random(3).shuffle(names)
        for name in names:
            await put(storage, name, {"at": name})
        assert await sorts(storage) == sorted(names)
        assert [record and record.body["at"] for record in await storage.get(list(map(key, names)))] == names

    async def test_a_span_is_a_half_open_range_read_in_either_direction(self, storage: Storage) -> None:
        names = [f"{number:03d}" for number in range(0, 24, 2)]
        await storage.commit([Put(key(name), {"at": name}) for name in names])
        bounds = [None, "000", "003", "010", "022", "9"]
        spans = [
            Span("notes", PART, start, end, reverse, limit)
            for start, end, reverse, limit in itertools.product(bounds, bounds, (False, True), (None, 0, 1, 4, 99))
        ]
        answers = await storage.scan(spans)
        for span, records in zip(spans, answers, strict=True):
            expected = [n for n in names if (span.start or "") <= n and (span.end is None or n < span.end)]
            expected = (expected[::-1] if span.reverse else expected)[: span.limit]
            assert [record.key.sort for record in records] == expected, span
            assert [record.body["at"] for record in records] == expected, span

    async def test_several_spans_are_answered_together(self, storage: Storage) -> None:
        await put(storage, "1", {"in": "a"}, part=("a",))
        await put(storage, "1", {"in": "b"}, part=("b",), space="others")
        spans = [Span("others", ("b",)), Span("notes", ("none",)), Span("notes", ("a",)), Span("notes", ("b",))]
        answers = await storage.scan(spans)
        assert [[record.body["in"] for record in records] for records in answers] == [["b"], [], ["a"], []]

    async def test_without_bodies_all_else_is_there(self, storage: Storage) -> None:
        rev = await put(storage, "1", {"large": "x" * 1000}, token="t", tags={"kind": "note"}, text="words")
        ((record,),) = await storage.scan([Span("notes", PART, bodies=False)])
        assert (record.body, record.rev, record.token, dict(record.tags)) == ({}, rev, "t", {"kind": "note"})

    async def test_a_put_replaces_the_record_whole(self, storage: Storage) -> None:
        await put(storage, "1", {"a": 1, "b": 2}, tags={"x": 1}, text="old", blob=b"old")
        await put(storage, "1", {"a": 3})
        record = await one(storage, "1")
        assert record is not None
        assert (record.body, dict(record.tags), record.text, record.blob) == ({"a": 3}, {}, None, None)

    async def test_created_at_stays_and_updated_at_moves(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        rev = await put(storage, "1")
        clock.advance(5)
        await put(storage, "1", if_rev=rev)
        record = await one(storage, "1")
        assert record is not None
        assert (record.created_at, record.updated_at) == (1000.0, 1005.0)
        await storage.commit([Delete(key("1"))])
        clock.advance(5)
        await put(storage, "1")
        record = await one(storage, "1")
        assert record is not None
        assert (record.created_at, record.updated_at) == (1010.0, 1010.0)

    async def test_a_rev_is_never_used_twice_for_a_key(self, storage: Storage) -> None:
        revs = []
        for _ in range(4):
            revs.append(await put(storage, "1", {"same": 1}, if_rev=ABSENT))
            revs.append(await put(storage, "1", {"same": 1}))
            record = await one(storage, "1")
            assert record is not None
            assert record.rev == revs[-1]
            await storage.commit([Delete(key("1"))])
        assert len(set(revs)) == len(revs)

    async def test_a_condition_that_does_not_hold_is_refused_and_nothing_changes(self, storage: Storage) -> None:
        old = await put(storage, "1", {"v": 1})
        new = await put(storage, "1", {"v": 2})
        refused: list[Op] = [
            Put(key("1"), {"v": 3}, ABSENT),
            Put(key("1"), {"v": 3}, old),
            Put(key("2"), {"v": 3}, new),
            Delete(key("1"), old),
            Check(key("1"), ABSENT),
            Check(key("1"), old),
            Check(key("2"), new),
        ]
        for op in refused:
            with pytest.raises(ConflictError) as refusal:
                await storage.commit([op])
            assert refusal.value.op_index == 0, op
        record = await one(storage, "1")
        assert record is not None
        assert (record.rev, record.body, await sorts(storage)) == (new, {"v": 2}, ["1"])

    async def test_a_condition_that_holds_is_done(self, storage: Storage) -> None:
        first = await put(storage, "1", {"v": 1}, if_rev=ABSENT)
        second = await put(storage, "1", {"v": 2}, if_rev=first)
        assert second != first
        assert await storage.commit([Check(key("1"), second), Check(key("2"), ABSENT)]) == [None, None]
        assert await storage.commit([Delete(key("1"), second)]) == [None]
        assert await one(storage, "1") is None

    async def test_a_put_that_is_sent_again_holds_and_is_done_once(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock(1000.0)
        create = Put(key("1"), {"v": 1}, ABSENT)
        (first,) = await storage.commit([create])
        clock.advance(1)
        assert await storage.commit([create]) == [first]
        assert first is not None
        change = Put(key("1"), {"v": 2}, first)
        (second,) = await storage.commit([change])
        clock.advance(1)
        assert await storage.commit([change]) == [second]
        record = await one(storage, "1")
        assert record is not None
        assert (record.rev, record.body, record.updated_at) == (second, {"v": 2}, 1001.0)

    async def test_a_put_that_is_sent_again_after_anothers_change_is_refused(self, storage: Storage) -> None:
        create = Put(key("1"), {"v": 1}, ABSENT)
        (first,) = await storage.commit([create])
        assert first is not None
        change = Put(key("1"), {"v": 2}, first)
        await storage.commit([change])
        await put(storage, "1", {"v": 3})
        for op in (create, change):
            with pytest.raises(ConflictError):
                await storage.commit([op])
        await storage.commit([Delete(key("1"))])
        with pytest.raises(ConflictError):
            await storage.commit([change])
        assert await sorts(storage) == []

    async def test_an_unconditional_put_may_be_sent_again(self, storage: Storage) -> None:
        op = Put(key("1"), {"v": 1}, ANY)
        await storage.commit([op])
        (rev,) = await storage.commit([op])
        record = await one(storage, "1")
        assert record is not None
        assert (record.rev, record.body) == (rev, {"v": 1})

    async def test_a_delete_of_what_is_absent_holds(self, storage: Storage) -> None:
        rev = await put(storage, "1")
        for _ in range(2):
            assert await storage.commit([Delete(key("1"), rev)]) == [None]
        assert await storage.commit([Delete(key("2"))]) == [None]
        assert await storage.commit([Delete(key("1", ("never",)))]) == [None]

    async def test_operations_take_effect_in_order(self, storage: Storage) -> None:
        revs = await storage.commit(
            [
                Put(key("1"), {"v": 1}, ABSENT),
                Delete(key("1")),
                Check(key("1"), ABSENT),
                Put(key("1"), {"v": 2}, ABSENT),
                Put(key("1"), {"v": 3}),
                Put(key("2"), {"v": 4}, ABSENT),
            ]
        )
        assert [rev is None for rev in revs] == [False, True, True, False, False, False]
        (records,) = await storage.scan([Span("notes", PART)])
        assert [(record.body["v"], record.rev) for record in records] == [(3, revs[4]), (4, revs[5])]

    async def test_a_failed_commit_in_one_part_leaves_nothing_or_a_prefix(self, storage: Storage) -> None:
        await put(storage, "9")
        ops: list[Op] = [Put(key("1"), {}), Put(key("2"), {}), Put(key("9"), {}, ABSENT), Put(key("3"), {})]
        with pytest.raises(ConflictError) as refusal:
            await storage.commit(ops)
        assert refusal.value.op_index == 2
        left = (await sorts(storage))[:-1]
        assert left == (["1", "2"][: len(left)] if storage.capabilities.atomic == "record" else [])

    async def test_a_failed_commit_over_parts_leaves_nothing_or_a_prefix(self, storage: Storage) -> None:
        await put(storage, "9", part=("b",))
        ops: list[Op] = [Put(key("1", ("a",)), {}), Put(key("1", ("b",)), {}), Put(key("9", ("b",)), {}, ABSENT)]
        ops.append(Delete(key("9", ("b",))))
        with pytest.raises(ConflictError):
            await storage.commit(ops)
        left = [await sorts(storage, ("a",)), (await sorts(storage, ("b",)))]
        allowed: dict[str, list[Any]] = {"store": [[[], ["9"]]]}
        allowed["part"] = [*allowed["store"], [["1"], ["9"]]]
        allowed["record"] = [*allowed["part"], [["1"], ["1", "9"]]]
        assert left in allowed[storage.capabilities.atomic]

    async def test_a_failed_commit_undoes_replacements_and_deletions(self, storage: Storage) -> None:
        rev = await put(storage, "1", {"v": 1}, tags={"kept": True}, text="kept")
        await put(storage, "2", {"v": 1})
        before = await storage.scan([Span("notes", PART)])
        ops: list[Op] = [Put(key("1"), {"v": 2}), Delete(key("2")), Delete(key("1")), Check(key("2"), rev)]
        with pytest.raises(ConflictError):
            await storage.commit(ops)
        if storage.capabilities.atomic != "record":
            assert await storage.scan([Span("notes", PART)]) == before
        assert len(await sorts(storage)) in {0, 1, 2}

    async def test_nothing_stored_changes_through_what_was_given_or_got(self, storage: Storage) -> None:
        body, tags = {"list": [1]}, {"tag": "a"}
        await put(storage, "1", body, tags=tags)
        body["list"].append(2)
        tags["tag"] = "b"
        for _ in range(2):
            record = await one(storage, "1")
            ((scanned,),) = await storage.scan([Span("notes", PART)])
            assert record == scanned
            assert record is not None
            assert (record.body, dict(record.tags)) == ({"list": [1]}, {"tag": "a"})
            record.body["list"].append(3)
            scanned.body.clear()
            if isinstance(record.tags, dict):
                record.tags.clear()

    async def test_spaces_and_parts_are_kept_apart(self, storage: Storage) -> None:
        places = [("notes", ("a",)), ("notes", ("a", "a")), ("notes", ("aa",)), ("others", ("a",)), ("note", ("a",))]
        for number, (space, part) in enumerate(places):
            await put(storage, "1", {"n": number}, part=part, space=space)
        for number, (space, part) in enumerate(places):
            record = await one(storage, "1", part, space)
            assert record is not None
            assert record.body == {"n": number}
        await storage.commit([Delete(key("1", ("a",)))])
        assert await all_parts(storage, "others") == [("a",)]
        assert sorted(await all_parts(storage)) == [("a", "a"), ("aa",)]

    @pytest.mark.parametrize("limit", [1, 7, 100])
    async def test_parts_are_listed_each_once(self, storage: Storage, limit: int) -> None:
        parts = [("u", f"{n}") for n in range(9)] + [("u",), ("v", "w", "x"), ("v", "w"), ("uu",), ("v",), ("V",)]
        for part in parts:
            await storage.commit([Put(key("1", part), {}), Put(key("2", part), {})])
        for prefix in [(), ("u",), ("v",), ("v", "w"), ("v", "w", "x"), ("v", "w", "x", "y"), ("none",)]:
            found = await all_parts(storage, prefix=prefix, limit=limit)
            assert sorted(found) == sorted(part for part in parts if part[: len(prefix)] == prefix), prefix

    async def test_parts_that_stay_are_listed_once_while_others_come_and_go(self, storage: Storage) -> None:
        stay = [(f"stay-{n}",) for n in range(10)]
        for n in range(10):
            await put(storage, "1", part=stay[n])
            await put(storage, "1", part=(f"go-{n}",))
        found: list[tuple[str, ...]] = []
        cursor = None
        for n in range(100):
            page = await storage.parts("notes", cursor=cursor, limit=3)
            found += page.parts
            cursor = page.cursor
            if cursor is None:
                break
            await storage.commit([Delete(key("1", (f"go-{n}",)))])
            await put(storage, "1", part=(f"come-{n}",))
        assert sorted(part for part in found if part in stay) == stay
        assert len(set(found)) == len(found)

    async def test_a_part_without_records_is_not_listed(self, storage: Storage) -> None:
        await put(storage, "1", part=("a",))
        await put(storage, "1", part=("b",))
        await storage.commit([Delete(key("1", ("a",)))])
        assert await all_parts(storage) == [("b",)]
        await put(storage, "2", part=("a",))
        assert sorted(await all_parts(storage)) == [("a",), ("b",)]

    async def test_spaces_are_made_on_use_and_declared_alike_by_all(self, storage: Storage) -> None:
        await storage.setup(Space("logs", log=True), Space("notes"))
        await storage.setup(Space("logs", log=True))
        with pytest.raises(InputError, match="logs"):
            await storage.setup(Space("logs"))
        await put(storage, "1", space="undeclared")
        assert await all_parts(storage, "undeclared") == [PART]

    async def test_verify_reports_and_changes_nothing(self, storage: Storage) -> None:
        await put(storage, "1", {"v": 1})
        before = await storage.scan([Span("notes", PART)])
        assert all(isinstance(finding, str) for finding in await storage.verify())
        assert await storage.scan([Span("notes", PART)]) == before

    async def test_a_closed_storage_can_be_used_again(self, storage: Storage) -> None:
        await put(storage, "1", {"v": 1})
        for _ in range(2):
            await storage.close()
            await storage.close()
            record = await one(storage, "1")
            assert record is not None
            assert record.body == {"v": 1}

    @needs("shared")
    async def test_two_objects_on_one_medium_see_each_other(self, storage: Storage, reopened: Storage) -> None:
        rev = await put(storage, "1", {"v": 1})
        record = await one(reopened, "1")
        assert record is not None
        assert record.rev == rev
        await put(reopened, "1", {"v": 2}, if_rev=rev)
        with pytest.raises(ConflictError):
            await put(storage, "1", {"v": 3}, if_rev=rev)
        await reopened.commit([Delete(key("1"))])
        assert await one(storage, "1") is None
        assert await all_parts(storage) == []
