"""The mirror, BALANCE-SIC and random shedding behind one question."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness.mirror import MirrorSettings
from headgate.sites.shedders import SHEDDERS, Entitled, Offer, Shedder, shedder


def _made(name: str, *queries: str, seed: int = 0, **entitled: Entitled) -> Shedder:
    made = shedder(name, MirrorSettings(stw_s=10.0, interval_s=1.0), seed)
    made.queries({query: Entitled(1.0) for query in queries} | dict(entitled))
    return made


def _settled(made: Shedder, offers: list[Offer], capacity: float, rounds: int = 60) -> list[float]:
    """The mean share kept of each offer, over the second half of the rounds."""
    found = [made.keep(offers, capacity, {}) for _ in range(rounds)][rounds // 2 :]
    return [sum(shares) / len(found) for shares in zip(*found, strict=True)]


_OFFERS = st.lists(
    st.builds(
        Offer,
        query=st.sampled_from(["a", "b", "c"]),
        derived=st.booleans(),
        tuples=st.floats(0.0, 1e5),
        sic=st.just(0.0) | st.floats(1e-12, 0.1),
        cost=st.floats(1e-7, 1e-2),
    ),
    max_size=12,
)


@pytest.mark.parametrize("name", SHEDDERS)
@given(offers=_OFFERS, capacity=st.floats(0.0, 100.0))
@settings(max_examples=60, deadline=None)
def test_shares_are_shares_and_what_is_kept_fits(
    name: str, offers: list[Offer], capacity: float
) -> None:
    made = _made(name, "a", "b", "c")
    for reported in ({}, {"a": 0.5, "b": math.nan, "c": 0.0}):
        kept = made.keep(offers, capacity, reported)
        assert len(kept) == len(offers)
        assert all(0.0 <= share <= 1.0 for share in kept)
        offered = sum(o.tuples * o.cost for o in offers)
        if offered <= 0.999 * capacity:
            assert kept == [1.0] * len(offers), "idle is free"
        elif name == "mirror":
            used = sum(o.tuples * o.cost * share for o, share in zip(offers, kept, strict=True))
            # Tuples are counted in thousandths, and rounded.
            slack = sum(0.001 * o.cost for o in offers)
            assert used <= capacity + slack + 1e-9


@pytest.mark.parametrize("name", SHEDDERS)
def test_the_same_seed_keeps_the_same(name: str) -> None:
    offers = [Offer(q, False, 1000.0, 1e-4, 1e-3) for q in "ab"]
    first, second, third = (_made(name, "a", "b", seed=seed) for seed in (1, 1, 2))
    runs = [[made.keep(offers, 0.7, {}) for _ in range(20)] for made in (first, second, third)]
    assert runs[0] == runs[1]
    if name == "random":
        assert runs[0] != runs[2]


@pytest.mark.parametrize("name", SHEDDERS)
def test_nothing_offered_is_no_trouble(name: str) -> None:
    made = _made(name)
    assert made.keep([], 1.0, {}) == []
    assert made.keep([], 0.0, {}) == []
    made.queries({"a": Entitled(1.0)})
    assert made.keep([Offer("a", False, 0.0, 0.0, 1.0)], 0.0, {}) == [1.0]


def test_the_mirror_lifts_all_to_one_level_whatever_they_cost() -> None:
    offers = [
        Offer("a", False, 10_000.0, 1e-5, 1e-4),
        Offer("b", False, 1000.0, 1e-4, 1e-3),
        Offer("c", False, 100.0, 1e-3, 1e-4),
    ]
    kept = _settled(_made("mirror", "a", "b", "c"), offers, 0.6)
    assert max(kept) - min(kept) < 0.01
    assert kept[0] == pytest.approx(0.6 / 2.01, rel=0.02)


def test_weights_and_priorities() -> None:
    offers = [Offer(q, False, 1000.0, 1e-4, 1e-3) for q in "ab"]
    heavy = _made("mirror", a=Entitled(1.0), b=Entitled(1.0, weight=2.0))
    one, two = _settled(heavy, offers, 0.6)
    assert two / one == pytest.approx(2.0, rel=0.02)
    first = _made("mirror", a=Entitled(1.0), b=Entitled(1.0, priority=1))
    assert _settled(first, offers, 1.2) == pytest.approx([0.2, 1.0], abs=0.01)


def test_derived_rows_go_first_and_are_shed_when_they_alone_do_not_fit() -> None:
    offers = [Offer("a", False, 1000.0, 1e-4, 1e-3), Offer("b", True, 100.0, 1e-3, 1e-3)]
    made = _made("mirror", a=Entitled(1.0), b=Entitled(0.0))
    assert _settled(made, offers, 0.5) == pytest.approx([0.4, 1.0], abs=0.01)
    assert _settled(made, offers, 0.05) == pytest.approx([0.0, 0.5], abs=0.01)


def test_a_query_that_leaves_and_comes_back() -> None:
    made = _made("mirror", "a", "b")
    offers = [Offer(q, False, 1000.0, 1e-4, 1e-3) for q in "ab"]
    _settled(made, offers, 1.0)
    made.queries({"b": Entitled(1.0)})
    assert _settled(made, offers[1:], 0.5) == pytest.approx([0.5], abs=0.01)
    made.queries({"b": Entitled(1.0), "a": Entitled(1.0)})
    assert _settled(made, offers, 0.5) == pytest.approx([0.25, 0.25], abs=0.02)


@pytest.mark.parametrize("name", ["balance-sic", "random"])
def test_the_published_ones_keep_what_the_capacity_allows(name: str) -> None:
    offers = [Offer(q, False, 1000.0, 1e-4, 1e-3) for q in "abcd"]
    made = _made(name, *"abcd")
    kept = _settled(made, offers, 1.0, rounds=200)
    assert sum(kept) == pytest.approx(1.0, abs=0.1)
    assert min(kept) > 0.15, "alike, on average"
    assert math.isnan(made.level)


def test_balance_sic_feeds_who_is_behind() -> None:
    offers = [Offer(q, False, 1000.0, 1e-4, 1e-3) for q in "ab"]
    behind, ahead = _made("balance-sic", "a", "b").keep(offers, 1.0, {"a": 0.1, "b": 0.9})
    assert behind > 0.9
    assert ahead < 0.1


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(BadArgument, match="'mirror', 'balance-sic', 'random'"):
        _made("best")
