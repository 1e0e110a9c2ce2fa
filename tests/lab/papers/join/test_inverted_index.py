"""The inverted index against comparing everything."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.joins.conditions import (
    Condition,
    Equal,
    InnerProduct,
    Overlap,
    Predicate,
    Subset,
    Superset,
)
from headgate_lab.papers.join.inverted_index import InvertedIndex
from headgate_lab.papers.join.matching import matches

sets = st.frozensets(st.integers(0, 7), max_size=5)
weighted = st.dictionaries(st.integers(0, 7), st.integers(1, 4).map(float), max_size=5)
numbers = st.integers(0, 4)
kinds: Any = st.one_of(
    st.tuples(
        st.sampled_from(
            [Subset("x", "x"), Superset("x", "x"), Overlap("x", "x", 1), Overlap("x", "x", 3)]
        ),
        st.just(sets),
    ),
    st.tuples(
        st.sampled_from([InnerProduct("x", "x", 3.0), InnerProduct("x", "x", 9.0)]), st.just(weighted)
    ),
    st.tuples(st.just(Equal("x", "x")), st.just(numbers)),
)


@given(st.data(), kinds, st.sampled_from(["time", "id"]))
def test_a_search_finds_what_comparing_everything_finds(
    data: st.DataObject, kind: tuple[Condition, Any], order: Literal["time", "id"]
) -> None:
    condition, values = kind
    stored = data.draw(st.lists(values, max_size=25), label="stored")
    names = data.draw(st.permutations(range(len(stored))), label="identifiers")
    query = data.draw(values, label="query")
    since = data.draw(st.sampled_from([-math.inf, 3.0, 10.0]), label="since")
    expired = data.draw(st.sampled_from([-math.inf, 2.0, 7.0]), label="expired before")
    index = InvertedIndex(order)
    for nth, one in enumerate(stored):
        index.insert(names[nth], float(nth), one)
        if nth == len(stored) // 2:
            index.expire(min(expired, float(nth)))
    index.expire(expired)
    live = [n for n in range(len(stored)) if n >= expired]
    assert len(index) == len(live)
    found = index.search(condition, query, since)
    expected = [names[n] for n in live if n >= since and matches(condition, query, stored[n])]
    assert sorted(found.identifiers) == sorted(expected)
    wanted = {query} if isinstance(query, int) else set(query)
    held = [{stored[n]} if isinstance(query, int) else set(stored[n]) for n in live]
    in_reach = [one for n, one in zip(live, held, strict=True) if order == "id" or n >= since]
    assert found.postings == sum(len(wanted & one) for one in in_reach)
    assert found.lists == len(wanted)


def test_matches_come_newest_first() -> None:
    index = InvertedIndex()
    for time in range(4):
        index.insert(10 - time, float(time), {1, 2})
    assert index.search(Overlap("x", "x", 2), {1, 2, 3}).identifiers == (7, 8, 9, 10)


def test_what_lists_cannot_answer_is_refused() -> None:
    index = InvertedIndex()
    index.insert(1, 0.0, {1})
    with pytest.raises(BadArgument, match="posting lists"):
        index.search(Predicate("x", "x", lambda a, b: True), {1})
    with pytest.raises(BadArgument, match="'time' or 'id'"):
        InvertedIndex("size")  # type: ignore[arg-type]


def test_every_condition_by_hand() -> None:
    assert matches(Equal("x", "x"), 3, 3)
    assert not matches(Equal("x", "x"), 3, 4)
    assert matches(Subset("x", "x"), {1}, {1, 2})
    assert not matches(Subset("x", "x"), {1, 2}, {1})
    assert matches(Subset("x", "x"), set(), set())
    assert matches(Superset("x", "x"), [1, 2, 2], [1, None])
    assert matches(Overlap("x", "x", 2), [1, 2, 2], [2, 1])
    assert not matches(Overlap("x", "x", 2), [2, 2], [2, 2])
    assert matches(InnerProduct("x", "x", 2.0), {1: 2.0}, {1: 1.0})
    assert matches(InnerProduct("x", "x", 2.0), [1.0, 1.0], [1.0, 1.0])
    assert not matches(Equal("x", "x"), None, None)
    assert matches(Predicate("x", "x", lambda a, b: a + b > 3), 2, 2)
    with pytest.raises(BadArgument, match="no condition"):
        matches(Condition("x", "x"), 1, 1)
