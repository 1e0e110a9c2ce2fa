"""The simulated federation: its books, its compiled selection, its event loop against a slow twin."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness.balance_sic import BalanceSic, Reading
from headgate.fairness.jain import jain
from headgate_lab.sim.themis.deployment import AVG_ALL, COV, TOP_5, Deployment, draw
from headgate_lab.sim.themis.federation import run
from headgate_lab.sim.themis.kernels import keep as compiled_keep
from headgate_lab.sim.themis.layout import Layout, PlacedFragment, Timing, place
from headgate_lab.sim.themis.optimum import optimum
from headgate_lab.sim.themis.shedders import Balance, Mirrored, Random
from headgate_lab.sim.themis.sources import Sources

pytestmark = pytest.mark.slow

#: Small, skewed, and of several fragment counts: one node alone would prove nothing.
SKEWED = Deployment(6, None, 60, (1, 2, 3), zipf=1.0, capacity=0.3)
FIRST = Reading(ties="first")


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_the_compiled_selection_is_the_shipped_one(data: st.DataObject) -> None:
    queries = data.draw(st.integers(1, 6))
    count = data.draw(st.integers(1, 40))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return data.draw(st.lists(values, min_size=count, max_size=count))

    query = np.array(column(st.integers(0, queries - 1)), np.int64)
    sizes = np.array(column(st.sampled_from([1, 5, 50])), np.int64)
    totals = np.array(column(st.sampled_from([0.001, 0.002, 0.01, 1 / 30, 0.1]))) * sizes / 50
    levels = st.sampled_from([0.0, 0.05, 0.1, 0.100000001, 0.3])
    reported = np.array(data.draw(st.lists(levels, min_size=queries, max_size=queries)))
    capacity = data.draw(st.integers(0, 400))
    shipped = BalanceSic(FIRST)
    wanted = shipped.keep(query, sizes, totals, capacity, reported, np.random.default_rng(0))
    start = shipped.project(query, totals, reported)
    found = compiled_keep(query, sizes, totals, capacity, start, np.arange(queries))
    assert found.tolist() == wanted.tolist()


def _naive(layout: Layout, seconds: float, seed: int) -> list[list[float]]:
    """q_SIC by interval and query under BALANCE-SIC, with clock times and whole histories."""
    timing = layout.timing
    step, shedder, sources = timing.interval_s, BalanceSic(FIRST), Sources(layout, seed)
    windows: dict[int, float] = defaultdict(float)
    mail: list[tuple[float, int, int, float]] = []
    results: list[tuple[float, int, float]] = []
    told: dict[int, list[tuple[float, float]]] = defaultdict(list)
    history: list[list[float]] = []
    carried = [0.0] * layout.nodes
    for tick in range(round(seconds / step)):
        batches, sic = sources.next()
        history.append([0.0] * layout.queries)
        for node in sorted(range(layout.nodes), key=lambda n: float(layout.node_phase[n])):
            now = (tick + 1) * step + float(layout.node_phase[node])
            mine = [f for f in range(len(layout.feeds)) if layout.fragment_node[f] == node]
            # Source batches first, then derived ones by fragment: (fragment, tuples, SIC).
            buffer = [
                (int(fragment), layout.batch, layout.batch * float(sic[source]))
                for source, fragment in enumerate(layout.source_fragment)
                if fragment in mine
                for _ in range(int(batches[source]))
            ]
            came = [sent for sent in mail if sent[0] <= now and sent[1] in mine]
            mail = [sent for sent in mail if sent not in came]
            buffer += [sent[1:] for sent in sorted(came, key=lambda sent: sent[1])]
            carried[node] += float(layout.capacity[node]) * step
            room = int(carried[node] + 1e-9)
            carried[node] -= room
            known = []
            for fragment in mine:
                heard = [value for at, value in told[int(layout.fragment_query[fragment])] if at <= now]
                known.append(heard[-1] if heard else 0.0)
            kept = shedder.keep(
                np.array([mine.index(fragment) for fragment, _, _ in buffer], np.int64),
                np.array([tuples for _, tuples, _ in buffer], np.int64),
                np.array([total for _, _, total in buffer], np.float64),
                room,
                np.array(known, np.float64),
                np.random.default_rng(0),
            )
            for (fragment, _, total), keep in zip(buffer, kept, strict=True):
                windows[fragment] += total if keep else 0.0
            for fragment in mine:
                query, phase = int(layout.fragment_query[fragment]), float(layout.phase[fragment])
                ended = [math.floor((at - phase) / timing.window_s) for at in (now - step, now)]
                total = windows.pop(fragment, 0.0) if ended[1] > ended[0] else 0.0
                if layout.feeds[fragment] >= 0 and total > 0:
                    to, outputs = int(layout.feeds[fragment]), int(layout.outputs[fragment])
                    mail.append((now + timing.latency_s, to, outputs, total))
                if layout.feeds[fragment] < 0:
                    results.append((now, query, total))
                    recent = [r for r in results if r[0] > now - timing.stw_s + 1e-6 and r[1] == query]
                    value = sum(r[2] for r in recent)
                    told[query].append((now + timing.latency_s + timing.update_delay_s, value))
                    history[-1][query] = value
    return history


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("latency_s", [0.01, 0.1, 0.6])
def test_the_event_loop_is_that_of_a_slow_twin(seed: int, latency_s: float) -> None:
    timing = Timing(stw_s=4.0, latency_s=latency_s, update_delay_s=latency_s, burst_share=0.2)
    made = Deployment(3, None, 8, (1, 2, 3), zipf=1.0, capacity=0.4, timing=timing)
    layout = draw(made, seed)
    found = run(layout, Balance(FIRST), 12.0, seed)
    np.testing.assert_allclose(found.q_sic, _naive(layout, 12.0, seed), atol=1e-9)
    assert found.kept.sum() < found.offered.sum()


def test_the_class_and_its_twin_run_alike() -> None:
    layout = draw(SKEWED, 3)
    one, other = (run(layout, Balance(FIRST, is_compiled=c), 15.0, 3) for c in (True, False))
    np.testing.assert_array_equal(one.q_sic, other.q_sic)


@pytest.mark.parametrize("shedder", [Random(), Balance(), Mirrored()], ids=lambda s: s.name)
@pytest.mark.parametrize("stw_s", [10.0, 40.0])
def test_without_overload_every_query_has_sic_1(shedder: Balance, stw_s: float) -> None:
    made = Deployment(4, None, 10, (2,), kinds=(TOP_5,), capacity=8.0, timing=Timing(stw_s=stw_s))
    found = run(made, shedder, stw_s + 20.0, 1)
    np.testing.assert_allclose(found.means(stw_s + 10.0), 1.0, atol=0.002)
    assert found.waste() == 0.0
    assert found.kept.sum() == found.offered.sum()


def test_unknown_bursts_make_sic_exceed_1() -> None:
    made = Deployment(2, None, 12, (1,), kinds=(COV,), capacity=40.0, timing=Timing(burst_share=0.1))
    found = run(made, Balance(), 90.0, 1)
    assert found.kept.sum() == found.offered.sum()
    assert 1.0 < found.means(20.0).mean() < 1.2
    assert found.q_sic[80:].max() > 1.1


def test_who_is_fairer_wastes_less_and_comes_near_the_optimum() -> None:
    layout = draw(SKEWED, 2)
    best = optimum(layout)
    random, balance, mirror = (run(layout, s, 60.0, 2) for s in (Random(), Balance(), Mirrored()))
    assert random.jain(25) < 0.85 < 0.93 < balance.jain(25)
    assert jain(best) == pytest.approx(mirror.jain(25), abs=0.003)
    assert mirror.means(25).min() > 0.98 * best.min()
    assert mirror.means(25).mean() > 0.99 * best.mean()
    assert balance.means(25).min() < mirror.means(25).min()
    assert random.waste(25) > 0.2 > balance.waste(25)
    assert mirror.waste(25) == 0.0
    assert mirror.oscillation(25) < 0.2 * balance.oscillation(25)
    assert mirror.jain_instant(25) > balance.jain_instant(25)


def test_one_node_alone_proves_nothing() -> None:
    made = Deployment(1, None, 60, (1,), capacity=0.2)
    random, balance = (run(made, shedder, 40.0, 1) for shedder in (Random(), Balance()))
    assert random.jain(20) > 0.97
    assert balance.jain(20) > 0.95


def test_mirror_bears_late_reports_and_a_wrong_delay() -> None:
    late = Deployment(6, None, 60, (1, 2, 3), zipf=0.5, capacity=0.3, timing=Timing(update_delay_s=5.0))
    layout = draw(late, 1)
    balance, mirror = (run(layout, shedder, 70.0, 1) for shedder in (Balance(), Mirrored()))
    assert mirror.jain_instant(30) > 0.98 > 0.9 > balance.jain_instant(30)
    layout = draw(SKEWED, 2)
    for factor in (0.5, 2.0):
        wrong = run(layout, Mirrored(delay_factor=factor), 60.0, 2)
        assert wrong.means(25).min() > 0.95 * optimum(layout).min()


def test_readings_that_the_kernel_does_not_have_run_the_class() -> None:
    layout = draw(SKEWED, 1)
    usual, stop = (
        run(layout, Balance(reading), 40.0, 1) for reading in (Reading(), Reading(misfit="stop"))
    )
    assert stop.waste(20) > usual.waste(20) + 0.02


def test_a_run_is_repeatable_and_a_seed_changes_it() -> None:
    one, again, other = (run(SKEWED, Balance(), 12.0, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.q_sic, again.q_sic)
    assert one.q_sic.shape != other.q_sic.shape or not np.array_equal(one.q_sic, other.q_sic)


def test_layouts_are_as_asked_for() -> None:
    layout = draw(Deployment(18, 2000), 1)
    assert 2000 <= len(layout.feeds) < 2006
    assert layout.shares.sum() == pytest.approx(layout.queries)
    assert (np.diff(layout.fragment_node) >= 0).all()
    assert (np.diff(layout.source_fragment) >= 0).all()
    places = set(zip(layout.fragment_query.tolist(), layout.fragment_node.tolist(), strict=True))
    assert len(places) == len(layout.feeds)
    assert (layout.feeds < 0).sum() == layout.queries
    assert (layout.fragment_query[layout.feeds] == layout.fragment_query)[layout.feeds >= 0].all()
    assert layout.capacity.sum() == pytest.approx(0.2 * layout.source_rate.sum())
    skewed = np.bincount(draw(Deployment(18, 2000, zipf=1.0), 1).fragment_node)
    even = np.bincount(layout.fragment_node)
    assert skewed.max() > 2 * even.max()
    exact = draw(Deployment(1, None, 330, (1,), node_tuples_s=52_800.0), 1)
    assert exact.source_rate.sum() == 528_000
    assert exact.capacity.tolist() == [52_800.0]


def test_the_delay_is_that_of_windows_hops_and_the_update() -> None:
    chain = [
        PlacedFragment(0, 0, (150.0,), 1, 1, phase=0.25),
        PlacedFragment(0, 1, (150.0,), 1, 2, phase=0.75),
        PlacedFragment(0, 2, (150.0,), 1, None, phase=0.75),
    ]
    layout = place(chain, [1e6] * 3)
    # Mean wait in the own window 1.5 intervals, the update 1; two intervals from 0.25 to 0.75, and a
    # batch sent at 0.75 arrives at 1.0 and waits until 1.75.
    assert layout.delay_ticks.tolist() == [1.5 + 2 + 4 + 1, 1.5 + 4 + 1, 1.5 + 1]
    # A node that decides 0.1 s after another hears of it in the same interval, and not the reverse.
    shifted = place(chain, [1e6] * 3, node_phase=[0.0, 0.1, 0.0])
    assert shifted.hop_ticks.tolist() == [0, 1, 0]
    assert shifted.report_ticks.tolist() == [1, 0, 1]


def _traced_delay(layout: Layout, fragment: int, accepted: int) -> int:
    """Intervals until what was accepted in one is reported: window by window, hop by hop."""
    tick, at = accepted, fragment
    while True:
        while not layout.ends(tick)[at]:
            tick += 1
        if layout.feeds[at] < 0:
            return tick + int(layout.report_ticks[fragment]) - accepted
        tick, at = tick + int(layout.hop_ticks[at]), int(layout.feeds[at])


@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize(
    ("interval_s", "latency_s"), [(0.25, 0.005), (0.25, 0.3), (0.1, 0.05), (1.0, 0.05)]
)
def test_delays_are_those_of_traced_tuples(interval_s: float, latency_s: float, in_step: bool) -> None:
    timing = Timing(interval_s=interval_s, latency_s=latency_s, update_delay_s=0.4)
    layout = draw(Deployment(5, None, 12, (1, 2, 4), timing=timing, in_step=in_step), 1)
    window = round(timing.window_s / interval_s)
    for fragment, said in enumerate(layout.delay_ticks):
        traced = [_traced_delay(layout, fragment, 50 + at) for at in range(window)]
        assert said == pytest.approx(np.mean(traced)), fragment


def test_in_step_there_are_no_phases_and_only_the_published_shedder_cares() -> None:
    apart = Deployment(6, None, 60, (1, 2, 3), zipf=1.0, capacity=0.3)
    step = replace(apart, in_step=True)
    layout, other = draw(apart, 2), draw(step, 2)
    assert not other.phase.any()
    assert not other.node_phase.any()
    np.testing.assert_array_equal(layout.fragment_node, other.fragment_node)
    balance, mirror = (
        [run(each, shedder, 60.0, 2) for each in (layout, other)] for shedder in (Balance(), Mirrored())
    )
    assert balance[1].oscillation(25) > 1.2 * balance[0].oscillation(25)
    assert mirror[1].means(25).min() == pytest.approx(mirror[0].means(25).min(), rel=0.01)


def test_trees_have_one_root_and_chains_are_long() -> None:
    tree = draw(Deployment(6, None, 5, (4,), kinds=(AVG_ALL,)), 1)
    chain = draw(Deployment(6, None, 5, (4,), kinds=(COV,)), 1)
    to_root = (tree.feeds >= 0) & (tree.feeds[tree.feeds] < 0)
    assert to_root.sum() == 15
    assert ((chain.feeds >= 0) & (chain.feeds[chain.feeds] < 0)).sum() == 5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Deployment(4, 10, 10), "give one"),
        (lambda: Deployment(4, per_query=(5,)), "1 to 4"),
        (lambda: Deployment(4, per_query=(1, 2), weights=(1.0,)), "one for each"),
        (lambda: Deployment(zipf=-1.0), "zipf"),
        (lambda: Deployment(capacity=0.0), "capacity"),
        (lambda: Timing(interval_s=0.0), "above 0"),
        (lambda: Timing(interval_s=8.0), "half"),
        (lambda: Timing(burst_share=1.5), "burst_share"),
        (lambda: Timing(latency_s=-1.0), "0 or more"),
        (lambda: place([], [1.0]), "at least one"),
        (lambda: place([PlacedFragment(0, 1, (1.0,), 1, None)], [1.0]), "on no node"),
        (lambda: place([PlacedFragment(0, 0, (1.0,), 1, None)] * 2, [1.0]), "different nodes"),
        (lambda: place([PlacedFragment(0, 0, (1.0,), 1, 0)], [1.0]), "root"),
        (lambda: run(SKEWED, Balance(), 5.0), "at least one source time window"),
    ],
)
def test_what_cannot_be_is_refused(wrong: object, says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        wrong()  # type: ignore[operator]


def test_a_stretch_outside_the_run_is_refused() -> None:
    found = run(SKEWED, Random(), 10.0)
    with pytest.raises(BadArgument, match="10 s long"):
        found.jain(20.0)
