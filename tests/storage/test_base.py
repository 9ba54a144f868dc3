"""Ids, JSON, words and filters: what every storage builds on."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from locus._ids import check_name, encode_name, new_id, new_token
from locus.errors import CorruptRecordError, InputError
from locus.storage import Query, Record, Space
from locus.storage._fallback import search
from locus.storage._files import decode_directory, encode_directory
from locus.storage._json import MAX_DEPTH, decode_json, encode_json
from locus.storage._text import query_words, words
from locus.storage._where import check_where, matches
from locus.storage.base import Key

ANY_TEXT = st.text(st.characters(), min_size=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(ANY_TEXT)
@example("\ud800")
@example("x" * 5000)
def test_an_encoded_name_is_short_and_safe(name: str) -> None:
    code = encode_name(name)
    assert 1 <= len(code) <= 48
    assert set(code) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_%~")


@given(st.lists(ANY_TEXT, min_size=2, unique=True))
@example(["é", "e\u0301", "E", "e", "%c3%a9", "a" * 48, "a" * 49, "a" * 50])
def test_different_names_have_different_codes(names: list[str]) -> None:
    assert len({encode_name(name) for name in names}) == len(names)


def test_plain_names_stay_readable() -> None:
    assert encode_name("thread-1_a") == "thread-1_a"
    assert encode_name("user:ada") == "user%3aada"
    assert encode_name("A") == "%41"


@pytest.mark.parametrize("value", ["", None, 3, b"a", ["a"]])
def test_only_non_empty_strings_are_names(value: object) -> None:
    with pytest.raises(InputError):
        check_name(value)


def test_new_ids_are_unique_and_in_order() -> None:
    ids = [new_id("c-") for _ in range(1000)]
    assert ids == sorted(set(ids))
    assert len({new_token() for _ in range(1000)}) == 1000


@given(st.lists(ANY_TEXT, min_size=1, max_size=12).map(tuple))
@example(("a", "b"))
@example(("é" * 100,) * 12)
def test_the_directory_of_a_part_tells_its_names_or_hides_them(part: tuple[str, ...]) -> None:
    name = encode_directory(part)
    assert len(name) <= 240
    assert decode_directory(name) in {part, None}
    assert encode_directory((*part[:11], "another")) != name or part == (*part[:11], "another")


@given(st.dictionaries(ANY_TEXT, JSON, max_size=4))
def test_json_comes_back_as_it_was(body: dict[str, Any]) -> None:
    text = encode_json(body)
    text.encode("utf-8")
    assert decode_json(text, "here") == body


@pytest.mark.parametrize("body", [{"a": math.nan}, {1: 2}, {"a": {None: 1}}, {"a": b""}, [1], None, {"a": object()}])
def test_what_json_would_change_is_refused(body: Any) -> None:
    with pytest.raises(InputError):
        encode_json(body)


def test_nesting_is_allowed_to_the_documented_depth() -> None:
    body: dict[str, Any] = {}
    for _ in range(MAX_DEPTH - 1):
        body = {"a": body}
    assert decode_json(encode_json(body), "here") == body
    with pytest.raises(InputError, match="200 levels"):
        encode_json({"a": body})
    with pytest.raises(InputError, match="200 levels"):
        encode_json({"a": [body]})


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"', b"\xff", "{}{}", "[" * 100_000])
def test_what_cannot_have_been_stored_is_corrupt(text: str | bytes) -> None:
    with pytest.raises(CorruptRecordError, match="here"):
        decode_json(text, "here")


def test_words_ignore_case_and_accents_and_cut_chinese_and_japanese() -> None:
    assert words("Hello, WORLD! it's snake_case 42") == ["hello", "world", "it", "s", "snake_case", "42"]
    assert words("Crème BRÛLÉE straße") == ["creme", "brulee", "strasse"]
    assert words(unicodedata.normalize("NFD", "Crème")) == ["creme"]
    assert words("東京tower") == ["東", "京", "tower"]
    assert words("が か") == ["が", "か"]
    assert words("?! ...") == []
    assert query_words("a b A c b") == ["a", "b", "c"]


def record(sort: str, *, text: str | None = None, vector: tuple[float, ...] | None = None) -> Record:
    return Record(Key("notes", ("a",), sort), {}, "r", "t", 0.0, float(len(sort)), text=text, vector=vector)


def test_the_fallback_ranks_rare_words_and_short_texts_higher() -> None:
    filler = "and so on " * 20
    records = [record("1", text="cat"), record("2", text="cat " + filler), record("3", text="dog " + filler)]
    records += [record(f"x{n}", text="cat cat " + filler) for n in range(5)]
    hits = search(records, Query("notes", text="cat dog", where={}, limit=3), Space("notes"))
    assert [hit.record.key.sort for hit in hits][:2] == ["3", "1"]


def test_the_fallback_leaves_out_vectors_of_another_length() -> None:
    records = [record("1", vector=(1.0, 0.0)), record("2", vector=(1.0,)), record("3"), record("4", vector=(0.0, 0.0))]
    hits = search(records, Query("notes", vector=(1.0, 0.0)), Space("notes"))
    assert [(hit.record.key.sort, hit.score) for hit in hits] == [("1", 1.0), ("4", 0.0)]


@pytest.mark.parametrize(
    ("tags", "where", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({}, {"a": {"$ne": 1}}, True),
        ({"a": "b"}, {"a": {"$gt": 1}}, False),
        ({"a": 5}, {"a": {"$gt": 1, "$lte": 5}}, True),
        ({"a": 5}, {"a": {"$in": [1, "5"]}}, False),
    ],
)
def test_values_compare_only_with_their_own_kind(tags: dict[str, Any], where: dict[str, Any], expected: bool) -> None:
    assert matches(tags, check_where(where)) is expected


def test_a_filter_survives_a_trip_through_json() -> None:
    where = check_where({"a": {"$in": [1, None, "x"]}, "b": 2})
    assert check_where(json.loads(json.dumps(where))) == where
