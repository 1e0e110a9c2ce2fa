"""Shedders of batches: what all of them promise, and what each does."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness import BalanceSic, Batch, MirrorSettings, RandomShedding, Reading
from tests.fairness import naive

Rows = list[tuple[int, int, Fraction]]

READINGS = st.builds(
    Reading,
    projection=st.sampled_from(["subtract", "clamp", "none", "zero"]),
    reach=st.sampled_from(["reach", "nearest", "one"]),
    ties=st.sampled_from(["random", "first"]),
    order=st.sampled_from(["tuple", "batch", "arrival", "random"]),
    misfit=st.sampled_from(["skip", "stop"]),
)
BATCHES = st.lists(
    st.builds(
        Batch,
        query=st.integers(0, 4),
        source=st.sampled_from(["a", "b", None]),
        tuples=st.sampled_from([1, 5, 50]),
        sic=st.floats(1e-6, 0.02),
    ),
    max_size=25,
)
REPORTED = st.dictionaries(st.integers(0, 4), st.floats(0, 1), max_size=5)


def mirror() -> Any:
    shedder = MirrorSettings().build()
    for query in range(5):
        shedder.join(query)
    return shedder


@st.composite
def shedders(draw: st.DrawFn) -> Any:
    return draw(
        st.one_of(
            st.builds(RandomShedding, fill=st.booleans()),
            st.builds(BalanceSic, READINGS),
            st.builds(mirror),
        )
    )


@given(shedders(), BATCHES, st.integers(0, 600), REPORTED, st.integers(0, 9))
def test_what_is_kept_was_offered_and_fits(
    shedder: Any, batches: list[Batch], capacity: int, reported: dict[Any, float], seed: int
) -> None:
    kept = shedder.select(batches, capacity, reported, np.random.default_rng(seed))
    assert sum(batch.tuples for batch in kept) <= capacity
    for query in range(5):
        for source in ("a", "b", None):
            mine = [batch for batch in batches if (batch.query, batch.source) == (query, source)]
            left = [batch for batch in kept if (batch.query, batch.source) == (query, source)]
            assert len(left) <= len(mine)
            assert sum(batch.tuples for batch in left) <= sum(batch.tuples for batch in mine)
    if sum(batch.tuples for batch in batches) <= capacity:
        assert kept == batches


@given(shedders(), BATCHES, st.integers(0, 600), REPORTED)
def test_the_same_seed_decides_alike(
    shedder: Any, batches: list[Batch], capacity: int, reported: dict[Any, float]
) -> None:
    if shedder.name == "mirror":
        return  # it remembers what it accepted; see test_mirror
    first, second = (
        shedder.select(batches, capacity, reported, np.random.default_rng(3)) for _ in range(2)
    )
    assert first == second


@given(READINGS, BATCHES, st.integers(1, 600), REPORTED)
def test_skipping_leaves_nothing_that_fits(
    reading: Reading, batches: list[Batch], capacity: int, reported: dict[Any, float]
) -> None:
    if reading.misfit == "stop":
        return
    kept = BalanceSic(reading).select(batches, capacity, reported, np.random.default_rng(0))
    left = capacity - sum(batch.tuples for batch in kept)
    shed = list(batches)
    for batch in kept:
        shed.remove(batch)
    assert all(batch.tuples > left for batch in shed)


@st.composite
def singles(draw: st.DrawFn) -> tuple[Rows, list[Fraction]]:
    """A few sources of up to 3 queries with simple SIC, and where the queries start."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(1, 12), st.integers(10, 99)), min_size=1, max_size=6
        )
    )
    start = draw(st.lists(st.integers(0, 50), min_size=3, max_size=3))
    return [(q, n, Fraction(1, k)) for q, n, k in rows], [Fraction(value, 100) for value in start]


def kept_tuples(rows: Rows, start: list[Fraction], capacity: int, reach: str) -> list[int]:
    batches = [Batch(query, "s", 1, float(sic)) for query, offered, sic in rows for _ in range(offered)]
    batches.sort(key=lambda batch: int(str(batch.query)))
    shedder = BalanceSic(Reading(projection="none", reach=reach, ties="first"))
    reported = {query: float(value) for query, value in enumerate(start)}
    kept = shedder.select(batches, capacity, reported, np.random.default_rng(0))
    return [sum(batch.query == query for batch in kept) for query in range(len(start))]


@given(singles(), st.integers(1, 40))
def test_one_tuple_a_turn_equals_the_twin(site: tuple[Rows, list[Fraction]], capacity: int) -> None:
    rows, start = site
    twin = naive.tuple_by_tuple(rows, start, capacity, [1, 1, 1])
    assert kept_tuples(rows, start, capacity, "one") == twin


@given(singles(), st.integers(1, 40))
def test_turns_equal_the_twin(site: tuple[Rows, list[Fraction]], capacity: int) -> None:
    rows, start = site
    tuples = {
        str(number): sorted((sic for q, n, sic in rows if q == number for _ in range(n)), reverse=True)
        for number in range(3)
    }
    node, sic = naive.Node(capacity, tuples), {str(n): value for n, value in enumerate(start)}
    taken: list[str] = []
    while turn := node.turn(sic, lambda tied: tied[0]):
        taken += turn
    assert kept_tuples(rows, start, capacity, "reach") == [taken.count(str(n)) for n in range(3)]


def test_the_lowest_query_is_served() -> None:
    batches = [Batch("high", "s", 10, 0.001), Batch("low", "s", 10, 0.001)]
    reported = {"high": 0.5, "low": 0.1}
    kept = BalanceSic().select(batches, 10, reported, np.random.default_rng(0))
    assert kept == [batches[1]]


def test_a_query_without_report_is_lowest() -> None:
    batches = [Batch("old", "s", 10, 0.001), Batch("new", "s", 10, 0.001)]
    kept = BalanceSic().select(batches, 10, {"old": 0.3}, np.random.default_rng(0))
    assert kept == [batches[1]]


def test_the_projection_favours_whom_shedding_hurts_most() -> None:
    """Equal reports: who has more in the buffer would fall deeper."""
    batches = [Batch("much", "s", 50, 0.002), Batch("little", "s", 50, 0.001)]
    reported = {"much": 0.3, "little": 0.3}
    kept = BalanceSic().select(batches, 50, reported, np.random.default_rng(0))
    assert [batch.query for batch in kept] == ["much"]
    without = BalanceSic(Reading(projection="none", ties="first"))
    both = [
        without.select(order, 50, reported, np.random.default_rng(0))[0].query
        for order in (batches, batches[::-1])
    ]
    assert both == ["much", "little"]


@pytest.mark.parametrize(
    ("order", "first"), [("tuple", "rare"), ("batch", "large"), ("arrival", "large")]
)
def test_which_batch_of_a_query_is_first(order: str, first: str) -> None:
    batches = [
        Batch("q", "large", 50, 0.001),
        Batch("q", "rare", 50, 0.0009),
        Batch("q", "rare", 1, 0.01),
    ]
    kept = BalanceSic(Reading(order=order)).select(batches, 50, {}, np.random.default_rng(0))
    assert kept[0].source == first


def test_ties_fall_either_way() -> None:
    batches = [Batch("a", "s", 10, 0.001), Batch("b", "s", 10, 0.001)]
    winners = [
        BalanceSic().select(batches, 10, {}, np.random.default_rng(seed))[0].query for seed in range(200)
    ]
    assert 60 < winners.count("a") < 140
    first = BalanceSic(Reading(ties="first"))
    assert {first.select(batches, 10, {}, np.random.default_rng(s))[0].query for s in range(20)} == {"a"}


# Random shedding.


@given(st.lists(st.integers(1, 80), min_size=1, max_size=40), st.integers(0, 900), st.integers(0, 99))
def test_random_discards_until_the_rest_fits(sizes: list[int], capacity: int, seed: int) -> None:
    columns = np.array(sizes)
    kept = RandomShedding().keep(columns, capacity, np.random.default_rng(seed))
    assert columns[kept].sum() <= capacity
    if not kept.all():  # the last one discarded was one too many
        assert columns[kept].sum() + max(sizes) > capacity
    filled = RandomShedding(fill=True).keep(columns, capacity, np.random.default_rng(seed))
    left = capacity - columns[filled].sum()
    assert left >= 0
    assert (columns[~filled] > left).all()


def test_random_prefers_nobody_but_filling_prefers_the_small() -> None:
    sizes = np.array([50] * 10 + [1] * 10)
    random = np.random.default_rng(5)
    chance = np.mean([RandomShedding().keep(sizes, 155, random) for _ in range(2000)], axis=0)
    assert abs(chance[:10].mean() - chance[10:].mean()) < 0.06
    filled = np.mean([RandomShedding(fill=True).keep(sizes, 155, random) for _ in range(500)], axis=0)
    assert filled[10:].mean() > 1.5 * filled[:10].mean()


# Bad use.


@pytest.mark.parametrize(
    "call",
    [
        lambda: Reading(projection="add"),
        lambda: Reading(reach="far"),
        lambda: Reading(ties="last"),
        lambda: Reading(order="size"),
        lambda: Reading(misfit="split"),
        lambda: Batch("q", "s", -1, 0.1),
        lambda: Batch("q", "s", 1, -0.1),
        lambda: Batch("q", "s", 1, float("nan")),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()
