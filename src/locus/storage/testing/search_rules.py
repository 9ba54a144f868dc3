"""Search: words, vectors and tags, alone and together, and what a storage that lacks one answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import mul
from typing import Any, Literal

import pytest

from locus.errors import InputError, UnsupportedError
from locus.storage._where import check_where, matches
from locus.storage.base import Delete, Put, Query, Scalar, Space, Storage
from locus.storage.testing.rules import found, key, needs, put, refuses
from locus.storage.testing.simulation import FakeClock

INJECTIONS = [
    '"', "'", "''", '"" OR', "*", "cat*", "(", ")", "cat AND", "cat OR (", "NOT cat", "NEAR(cat dog)", "text:cat", "-cat",
    "+cat", "^cat", "cat~2", "cat^5", "\\", "%", "_", "cat\0", "\0", "\ud800cat", "{cat}", "[cat TO dog]", "cat:*", "!cat",
    "cat & dog", "cat | ", "'; DROP TABLE notes; --", "$where", "/cat/", "<cat>", "@cat", "#cat", "cat\ndog", "😀",
]  # fmt: skip

TAGS: list[dict[str, Scalar]] = [
    {}, {"a": None}, {"a": True}, {"a": False}, {"a": 0}, {"a": 1}, {"a": 1.0}, {"a": 1.5}, {"a": -2}, {"a": 10**12},
    {"a": ""}, {"a": "1"}, {"a": "true"}, {"a": "null"}, {"a": "B"}, {"a": "a"}, {"a": "é"}, {"a": "a b'c\"d"}, {"b": 1},
    {"a": 1, "b": "x"}, {"a.b": 1}, {"$a": 1}, {"a": "x", "b": "x"},
]  # fmt: skip


class SearchRules:
    @needs("text")
    async def test_words_are_found_whole_and_without_regard_to_case(self, storage: Storage) -> None:
        texts = {"1": "The Cat sat.", "2": "concatenate", "3": "a CAT, a dog", "4": "bird"}
        for sort, text in texts.items():
            await put(storage, sort, text=text)
        await put(storage, "5", {"text": "cat"})
        for asked in ("cat", "CAT", "Cat!", " cat? "):
            assert set(await found(storage, Query("notes", text=asked))) == {"1", "3"}
        assert await found(storage, Query("notes", text="fish")) == []

    @needs("text")
    async def test_any_word_finds_and_all_words_narrow(self, storage: Storage) -> None:
        texts = {"1": "red apple", "2": "red brick wall", "3": "green apple tree", "4": "blue sky"}
        for sort, text in texts.items():
            await put(storage, sort, text=text)
        assert set(await found(storage, Query("notes", text="red apple"))) == {"1", "2", "3"}
        assert await found(storage, Query("notes", text="red apple", match="all")) == ["1"]
        assert await found(storage, Query("notes", text="apple sky", match="all")) == []

    @needs("text")
    async def test_better_matches_come_first(self, storage: Storage) -> None:
        filler = "some other words that say nothing of it"
        await put(storage, "1", text=f"red {filler}")
        await put(storage, "2", text=f"red apple {filler}")
        for n in range(5):
            await put(storage, f"x{n}", text=f"red {filler}")
        hits = await storage.search(Query("notes", text="red apple"))
        assert hits[0].record.key.sort == "2"
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    @needs("text")
    async def test_a_question_without_words_finds_nothing(self, storage: Storage) -> None:
        await put(storage, "1", text="... what? !")
        for asked in ("", " ", "?", "...", "\n", '"', "()", "*"):
            assert await found(storage, Query("notes", text=asked)) == []

    @needs("text")
    async def test_what_looks_like_syntax_is_only_words(self, storage: Storage) -> None:
        await put(storage, "1", text="cat")
        await put(storage, "2", text="fish")
        for asked in INJECTIONS:
            hits = await found(storage, Query("notes", text=asked))
            assert hits == (["1"] if "cat" in asked else []), asked

    @needs("text")
    async def test_scripts_without_spaces_are_found_by_a_part_of_a_sentence(self, storage: Storage) -> None:
        await put(storage, "1", text="私は東京に住んでいます")
        await put(storage, "2", text="犬が好きです")
        await put(storage, "3", text="我们在北京见面")
        assert await found(storage, Query("notes", text="東京", match="all")) == ["1"]
        assert await found(storage, Query("notes", text="北京", match="all")) == ["3"]
        assert await found(storage, Query("notes", text="犬")) == ["2"]

    @needs("text")
    async def test_text_that_was_changed_or_deleted_is_not_found(self, storage: Storage) -> None:
        await put(storage, "1", text="apple")
        await put(storage, "2", text="apple")
        await put(storage, "3", text="apple")
        await put(storage, "1", text="pear")
        await put(storage, "3")
        await storage.commit([Delete(key("2"))])
        assert await found(storage, Query("notes", text="apple")) == []
        assert await found(storage, Query("notes", text="pear")) == ["1"]

    @needs("text")
    async def test_hits_are_whole_records(self, storage: Storage) -> None:
        await put(storage, "1", {"v": [1]}, text="apple", tags={"a": 1}, blob=b"x")
        (hit,) = await storage.search(Query("notes", text="apple"))
        assert [hit.record] == await storage.get([key("1")])

    @needs("filters")
    async def test_filters_agree_with_the_reference(self, storage: Storage) -> None:
        sorts = [f"{n:02d}" for n in range(len(TAGS))]
        await storage.commit([Put(key(sort), {}, tags=tags) for sort, tags in zip(sorts, TAGS, strict=True)])
        values: list[Scalar] = [None, True, False, 0, 1, 1.0, 1.5, -3, 10**12, "", "1", "true", "B", "a", "é", "z"]
        wheres: list[Mapping[str, Any]] = [{"a": value} for value in values]
        for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
            wheres += [{"a": {operator: value}} for value in values]
        wheres += [{"a": {"$in": choice}} for choice in ([], [1], [None, "a"], [True, 1.5, "é"], [False, 0])]
        wheres += [{"a": {"$gte": 1, "$lt": 2}}, {"a": 1, "b": "x"}, {"a.b": 1}, {"$a": 1}, {"b": {"$ne": "x"}}, {}]
        wheres += [{"a": "a b'c\"d"}, {"missing": None}, {"missing": {"$ne": 1}}, {"a": {"$gt": "a", "$ne": "é"}}]
        for where in wheres:
            expected = {s for s, tags in zip(sorts, TAGS, strict=True) if matches(tags, check_where(where))}
            assert set(await found(storage, Query("notes", where=where, limit=100))) == expected, where

    @needs("filters")
    async def test_filters_that_make_no_sense_are_refused(self, storage: Storage) -> None:
        await put(storage, "1", tags={"a": 1})
        refused: list[Any] = [
            {"a": {"$regex": "x"}}, {"a": {"gt": 1}}, {"a": [1]}, {"a": {"$in": 3}}, {"a": {"$eq": {}}}, {"": 1}, {1: 1},
            {"a": math.nan}, "a", ["a"],
        ]  # fmt: skip
        for where in refused:
            with pytest.raises(InputError):
                await storage.search(Query("notes", where=where))

    @needs("filters")
    async def test_tags_that_were_changed_are_not_found(self, storage: Storage) -> None:
        await put(storage, "1", tags={"a": 1, "b": 2})
        await put(storage, "1", tags={"a": 2})
        assert await found(storage, Query("notes", where={"a": 1})) == []
        assert await found(storage, Query("notes", where={"b": 2})) == []
        assert await found(storage, Query("notes", where={"a": 2})) == ["1"]

    async def test_without_text_and_vector_the_newest_come_first(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock()
        for sort in ("3", "1", "2", "1"):
            await put(storage, sort)
            clock.advance(1)
        assert await found(storage, Query("notes")) == ["1", "2", "3"]

    async def test_pages_follow_on_each_other(self, storage: Storage) -> None:
        clock = storage.clock = FakeClock()
        for n in range(7):
            await put(storage, f"{n}", text="apple " * (n + 1) if storage.capabilities.text else None)
            clock.advance(1)
        text = "apple" if storage.capabilities.text else None
        whole = await found(storage, Query("notes", text=text, limit=100))
        assert sorted(whole) == [f"{n}" for n in range(7)]
        pages = [await found(storage, Query("notes", text=text, limit=3, offset=at)) for at in (0, 3, 6, 9)]
        assert pages == [whole[:3], whole[3:6], whole[6:], []]
        assert await found(storage, Query("notes", text=text, limit=0)) == []

    async def test_a_prefix_narrows_to_its_parts(self, storage: Storage) -> None:
        for n, part in enumerate([("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a"), ("a/b",), ("A",)]):
            await put(storage, str(n), part=part)
        await put(storage, "9", part=("a",), space="others")
        for prefix, expected in {("a",): "012", ("a", "b"): "12", ("a/b",): "5", ("x",): "", ("b",): "4"}.items():
            assert sorted(await found(storage, Query("notes", prefix))) == list(expected)

    @needs("text")
    @needs("filters")
    async def test_one_per_part_is_the_last_that_matches(self, storage: Storage) -> None:
        for part in (("a",), ("b",)):
            await put(storage, "1", part=part, text="red", tags={"n": 1})
            await put(storage, "2", part=part, text="red red", tags={"n": 2})
            await put(storage, "3", part=part, text="blue", tags={"n": 3})
        await put(storage, "4", part=("b",), text="red", tags={"n": 4})
        one_each = Query("notes", one_per_part=True)
        assert await _places(storage, one_each) == {("a",): "3", ("b",): "4"}
        red = Query("notes", text="red", one_per_part=True)
        assert await _places(storage, red) == {("a",): "2", ("b",): "4"}
        small = Query("notes", text="red", where={"n": {"$lt": 2}}, one_per_part=True)
        assert await _places(storage, small) == {("a",): "1", ("b",): "1"}
        assert len(await storage.search(Query("notes", one_per_part=True, limit=1, offset=1))) == 1

    @pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
    @needs("vector")
    async def test_the_nearest_vectors_come_first(
        self, storage: Storage, metric: Literal["cosine", "dot", "l2"]
    ) -> None:
        await storage.setup(Space("pictures", dimension=3, metric=metric))
        vectors = {"1": (1.0, 0.0, 0.0), "2": (0.9, 0.5, 0.0), "3": (0.0, 3.0, 1.0), "4": (-1.0, 0.1, 0.2)}
        for sort, vector in vectors.items():
            await put(storage, sort, space="pictures", vector=vector)
        await put(storage, "5", space="pictures")
        wanted = (1.0, 0.3, 0.1)
        expected = sorted(vectors, key=lambda sort: -_nearness(metric, wanted, vectors[sort]))
        hits = await storage.search(Query("pictures", vector=wanted))
        assert [hit.record.key.sort for hit in hits] == expected
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert await found(storage, Query("pictures", vector=wanted, limit=2, offset=1)) == expected[1:3]

    @needs("vector")
    async def test_vectors_that_were_changed_or_deleted_are_not_found(self, storage: Storage) -> None:
        await storage.setup(Space("pictures", dimension=2))
        for sort in "123":
            await put(storage, sort, space="pictures", vector=[1.0, 0.0])
        await put(storage, "1", space="pictures")
        await storage.commit([Delete(key("2", space="pictures"))])
        await put(storage, "3", space="pictures", vector=[0.0, 1.0])
        (hit,) = await storage.search(Query("pictures", vector=[1.0, 0.0]))
        assert (hit.record.key.sort, list(hit.record.vector or ())) == ("3", [0.0, 1.0])

    @needs("vector")
    @needs("filters")
    async def test_vectors_are_narrowed_by_tags_and_prefix_before_the_limit(self, storage: Storage) -> None:
        await storage.setup(Space("pictures", dimension=2))
        for n in range(12):
            vector = [1.0, n / 10]
            tags = {"odd": bool(n % 2)}
            await put(storage, f"{n:02d}", space="pictures", part=(f"p{n % 3}",), vector=vector, tags=tags)
        query = Query("pictures", ("p2",), vector=[1.0, 0.0], where={"odd": True}, limit=2)
        assert await found(storage, query) == ["05", "11"]

    @needs("text")
    @needs("vector")
    async def test_text_and_vector_together_favour_what_both_find(self, storage: Storage) -> None:
        await storage.setup(Space("pictures", dimension=2))
        rows = {"1": ("cat", [0.0, 1.0]), "2": ("cat", [1.0, 0.1]), "3": ("dog", [1.0, 0.2]), "4": ("dog", None)}
        for sort, (text, vector) in rows.items():
            await put(storage, sort, space="pictures", text=text, vector=vector)
        hits = await found(storage, Query("pictures", text="cat", vector=[1.0, 0.0]))
        assert hits[0] == "2"
        assert set(hits) == {"1", "2", "3"}
        each = await storage.search(Query("pictures", text="cat", vector=[1.0, 0.0], one_per_part=True))
        assert [hit.record.key.sort for hit in each] == ["3"]

    @refuses("text")
    async def test_a_storage_without_text_search_says_so(self, storage: Storage) -> None:
        with pytest.raises(UnsupportedError, match="text"):
            await storage.search(Query("notes", text="a"))

    @refuses("vector")
    async def test_a_storage_without_vectors_says_so(self, storage: Storage) -> None:
        with pytest.raises(UnsupportedError, match="vector"):
            await storage.search(Query("notes", vector=[1.0]))
        with pytest.raises(UnsupportedError, match="vector"):
            await put(storage, "1", vector=[1.0])

    @refuses("filters")
    async def test_a_storage_without_filters_says_so(self, storage: Storage) -> None:
        with pytest.raises(UnsupportedError, match="filters"):
            await storage.search(Query("notes", where={"a": 1}))


async def _places(storage: Storage, query: Query) -> dict[tuple[str, ...], str]:
    hits = await storage.search(query)
    places = {hit.record.key.part: hit.record.key.sort for hit in hits}
    assert len(places) == len(hits)
    return places


def _nearness(metric: str, a: tuple[float, ...], b: tuple[float, ...]) -> float:
    if metric == "l2":
        return -math.dist(a, b)
    dot = math.fsum(map(mul, a, b))
    return dot if metric == "dot" else dot / (math.hypot(*a) * math.hypot(*b))
