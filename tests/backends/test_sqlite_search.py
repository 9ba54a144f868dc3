"""Search in SQLite: words, tags and vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locus.errors import (
    SetupError,
)
from locus.storage._where import check_where, matches
from locus.storage.base import Delete, Put, Query, Space
from locus.storage.sqlite import SQLiteStorage
from locus.storage.sync import SyncStorage
from tests.backends.sqlite_files import (
    execute,
    key,
)

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locus.db"


@pytest.fixture
def sync(path: Path) -> Iterator[SyncStorage]:
    with SyncStorage(SQLiteStorage(path)) as sync:
        yield sync


class TestSearch:
    @pytest.mark.parametrize(
        "asked",
        ['"', '""', "'", "apple OR", "NOT apple", "NEAR(apple pear)", "text:apple", "apple*", "^apple", "(", "-apple",
         '" OR rowid > 0 --', "apple\0pear", "{apple} : x", "\ud800 apple", "notes$text", "a" * 10_000, "apple " * 5_000],
    )  # fmt: skip
    def test_no_text_is_ever_query_syntax(self, sync: SyncStorage, asked: str) -> None:
        sync.commit([Put(key(1), {}, text="an apple"), Put(key(2), {}, text="a plum")])
        found = [hit.record.key.sort for hit in sync.search(Query("notes", text=asked))]
        assert found == (["000001"] if "apple" in asked else [])

    def test_nothing_but_punctuation_finds_nothing(self, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="an apple ... !")])
        assert sync.search(Query("notes", text="... !")) == []

    def test_any_word_is_found_again_a_thousand_words_wide(self, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="apple")])
        many = " ".join(f"w{n}" for n in range(1_000))
        assert len(sync.search(Query("notes", text=f"{many} apple"))) == 1
        assert sync.search(Query("notes", text=f"{many} apple", match="all")) == []

    def test_a_part_of_a_chinese_or_japanese_text_is_found(self, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="私は東京に住んでいます"), Put(key(2), {}, text="我喜欢喝咖啡")])
        assert [hit.record.key.sort for hit in sync.search(Query("notes", text="東京", match="all"))] == ["000001"]
        assert [hit.record.key.sort for hit in sync.search(Query("notes", text="咖啡", match="all"))] == ["000002"]

    def test_inflected_and_accented_forms_are_found(self, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="Running to the Café")])
        assert len(sync.search(Query("notes", text="run"))) == len(sync.search(Query("notes", text="cafe"))) == 1

    def test_replaced_and_deleted_texts_are_not_found(self, sync: SyncStorage) -> None:
        sync.commit([Put(key(1), {}, text="apple"), Put(key(2), {}, text="apple")])
        sync.commit([Put(key(1), {}, text="pear"), Delete(key(2)), Put(key(3), {}, text="plum")])
        assert sync.search(Query("notes", text="apple")) == []
        assert [hit.record.key.sort for hit in sync.search(Query("notes", text="pear plum"))] != []

    def test_without_fts5_texts_are_searched_here(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("locus.storage.sqlite.has_fts5", lambda: False)
        with SyncStorage(SQLiteStorage(path)) as plain:
            assert plain.capabilities.client_side == {"text", "vector"}
            plain.commit([Put(key(n), {}, text=text) for n, text in enumerate(["apple pie", "plum"])])
            assert [hit.record.key.sort for hit in plain.search(Query("notes", text="apple"))] == ["000000"]
        monkeypatch.undo()
        with SyncStorage(SQLiteStorage(path)) as indexed:
            assert [hit.record.key.sort for hit in indexed.search(Query("notes", text="apple"))] == ["000000"]
        monkeypatch.setattr("locus.storage.sqlite.has_fts5", lambda: False)
        with SyncStorage(SQLiteStorage(path)) as plain, pytest.raises(SetupError, match="FTS5"):
            plain.get([key(1)])

    @pytest.mark.parametrize(
        ("metric", "order"), [("cosine", ["c", "b", "a"]), ("dot", ["a", "b", "c"]), ("l2", ["c", "b", "a"])]
    )
    def test_the_nearest_vector_is_first(self, sync: SyncStorage, metric: Any, order: list[str]) -> None:
        sync.setup(Space("notes", metric=metric))
        vectors = {"a": [5.0, 4.0], "b": [2.0, 0.5], "c": [1.1, 0.1], "short": [1.0], "long": [1.0, 0.0, 0.0]}
        sync.commit([Put(key(name), {}, vector=vector) for name, vector in vectors.items()])
        hits = sync.search(Query("notes", vector=[1.0, 0.0]))
        assert [hit.record.key.sort for hit in hits] == order
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_vectors_come_back_as_they_were(self, sync: SyncStorage) -> None:
        exact, short = (0.1, 1e300, -3.0), (0.5, -2.0, 1024.0)
        sync.commit([Put(key(1), {}, vector=exact), Put(key(2), {}, vector=short)])
        assert [record and record.vector for record in sync.get([key(1), key(2)])] == [exact, short]

    def test_each_part_gives_its_last_match(self, sync: SyncStorage) -> None:
        sync.commit(
            [
                Put(key(n, (part,)), {}, text="apple" if n < 3 else "plum", tags={"low": n < 2}, vector=[n, 1])
                for part in "ab"
                for n in range(4)
            ]
        )
        for query, last in (
            (Query("notes", text="apple", one_per_part=True), "000002"),
            (Query("notes", where={"low": True}, one_per_part=True), "000001"),
            (Query("notes", vector=[0.0, 1.0], one_per_part=True), "000003"),
        ):
            assert {hit.record.key.part: hit.record.key.sort for hit in sync.search(query)} == {
                ("a",): last, ("b",): last,
            }  # fmt: skip


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, "", "a", "b", "1", "\0", "\ud800", "é"]),
)  # fmt: skip
TAGS = st.dictionaries(st.sampled_from(["x", "y", "\ud800", "a'b"]), SCALARS, max_size=3)
CONDITIONS = st.one_of(
    SCALARS,
    st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), SCALARS, min_size=1, max_size=2),
    st.fixed_dictionaries({"$in": st.lists(SCALARS, max_size=4)}),
)


def _is_exact(value: object) -> bool:
    return not isinstance(value, int) or abs(value) < 2**63


class TestFilters:
    @given(data=st.data())
    def test_filters_mean_what_they_mean_everywhere(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        tagged = data.draw(st.lists(TAGS.filter(lambda tags: all(map(_is_exact, tags.values()))), max_size=6))
        where = data.draw(st.dictionaries(st.sampled_from(["x", "y", "\ud800"]), CONDITIONS, max_size=2))
        folder = tmp_path_factory.mktemp("filters")
        with SyncStorage(SQLiteStorage(folder / "locus.db", durability="process")) as sync:
            sync.commit([Put(key(n), {}, tags=tags) for n, tags in enumerate(tagged)])
            found = {hit.record.key.sort for hit in sync.search(Query("notes", where=where, limit=100))}
            assert found == {f"{n:06d}" for n, tags in enumerate(tagged) if matches(tags, check_where(where))}

    def test_filters_follow_what_is_replaced_and_deleted(self, path: Path, sync: SyncStorage) -> None:
        sync.commit([Put(key(n), {}, tags={"user": "ada", "n": n}) for n in range(3)])
        sync.commit([Put(key(0), {}, tags={"user": "bob"}), Put(key(1), {}), Delete(key(2))])
        assert sync.search(Query("notes", where={"user": "ada"})) == []
        assert execute(path, 'SELECT name, value FROM "notes$tags"') == [("user", "bob")]
