"""The virtual-CPU join against its naive twin, and against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
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
from headgate_lab.papers.join.rules import (
    AgeBased,
    Cells,
    Content,
    Directed,
    RandomDrop,
    RateAdaptive,
    Rule,
    TimeCorrelated,
    UtilityDriven,
)
from headgate_lab.sim.join.bound import bound
from headgate_lab.sim.join.cpu import JoinRun, JoinSetup, run
from headgate_lab.sim.join.density import match_curve, match_density
from headgate_lab.sim.join.stream import JoinStream, Workload, stream
from tests.lab.sim.join.naive_join import NaiveJoin, every_pair

OVERLAP, EQUAL = Overlap("x", "x", 3), Equal("x", "x")
SHORT: dict[str, Any] = {"period_r": 1.0, "period_c": 2.0}
RULES: list[Rule] = [
    RandomDrop(),
    AgeBased(((3.0, 2.0, 1.0), (1.0, 5.0, 1.0))),
    RateAdaptive(**SHORT),
    TimeCorrelated(**SHORT, decay=0.5),
    Directed(**SHORT),
    Directed(**SHORT, capacity_control=True),
    UtilityDriven(**SHORT, sampling=0.5),
    Cells(draws=3, half_life_s=2.0),
]


def same(fast: JoinRun, slow: JoinRun) -> None:
    for name in ("output", "comparisons", "dropped", "backlog", "fractions"):
        assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
    assert np.allclose(fast.utility, slow.utility)


@settings(max_examples=40, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    seed=st.integers(0, 2**32),
    index=st.sampled_from(["none", "time", "id"]),
    single=st.booleans(),
    capacity=st.sampled_from([150.0, 600.0, 1e9]),
    basic_s=st.sampled_from([0.5, 0.7, 1.0, math.inf]),
    windows_s=st.sampled_from([(2.0, 2.0), (1.0, 3.0), (0.0, 2.0)]),
    many=st.booleans(),
    result_cost=st.sampled_from([0.0, 2.0]),
)
def test_the_kernel_does_what_the_naive_join_does(
    rule: Rule, seed: int, index: Any, single: bool, capacity: float, basic_s: float,
    windows_s: tuple[float, float], many: bool, result_cost: float,
) -> None:  # fmt: skip
    law: dict[str, Any] = {"size": 1, "spread": 0, "items": 6} if single else {"items": 12}
    types = (1.0, 2.0) if many else (1.0,)
    work = Workload(rates=((3.0, 30.0), (6.0, 12.0)), cycle_s=4.0, shift_s=1.5, types=types, **law)
    setup = JoinSetup(
        EQUAL if single else OVERLAP, windows_s, basic_s, capacity, index, (1.0, 0.25)[: len(types)],
        result_cost=result_cost,
    )  # fmt: skip
    streams = stream(work, seed)
    same(run(streams, setup, rule, seed), NaiveJoin(streams, setup, rule, seed).run())


def value(condition: Condition, items: frozenset[int]) -> Any:
    if isinstance(condition, Equal | Predicate):
        return min(items)
    if isinstance(condition, InnerProduct):
        return {item: 1.0 + item % 3 for item in items}
    return items


@pytest.mark.parametrize(
    "condition",
    [
        EQUAL,
        OVERLAP,
        Subset("x", "x"),
        Superset("x", "x"),
        InnerProduct("x", "x", 6.0),
        Predicate("x", "x", lambda left, right: abs(left - right) <= 1),
    ],
    ids=lambda condition: type(condition).__name__,
)
@pytest.mark.parametrize("rule", [RandomDrop(), Directed(), Cells()], ids=lambda rule: rule.name)
def test_with_power_to_spare_every_pair_of_every_condition_is_found(
    condition: Condition, rule: Rule
) -> None:
    work = Workload(rates=((6.0, 15.0),), items=12, size=3.0, cycle_s=4.0, shift_s=1.0)
    streams, windows = stream(work, 5), (2.0, 1.0)
    values = [value(condition, streams.items(n)) for n in range(len(streams))]
    setup = JoinSetup(OVERLAP, windows, 0.5, 1e9)
    join = NaiveJoin(streams, setup, rule, condition=condition, values=values)
    join.run()
    expected = every_pair(condition, streams, values, windows)
    assert len(join.pairs) == len(set(join.pairs))
    assert set(join.pairs) == expected
    assert expected


@pytest.mark.parametrize("single", [False, True])
def test_content_with_power_to_spare_finds_every_pair_and_never_spends_more_than_it_has(
    single: bool,
) -> None:
    law: dict[str, Any] = {"size": 1, "spread": 0, "items": 6} if single else {"items": 12}
    work = Workload(rates=((6.0, 25.0),), cycle_s=4.0, shift_s=1.0, types=(1.0, 1.0), **law)
    streams, condition = stream(work, 5), EQUAL if single else OVERLAP
    values = [int(v) if v >= 0 else streams.items(n) for n, v in enumerate(streams.value)]
    truth = len(every_pair(condition, streams, values, (2.0, 1.0)))
    for batch_s in (0.3, 1.0, 2.0):
        for basic_s in (0.5, 1.0, math.inf):
            setup = JoinSetup(condition, (2.0, 1.0), basic_s, 1e9, utilities=(1.0, 2.0))
            assert run(streams, setup, Content(batch_s=batch_s)).output.sum() == truth
    for capacity in (40.0, 400.0):
        setup = JoinSetup(condition, (2.0, 1.0), 0.5, capacity, utilities=(1.0, 2.0))
        spent = run(streams, setup, Content()).comparisons
        assert spent.max() <= capacity + len(streams)  # a pair is rounded to whole comparisons
        assert 0 < run(streams, setup, Content()).output.sum() < truth


def test_the_streams_follow_their_law() -> None:
    work = Workload(rates=((20.0, 400.0), (40.0, 50.0)), second_rates=((40.0, 100.0),), types=(1, 3))
    streams = stream(work, 2)
    assert np.all(np.diff(streams.time) >= 0)
    first, second = streams.time[streams.side == 0], streams.time[streams.side == 1]
    assert abs((first < 20).sum() - 8000) < 400
    assert abs((first >= 20).sum() - 1000) < 150
    assert abs(len(second) - 4000) < 300
    assert abs((streams.type == 1).mean() - 0.75) < 0.03
    assert [len(streams.items(n)) for n in range(200)] == streams.size[:200].tolist()
    assert abs(streams.size.mean() - 5) < 0.1
    early = [n for n in np.flatnonzero(streams.side == 0)[:2000] if streams.time[n] < 0.4]
    counts = np.bincount([item for n in early for item in streams.items(int(n))], minlength=100)
    assert counts[:10].mean() > 2 * counts[30:60].mean()  # at time 0 the popular items are the first
    late = [n for n in np.flatnonzero(streams.side == 1) if 25 <= streams.time[n] < 25.4]
    counts = np.bincount([item for n in late for item in streams.items(int(n))], minlength=100)
    assert counts[:20].sum() > counts[40:60].sum()  # stream 2 is there 25 seconds later


def empirical(streams: JoinStream, window: int, lag: float) -> float:
    """The share of pairs about `lag` apart that match."""
    hits = pairs = 0
    stored = np.flatnonzero(streams.side == window)
    for probe in np.flatnonzero(streams.side != window)[::5]:
        apart = streams.time[probe] - streams.time[stored]
        near = stored[np.abs(apart - lag) < 0.25]
        common = np.bitwise_count(streams.lo[near] & streams.lo[probe]).astype(int)
        common += np.bitwise_count(streams.hi[near] & streams.hi[probe])
        hits, pairs = hits + int((common >= 3).sum()), pairs + len(near)
    return hits / pairs


def test_the_density_is_what_streams_show() -> None:
    work = Workload(rates=((60.0, 300.0),), skew=0.8)
    streams = stream(work, 1)
    for window, lag in ((1, 15.0), (1, 3.0), (0, 15.0)):
        truth = float(match_density(work, 3, window, 30.0, np.array([lag]))[0][0])
        assert empirical(streams, window, lag) == pytest.approx(truth, rel=0.15, abs=2e-4)
    curve = match_curve(100, 0.8, 5.0, 1.0, 3)
    assert curve.chance.argmax() == 0
    assert curve.common.argmax() == 0


def test_no_rule_that_knows_densities_beats_the_bound_and_nothing_beats_the_whole_join() -> None:
    work = Workload(rates=((40.0, 200.0),), skew=0.8, cycle_s=20.0, shift_s=12.5)
    streams = stream(work, 3)
    for capacity in (60_000.0, 1e9):
        setup = JoinSetup(OVERLAP, (10.0, 10.0), 0.5, capacity)
        most = bound(streams, setup).output_rate(15)
        for rule in (RandomDrop(), RateAdaptive(), Directed(), Cells()):
            assert run(streams, setup, rule).output_rate(15) < 1.05 * most
        assert run(streams, setup, Cells()).output_rate(15) > 0.6 * most
    assert run(streams, setup, RandomDrop()).output_rate(15) == pytest.approx(most, rel=0.06)
    indexed = JoinSetup(OVERLAP, (10.0, 10.0), 0.5, 20_000.0, "time")
    assert run(streams, indexed, Cells()).output_rate(15) < 1.05 * bound(work, indexed).output_rate(15)


def test_mistakes_are_explained() -> None:
    work = Workload(rates=((2.0, 10.0),))
    with pytest.raises(BadArgument, match="rates"):
        Workload(rates=((5.0, 1.0), (2.0, 1.0)))
    with pytest.raises(BadArgument, match="128"):
        Workload(items=500)
    with pytest.raises(BadArgument, match="bitsets"):
        JoinSetup(Subset("x", "x"))
    with pytest.raises(BadArgument, match="does not fit"):
        run(stream(work, 0), JoinSetup(EQUAL), RandomDrop())
    with pytest.raises(BadArgument, match="utilities"):
        run(stream(work, 0), JoinSetup(OVERLAP, utilities=(1.0, 2.0)), RandomDrop())
    with pytest.raises(BadArgument, match="index"):
        run(stream(work, 0), JoinSetup(OVERLAP, index="time"), Content())
