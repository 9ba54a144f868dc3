"""Names and values: any string is an id, any JSON comes back as it was, and what cannot is refused harmlessly."""

from __future__ import annotations

import math
import sys
import unicodedata
from typing import Any

import pytest

from locus.errors import InputError
from locus.storage.base import MAX_RECORD_BYTES, Key, Put, Query, Space, Span, Storage
from locus.storage.testing.rules import PART, all_parts, key, needs, one, put, sorts

HOSTILE_NAMES = [
    "a", "A", "a ", " a", "a:b", "a/b", "a\\b", "../../x", "..", ".", "latest", "%", "%41", "~", "'", '"', "`", ";",
    "x' OR '1'='1", "*", "?", "[a]", "{a}", "$a", "#a", "a+b", "a,b", "a\0b", "\0", "a\nb", "a\r\nb", "\t", "CON", "con",
    "nul.txt", "-", "_", "--", "-rf", "None", "null", "0", "1e9", "😀", "é", "e\u0301", "ß", "ss", "İ", "\u202e", "中文",
    "\ud800", "\udfff", "a\ud83d", "\uffff", "\U0010ffff", "x" * 48, "x" * 49, "x" * 255, "x" * 256, "x" * 2000,
    "é" * 300, "x" * 1999 + "y", "X" * 2000, "/" * 300, "+", "+part.json", "locus.json",
]  # fmt: skip

ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, 0.1, 1e-320, 1.7976931348623157e308, 2**53 + 1, 2**63, -(2**63), 2**80,
    10**40, "", " ", "a\0b", "\0", "\ud800", "x\udfffy", "😀", "e\u0301", "é", "\u2028", '"\\/', "\x7f\x1f", [], {},
    [[]], [None], {"": 1}, {"a\0": 1}, {"\ud800": 1}, {"$ref": 1}, {"a.b": {"c": [1, 2.5, "x"]}}, ["1", 1, 1.0, True],
    "</script>", "NaN", "2024-01-01T00:00:00Z", "x" * 70_000, {"é": "é", "e\u0301": 2},
]  # fmt: skip


def depth(value: object) -> int:
    """How many levels a value has."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def exactly(value: object) -> object:
    """A value with the types of everything in it, since `1 == 1.0 == True`."""
    if isinstance(value, dict):
        return [(name, exactly(inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [exactly(inner) for inner in value]
    return (type(value), repr(value))


class ValueRules:
    async def test_any_non_empty_string_is_a_name_of_its_own(self, storage: Storage) -> None:
        parts: list[tuple[str, ...]] = [(name,) for name in HOSTILE_NAMES] + [(name, "x") for name in HOSTILE_NAMES]
        parts += [
            ("a", "b"),
            ("b", "a"),
            ("a", "b", "c"),
            ("a", "b/c"),
            ("x",) * 12,
            ("é" * 60,) * 12,
            ("y" * 99,) * 12,
        ]
        assert len(set(parts)) == len(parts)
        for number in range(0, len(parts), 20):
            await storage.commit(
                [Put(key("1", part), {"n": n}) for n, part in enumerate(parts[number : number + 20], number)]
            )
        assert sorted(await all_parts(storage, limit=33)) == sorted(parts)
        records = await storage.get([key("1", part) for part in parts])
        assert [record and (record.body["n"], record.key.part) for record in records] == list(enumerate(parts))
        for name in HOSTILE_NAMES:
            assert await all_parts(storage, prefix=(name, "x")) == [(name, "x")]
            assert (name,) in await all_parts(storage, prefix=(name,))

    async def test_names_that_look_alike_are_different(self, storage: Storage) -> None:
        assert unicodedata.normalize("NFC", "e\u0301") == "é"
        for name in ("é", "e\u0301", "E", "e", "e "):
            await put(storage, "1", {"name": name}, part=(name,))
        for name in ("é", "e\u0301", "E", "e", "e "):
            ((record,),) = await storage.scan([Span("notes", (name,))])
            assert (record.body, record.key) == ({"name": name}, key("1", (name,)))

    async def test_what_can_be_no_key_is_refused_and_harms_nothing(self, storage: Storage) -> None:
        bad_parts: list[Any] = [(), ("",), ("a", ""), (None,), (3,), (b"a",), ("a",) * 13, "ab", ["a"], None]
        for part in bad_parts:
            for call in (
                lambda part=part: storage.get([Key("notes", part, "1")]),
                lambda part=part: storage.scan([Span("notes", part)]),
                lambda part=part: storage.commit([Put(key("1"), {}), Put(Key("notes", part, "1"), {})]),
            ):
                with pytest.raises(InputError):
                    await call()
        bad_sorts: list[Any] = ["", "A", "a b", "a/b", "a" * 161, "é", "a\n", "+", None, 1]
        for sort in bad_sorts:
            with pytest.raises(InputError):
                await storage.commit([Put(key("1"), {}), Put(key(sort), {})])
        for space in ("", "Notes", "1a", "a b", "a.b", "a" * 49, "../x"):
            with pytest.raises(InputError):
                await storage.get([key("1", space=space)])
        assert await all_parts(storage) == []

    async def test_limits_that_are_no_count_are_refused(self, storage: Storage) -> None:
        bad: list[Any] = [-1, 1.5, True, "3"]
        for limit in bad:
            for call in (
                lambda limit=limit: storage.scan([Span("notes", PART, limit=limit)]),
                lambda limit=limit: storage.parts("notes", limit=limit),
                lambda limit=limit: storage.search(Query("notes", limit=limit)),
                lambda limit=limit: storage.search(Query("notes", offset=limit)),
            ):
                with pytest.raises(InputError):
                    await call()

    async def test_json_comes_back_exactly(self, storage: Storage) -> None:
        await storage.commit([Put(key(f"{n:03d}"), {"value": value}) for n, value in enumerate(ODD_VALUES)])
        (records,) = await storage.scan([Span("notes", PART)])
        for value, record in zip(ODD_VALUES, records, strict=True):
            assert exactly(record.body) == exactly({"value": value})
        first = await one(storage, "000")
        assert first is not None
        assert exactly(first.body) == exactly({"value": ODD_VALUES[0]})

    async def test_the_order_of_a_body_is_kept(self, storage: Storage) -> None:
        await put(storage, "1", {"b": 1, "a": 2, "c": {"z": 1, "y": 2}})
        record = await one(storage, "1")
        assert record is not None
        assert exactly(record.body) == exactly({"b": 1, "a": 2, "c": {"z": 1, "y": 2}})

    async def test_two_hundred_levels_are_kept_and_more_are_refused(self, storage: Storage) -> None:
        body: dict[str, Any] = {"end": 1}
        while depth(body) < 200:
            body = {"in": body}
        await put(storage, "1", body)
        record = await one(storage, "1")
        assert record is not None
        assert record.body == body
        with pytest.raises(InputError, match="200"):
            await put(storage, "2", {"in": body})
        deep: dict[str, Any] = {}
        for _ in range(5_000):
            deep = {"in": deep}
        itself: dict[str, Any] = {}
        itself["me"] = itself
        for refused in (deep, itself):
            with pytest.raises(InputError):
                await put(storage, "2", refused)
        assert await sorts(storage) == ["1"]

    async def test_what_is_not_json_is_refused(self, storage: Storage) -> None:
        refused: list[Any] = [
            {"a": math.nan}, {"a": math.inf}, {"a": -math.inf}, {1: "a"}, {"a": {None: 1}}, {"a": [{True: 1}]},
            {"a": b"x"}, {"a": {1, 2}}, {"a": object()}, {"a": 1j}, [1], "text", None, 3,
        ]  # fmt: skip
        for body in refused:
            with pytest.raises(InputError):
                await storage.commit([Put(key("1"), {}), Put(key("2"), body)])
        assert await sorts(storage) == []

    async def test_tags_and_times_of_other_kinds_are_refused(self, storage: Storage) -> None:
        refused: list[dict[str, Any]] = [
            {"tags": {"a": [1]}}, {"tags": {"a": math.nan}}, {"tags": {"": 1}}, {"tags": {1: 1}}, {"tags": {"a": b"x"}},
            {"expires_at": math.nan}, {"expires_at": "soon"}, {"expires_at": 10**30}, {"expires_at": 10**400},
            {"tags": {"a": 10**5_000}}, {"blob": "text"}, {"token": 5}, {"token": ""},
        ]  # fmt: skip
        for fields in refused:
            with pytest.raises(InputError):
                await storage.commit([Put(key("1"), {}), Put(key("2"), {}, **fields)])
        assert await sorts(storage) == []

    async def test_a_limit_may_be_any_whole_number(self, storage: Storage) -> None:
        await put(storage, "1", text="apple")
        for limit in (sys.maxsize, 10**30):
            assert [len(some) for some in await storage.scan([Span("notes", PART, limit=limit)])] == [1]
            assert (await storage.parts("notes", limit=limit)).parts == [PART]
            assert len(await storage.search(Query("notes", limit=limit))) == 1
            assert await storage.search(Query("notes", limit=limit, offset=limit)) == []
        for refused in (-1, 1.0, True, "1"):
            with pytest.raises(InputError):
                await storage.parts("notes", limit=refused)  # type: ignore[arg-type]  # that is the point

    async def test_spans_and_filters_that_no_storage_could_take_are_refused(self, storage: Storage) -> None:
        await put(storage, "1", tags={"n": 1})
        bounds: list[Any] = ["\ud800", "é", 5]
        for bound in bounds:
            for span in (Span("notes", PART, start=bound), Span("notes", PART, end=bound)):
                with pytest.raises(InputError):
                    await storage.scan([span])
        assert len(await storage.search(Query("notes", where={"n": {"$in": list(range(30_000))}}))) == 1
        assert len(await storage.search(Query("notes", where={f"n{at}": {"$ne": 1} for at in range(500)}))) == 1
        refused: list[dict[str, Any]] = [
            {"n": {"$in": list(range(30_001))}},
            {f"n{at}": {"$ne": 1} for at in range(501)},
        ]
        for where in refused:
            with pytest.raises(InputError, match="search several times"):
                await storage.search(Query("notes", where=where))

    async def test_ten_megabytes_fit_and_over_the_limit_is_refused(self, storage: Storage) -> None:
        large = {"text": "x" * (10 * 1024 * 1024)}
        await put(storage, "1", large)
        record = await one(storage, "1")
        assert record is not None
        assert record.body == large
        refused: list[dict[str, Any]] = [
            {"body": {"text": "x" * MAX_RECORD_BYTES}},
            {"body": {"text": "é" * (MAX_RECORD_BYTES // 2)}},
            {"blob": bytes(MAX_RECORD_BYTES + 1)},
        ]
        for fields in refused:
            with pytest.raises(InputError, match="limit"):
                await put(storage, "2", **fields)
        assert await sorts(storage) == ["1"]

    async def test_searchable_text_may_hold_anything(self, storage: Storage) -> None:
        for number, text in enumerate(["", "a\0b", "x\ud800y", "😀 é", "'; DROP TABLE notes; --"]):
            await put(storage, str(number), text=text)
        texts = [record.text for record in (await storage.scan([Span("notes", PART)]))[0]]
        assert texts == ["", "a\ufffdb", "x\ufffdy", "😀 é", "'; DROP TABLE notes; --"]

    @needs("vector")
    async def test_vectors_that_do_not_fit_are_refused(self, storage: Storage) -> None:
        await storage.setup(Space("pictures", dimension=2))
        refused: list[list[float]] = [[], [1.0, math.nan], [math.inf, 0.0], [1.0], [1.0, 2.0, 3.0]]
        for vector in refused:
            with pytest.raises(InputError):
                await put(storage, "1", space="pictures", vector=vector)
            with pytest.raises(InputError):
                await storage.search(Query("pictures", vector=vector))
        await put(storage, "1", space="pictures", vector=[0.5, -0.25])
        record = await one(storage, "1", space="pictures")
        assert record is not None
        assert record.vector is not None
        assert list(record.vector) == [0.5, -0.25]
