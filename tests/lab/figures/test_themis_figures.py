"""The THEMIS figures: errors that can be checked by hand, and the verdicts that were measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate_lab.bench.themis.decision import run as decisions
from headgate_lab.bench.themis.deployments import DEPLOYMENTS
from headgate_lab.bench.themis.deployments import run as deployments
from headgate_lab.bench.themis.speed import run as speed
from headgate_lab.figures import build
from headgate_lab.figures.figure import Drawn
from headgate_lab.figures.themis.error import MADE, REAL, kendall, real_file, series, snapshots
from headgate_lab.figures.themis.fig6 import SIC, ErrorRun, error_of
from headgate_lab.figures.themis.fig6 import run as aggregates
from headgate_lab.figures.themis.fig7 import run as complex_queries
from headgate_lab.figures.themis.policies import BALANCE, JAIN, MEAN, MIN, MIRROR, OPTIMUM, RANDOM
from headgate_lab.figures.themis.sec75 import FIT, LOG, SIMPLE
from tests.lab.figures.quick_figures import quick_figure

pytestmark = pytest.mark.slow

AGGREGATES, COMPLEX = ("AVG", "COUNT", "MAX"), ("TOP-5", "COV", "AVG-all")
needs_traces = pytest.mark.skipif(real_file() is None, reason="planetlab_cpu_2011.parquet is not here")


def _verdicts(drawn: Drawn) -> dict[str, bool]:
    return {claim.claim.partition(" (")[0]: claim.holds for claim in drawn.claims}


@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(1, 5), st.integers(0, 5))
def test_kendalls_distance_counts_pairs(one: list[int], other: list[int], k: int, shorter: int) -> None:
    first, second = one[:k], other[: min(k, shorter)]
    found = kendall(first, second)
    assert 0.0 <= found <= 1.0
    assert kendall(first, first) == 0.0
    padded = second + [-1 - place for place in range(k - len(second))]

    def opposed(i: int, j: int) -> bool:
        """Whether the two lists say for sure that i and j are in different orders."""

        def before(ranking: list[int]) -> bool | None:
            if i in ranking and j in ranking:
                return ranking.index(i) < ranking.index(j)
            return None if i not in ranking and j not in ranking else i in ranking

        mine, theirs = before(first), before(padded)
        return mine is not None and theirs is not None and mine != theirs

    pairs = itertools.combinations(sorted(set(first) | set(padded)), 2)
    assert found == pytest.approx(sum(opposed(i, j) for i, j in pairs) / k**2)


@pytest.mark.parametrize("data", MADE)
def test_made_values_have_mean_50(data: str) -> None:
    random = np.random.default_rng(1)
    assert snapshots(data, None, 100, 400, random).mean() == pytest.approx(50.0, abs=1.0)
    assert series(data, None, 10, 3, 20, random).shape == (10, 3, 20)


@needs_traces
def test_the_traces_are_read_by_vm_and_moment() -> None:
    random, file = np.random.default_rng(1), real_file()
    moments = snapshots(REAL, file, 400, 400, random)
    assert moments.shape == (400, 400)
    assert 9.0 < moments.mean() < 12.5
    assert moments.max() <= 99
    days = series(REAL, file, 200, 2, 288, random)
    assert days.shape == (200, 2, 288)
    # Readings of one VM go together; those of another VM do not.
    along = np.mean([np.abs(np.diff(day[0])).mean() for day in days])
    across = np.mean([np.abs(day[0] - day[1]).mean() for day in days])
    assert along < across


@pytest.mark.parametrize("data", [*MADE, pytest.param(REAL, marks=needs_traces)])
def test_without_shedding_nothing_is_wrong_and_a_count_misses_what_was_shed(data: str) -> None:
    for run, queries in ((aggregates, AGGREGATES), (complex_queries, COMPLEX)):
        [(share, _, metrics)] = run(ErrorRun(data, 5, 1, 0, real_file()))
        assert share == metrics[SIC] == 1.0
        for query in queries:
            assert metrics[error_of(query)] == pytest.approx(0.0, abs=1e-12)
    [(share, _, metrics)] = aggregates(ErrorRun(data, 25, 8, 0, real_file()))
    assert share == metrics[SIC] == pytest.approx(0.2)
    assert metrics[error_of("COUNT")] == pytest.approx(0.8, abs=0.02)


def test_errors_fall_with_sic_and_every_query_type_has_its_correlation() -> None:
    for name, queries in (("themis_fig6", AGGREGATES), ("themis_fig7", COMPLEX)):
        drawn = quick_figure(name)
        for query, data in itertools.product(queries, {row.policy for row in drawn.rows}):
            rows = [row for row in drawn.rows if row.policy == data]
            points = sorted((float(row.x), row.metrics[error_of(query)].mean) for row in rows)
            assert points[0][1] > points[-1][1], (query, data)
        for query in queries:
            [claim] = [c for c in drawn.claims if f"{query}: error and SIC are correlated" in c.claim]
            assert -1.0 <= claim.number < 0.0
            assert all(f"{row.policy} -" in claim.claim for row in drawn.rows)
    verdicts = _verdicts(quick_figure("themis_fig6"))
    assert verdicts["COUNT's error is substantially higher than AVG's"]
    assert verdicts["COUNT: error and SIC are correlated"]


def test_a_figure_without_the_traces_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("error", "fig6", "fig7"):
        monkeypatch.setattr(f"headgate_lab.figures.themis.{module}.real_file", lambda: None)
    for name in ("themis_fig6", "themis_fig7"):
        drawn = build(name, runs=1, quick=True)
        assert "planetlab_cpu_2011.parquet is not here" in drawn.title
        assert not any(REAL in row.policy for row in drawn.rows)


def test_central_optimisation_gets_the_papers_verdicts() -> None:
    drawn = quick_figure("themis_sec75")
    served = [drawn.at(SIMPLE, FIT, f"{kind}_queries").mean for kind in ("full", "empty")]
    assert served == [3.0, 56.0]
    assert drawn.at(SIMPLE, LOG, JAIN).mean == pytest.approx(1.0, abs=1e-4)
    verdicts = _verdicts(drawn)
    assert verdicts["complex: BALANCE-SIC is the fairer one"]
    assert not verdicts["complex: 0.87 is of the normalised log-rates"]
    assert verdicts["ours: mirror is within 0.01 of the optimum's Jain"]


def test_many_nodes_get_the_measured_order() -> None:
    drawn = quick_figure("themis_fig10")
    for setting in (", even", ", even 0.15", ", Zipf 1"):

        def mean(policy: str, metric: str, setting: str = setting) -> float:
            return drawn.at("mixed", policy + setting, metric).mean

        assert mean(RANDOM, JAIN) < mean(BALANCE, JAIN)
        assert mean(RANDOM, MEAN) < mean(BALANCE, MEAN)
        # Not Jain's index: a query alone on an idle node lowers it, and to serve that one is no fault.
        assert mean(BALANCE, MIN) < mean(MIRROR, MIN)
        assert mean(MIRROR, MIN) > 0.95 * mean(OPTIMUM, MIN)


def test_bursts_lower_the_mean_and_latency_does_not() -> None:
    verdicts = _verdicts(quick_figure("themis_fig14"))
    assert verdicts["50 ms between nodes change no mean SIC"]
    assert not verdicts["bursts change no mean SIC"]


def test_the_overhead_is_measured() -> None:
    drawn = quick_figure("themis_sec76")
    assert {row.policy for row in drawn.rows} == {RANDOM, BALANCE, MIRROR, f"{BALANCE}, compiled"}
    for row in drawn.rows:
        assert 0 < row.metrics["interval_share"].mean < 1


def test_the_bench_of_deployments_tells_how_near_the_optimum_is() -> None:
    found = deployments(quick=True)
    assert found["bench"] == "themis-deployments"
    assert found["ratios"]["least_minimum_vs_optimum"] > 0.97
    assert found["ratios"]["published_minimum_vs_optimum_6_nodes_zipf_1"] < 0.97
    rows = {row["policy"]: row for row in found["context"]["tables"]["result SIC by deployment"]}
    assert list(rows) == [RANDOM, BALANCE, MIRROR, OPTIMUM]
    assert rows[MIRROR]["distance"] < 0.5 * rows[BALANCE]["distance"] < rows[RANDOM]["distance"]
    assert rows[MIRROR]["oscillation"] < 0.2 * rows[BALANCE]["oscillation"]
    assert rows[RANDOM]["waste"] > 0.2
    assert len(DEPLOYMENTS) >= 5


def test_the_bench_of_decisions_compares_every_shedder() -> None:
    found = decisions(quick=True)
    assert found["bench"] == "themis-decision"
    [rows] = found["context"]["tables"].values()
    assert {row["shedder"] for row in rows} >= {RANDOM, BALANCE, MIRROR}
    assert 0 < found["ratios"]["share_of_interval"] < 1
    assert found["ratios"]["mirror_vs_published"] > 0


def test_the_bench_of_the_simulator_times_every_shedder() -> None:
    found = speed(quick=True)
    assert found["bench"] == "themis-speed"
    [rows] = found["context"]["tables"].values()
    assert [row["shedder"] for row in rows] == [RANDOM, BALANCE, MIRROR]
    assert found["ratios"]["least_faster_than_time"] == min(row["times"] for row in rows) > 0
