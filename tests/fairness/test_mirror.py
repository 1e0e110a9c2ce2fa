"""The improved shedder: it reaches the max-min optimum on several nodes, and queries come and go."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument, SnapshotError
from headgate.fairness import Batch, Mirror, MirrorSettings, mean_jain
from headgate.fairness.accepted import Accepted

WINDOW = 40  # intervals in a source time window of 10 seconds


class Sites:
    """Nodes with fragments of queries; accepted SIC shows in the reports after a while, nothing is lost.

    `rates[node, query]` are tuples an interval; a query's SIC is shared out equally among its nodes.
    """

    def __init__(
        self,
        rates: list[list[int]],
        capacity: list[float],
        *,
        delay: int = 8,
        told_s: float = 2.0,
        weights: list[float] | None = None,
        smooth_s: float = 2.0,
    ) -> None:
        self.rates, self.capacity = np.array(rates), capacity
        fragments = (self.rates > 0).sum(axis=0)
        self.share = np.where(self.rates > 0, 1.0 / fragments, 0.0)
        self.tuple_sic = self.share / (np.maximum(self.rates, 1) * WINDOW)
        self.nodes = []
        for node in range(len(rates)):
            shedder = MirrorSettings(delay_s=told_s, smooth_s=smooth_s).build()
            for query in range(self.rates.shape[1]):
                weight = 1.0 if weights is None else weights[query]
                shedder.join(query, float(self.share[node, query]), weight=weight)
            self.nodes.append(shedder)
        queries = self.rates.shape[1]
        self.under_way = deque([np.zeros(queries)] * delay)
        self.results = deque([np.zeros(queries)] * WINDOW, maxlen=WINDOW)
        self.history: list[npt.NDArray[np.float64]] = []
        self.kept: list[npt.NDArray[np.int64]] = []

    @property
    def reported(self) -> npt.NDArray[np.float64]:
        return np.sum(self.results, axis=0)

    def run(self, intervals: int) -> npt.NDArray[np.float64]:
        """The reported SIC of each query at each interval."""
        for _ in range(intervals):
            gained = np.zeros(self.rates.shape[1])
            for node, shedder in enumerate(self.nodes):
                here = np.flatnonzero(self.rates[node])
                keep = shedder.decide(
                    here,
                    self.rates[node, here],
                    self.tuple_sic[node, here],
                    np.zeros(len(here), np.bool_),
                    self.capacity[node],
                    self.reported,
                )
                assert keep.sum() <= self.capacity[node]
                gained[here] += keep * self.tuple_sic[node, here]
                self.kept.append(keep)
            self.under_way.append(gained)
            self.results.append(self.under_way.popleft())
            self.history.append(self.reported)
        return np.array(self.history[-intervals:])


#: Three nodes, two of them loaded more than the third; queries in 1, 2 and 3 fragments.
RATES = [[400, 0, 0, 300, 0, 200, 500], [0, 350, 0, 300, 250, 200, 0], [0, 0, 150, 0, 250, 200, 0]]
CAPACITY = [450.0, 400.0, 350.0]


def optimum() -> npt.NDArray[np.float64]:
    pytest.importorskip("scipy")
    from headgate_lab.papers.themis import Fluid, max_min

    sites = Sites(RATES, CAPACITY)
    node, query = np.nonzero(sites.rates)
    load = sites.rates[node, query].astype(np.float64)
    return max_min(Fluid(query, node, load, sites.share[node, query], np.array(CAPACITY))).q_sic


@pytest.mark.parametrize(
    ("delay", "told_s"), [(8, 2.0), (8, 1.0), (8, 4.0), (1, 0.25), (28, 7.0), (28, 4.0), (4, 4.0)]
)
def test_several_nodes_reach_the_optimum(delay: int, told_s: float) -> None:
    """Also where the delay is told wrong by half or twice."""
    seen = Sites(RATES, CAPACITY, delay=delay, told_s=told_s).run(480)[240:]
    best = optimum()
    assert np.abs(seen.mean(axis=0) - best).max() < 0.006
    assert seen.mean(axis=0).min() >= 0.985 * best.min()
    assert mean_jain(seen) > 0.999
    assert seen.std(axis=0).max() < 0.006


def test_without_smoothing_a_wrong_delay_oscillates() -> None:
    """The reason for `smooth_s`; with the right delay it makes no difference."""
    raw = Sites(RATES, CAPACITY, told_s=4.0, smooth_s=0.0).run(480)[240:]
    assert raw.std(axis=0).max() > 0.03
    right = Sites(RATES, CAPACITY, smooth_s=0.0).run(480)[240:]
    assert right.std(axis=0).max() < 0.001


def test_weights_divide_one_node() -> None:
    sites = Sites([[500, 500, 500]], [600.0], weights=[1.0, 2.0, 3.0])
    seen = sites.run(200)[100:].mean(axis=0)
    assert seen == pytest.approx([0.2, 0.4, 0.6], abs=0.005)


def test_a_noisy_neighbour() -> None:
    """Its rate times ten. As published all that it sends counts as 1: it is entitled to more capacity.

    Where its rate was agreed its tuples stay worth what they were, and it costs the others nothing.
    """
    calm = Sites([[200, 200, 200]], [300.0]).run(200)[150:].mean(axis=0)
    assert calm == pytest.approx([0.5] * 3, abs=0.01)
    noisy = Sites([[2000, 200, 200]], [300.0])
    assert noisy.run(200)[150:].mean(axis=0) == pytest.approx([300 / 2400] * 3, abs=0.01)
    agreed = Sites([[2000, 200, 200]], [300.0])
    agreed.tuple_sic[:] = agreed.tuple_sic[0, 1]
    assert agreed.run(200)[150:].mean(axis=0) == pytest.approx([0.5] * 3, abs=0.01)


def one_node(queries: int, **settings: float) -> Mirror:
    node = MirrorSettings(**settings).build()
    for query in range(queries):
        node.join(query)
    return node


def offer(queries: int, tuples: int = 100) -> list[Batch]:
    return [Batch(query, "s", tuples, 1 / (WINDOW * tuples)) for query in range(queries)]


def heard(node: Mirror, *reported: float) -> npt.NDArray[np.float64]:
    """Where queries start when these reports come in."""
    node.apply_reports(np.array(reported))
    return node.start()


def tuples_of(kept: list[Batch]) -> dict[object, int]:
    return {batch.query: batch.tuples for batch in kept}


# Derived first.


@given(st.integers(1, 20), st.floats(0, 1))
def test_derived_tuples_are_kept_whatever_their_query_has(derived: int, reported: float) -> None:
    node = one_node(2)
    batches = [*offer(2), Batch(0, None, derived, 0.01)]
    kept = node.select(batches, derived + 10, {0: reported, 1: 0.1})
    assert Batch(0, None, derived, 0.01) in kept
    assert sum(batch.tuples for batch in kept) == derived + 10


def test_without_derived_first_a_high_query_loses_them() -> None:
    node = MirrorSettings(derived_first=False).build()
    for query in range(2):
        node.join(query)
    kept = node.select([*offer(2), Batch(0, None, 1, 0.01)], 50, {0: 0.9, 1: 0.1})
    assert tuples_of(kept) == {1: 50}


def test_derived_tuples_alone_too_many() -> None:
    node = one_node(2)
    batches = [Batch(0, None, 60, 0.001), Batch(1, None, 60, 0.001), *offer(2)]
    kept = node.select(batches, 80, {0: 0.2, 1: 0.2})
    assert [batch.source for batch in kept] == [None, None]
    assert [batch.tuples for batch in kept] == [40, 40]


def test_derived_tuples_are_not_in_the_ledger() -> None:
    """They were counted where their sources were accepted."""
    node = one_node(1, smooth_s=0.0)
    node.select([Batch(0, None, 10, 0.01)], 100, {})
    assert heard(node, 0.5) == pytest.approx([0.5])


# Feedback.


def test_what_is_under_way_counts() -> None:
    """Accepted and not yet reported: a query does not look low for the length of the delay."""
    node = one_node(2, delay_s=2.0)
    for _ in range(4):
        node.select([offer(2)[0]], 1000, {0: 0.0, 1: 0.0})
    assert heard(node, 0.0, 0.0) == pytest.approx([4 / WINDOW, 0.0])


def test_at_rest_a_query_keeps_its_level_with_what_falls_out_of_the_window() -> None:
    node = one_node(1)
    for _ in range(300):
        node.select([Batch(0, "s", 50, 1 / (WINDOW * 100))], 1000, {0: 0.5})
    assert heard(node, 0.5) == pytest.approx([0.5 - 0.5 / WINDOW])


def test_a_share_of_the_sources_stands_for_all_of_them() -> None:
    node = MirrorSettings(delay_s=2.0).build()
    node.join("half", 0.5)
    node.select([Batch("half", "s", 100, 0.5 / (WINDOW * 100))], 1000, {"half": 0.0})
    assert heard(node, 0.0) == pytest.approx([1 / WINDOW])


def test_without_a_report_the_local_view_serves() -> None:
    """Query 1's coordinator is gone; both keep their half, and it goes on when the reports are back."""
    node = one_node(2)
    reported = {0: 0.5, 1: 0.5}
    for _ in range(80):
        node.select(offer(2), 100, reported)
    gone = [tuples_of(node.select(offer(2), 100, {0: 0.5})) for _ in range(80)]
    assert gone[-1] == {0: 50, 1: 50}
    back = [tuples_of(node.select(offer(2), 100, reported)) for _ in range(40)]
    assert all(abs(kept[0] - 50) <= 3 for kept in [*gone, *back])


def test_intervals_that_passed_count_as_idle() -> None:
    slow, fast = one_node(1, smooth_s=0.0), one_node(1, smooth_s=0.0)
    columns = (np.array([0]), np.array([100]), np.array([1e-4]), np.zeros(1, np.bool_))
    for _ in range(10):
        slow.decide(*columns, 50, np.array([0.2]), elapsed=3)
        for idle in (True, True, False):
            empty = [column[:0] if idle else column for column in columns]
            fast.decide(*empty, 50, np.array([0.2]))  # type: ignore[arg-type]
    assert heard(slow, 0.2) == pytest.approx(heard(fast, 0.2))
    slow.decide(*columns, 50, np.array([0.2]), elapsed=10**9)
    assert slow.start() == pytest.approx([0.2 + 50e-4])


# Queries come and go.


def test_a_query_that_joins_gets_its_share_at_once_and_no_more() -> None:
    node = one_node(4)
    for _ in range(80):
        node.select(offer(4), 200, dict.fromkeys(range(4), 0.5))
    node.join(4)
    kept = [tuples_of(node.select(offer(5), 200, dict.fromkeys(range(4), 0.5))) for _ in range(12)]
    joiner = [each.get(4, 0) for each in kept]
    assert 30 <= joiner[0] <= 50
    assert all(25 <= count <= 55 for count in joiner)
    assert all(min(each.get(query, 0) for query in range(4)) >= 25 for each in kept)


def test_a_query_that_leaves_frees_its_share() -> None:
    node = one_node(3)
    for _ in range(60):
        node.select(offer(3), 150, dict.fromkeys(range(3), 0.5))
    node.leave(1)
    assert node.queries == (0, 2)
    assert (node.number(0), node.number(2)) == (0, 1)
    batches = [batch for batch in offer(3) if batch.query != 1]
    assert tuples_of(node.select(batches, 150, {0: 0.5, 2: 0.5})) == {0: 75, 2: 75}
    with pytest.raises(BadArgument, match="has not joined"):
        node.select(offer(3), 150, {})


def test_a_higher_priority_is_served_whole() -> None:
    node = one_node(3)
    node.change(1, priority=5)
    assert tuples_of(node.select(offer(3), 150, dict.fromkeys(range(3), 0.5))) == {0: 25, 1: 100, 2: 25}
    assert tuples_of(node.select(offer(3), 80, dict.fromkeys(range(3), 0.5))) == {1: 80}


def test_weights_can_change_while_running() -> None:
    sites = Sites([[500, 500]], [500.0])
    sites.run(100)
    sites.nodes[0].change(0, weight=3.0)
    assert sites.run(160)[120:].mean(axis=0) == pytest.approx([0.75, 0.25], abs=0.01)


def test_tuples_worth_nothing_come_last() -> None:
    node = one_node(1)
    batches = [Batch(0, "idle", 50, 0.0), Batch(0, "s", 50, 0.001)]
    assert node.select(batches, 60, {0: 0.1}) == [batches[1]]
    assert node.select(batches, 100, {0: 0.1}) == batches


def test_costs_share_time_instead_of_rows() -> None:
    """Query 1's rows take three times as long: at equal SIC, three quarters of the time."""
    node = one_node(2)
    keep = node.decide(
        np.array([0, 1]),
        np.array([100, 100]),
        np.full(2, 1 / (WINDOW * 100)),
        np.zeros(2, np.bool_),
        2.0,
        np.array([0.5, 0.5]),
        cost=np.array([0.01, 0.03]),
    )
    assert keep.tolist() == [50, 50]


# State.


def test_a_snapshot_goes_on_alike() -> None:
    one = Sites(RATES, CAPACITY)
    one.run(57)
    other = Sites(RATES, CAPACITY)
    for shedder, twin in zip(one.nodes, other.nodes, strict=True):
        twin.restore(json.loads(json.dumps(shedder.snapshot())))
    other.under_way, other.results = one.under_way.copy(), one.results.copy()
    assert np.array_equal(one.run(60), other.run(60))


def test_a_snapshot_of_another_shape_is_refused() -> None:
    with pytest.raises(SnapshotError, match="3 queries"):
        one_node(2).restore(one_node(3).snapshot())
    with pytest.raises(SnapshotError, match="settings"):
        one_node(2).restore(one_node(2, stw_s=5.0).snapshot())


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.integers(1, 8),
    st.integers(0, 8),
    st.floats(0, 1),
)
def test_the_ledger_equals_its_twin(values: list[float], window: int, reach: int, before: float) -> None:
    ledger = Accepted(window, reach)
    ledger.join(np.array([before]))
    for value in values:
        ledger.close(np.array([value]))
    past = [before] * (window + reach) + values
    assert ledger.running() == pytest.approx([sum(past[len(past) - window + 1 :])], abs=1e-9)
    for ago in range(reach + 1):
        whole = sum(past[len(past) - ago - window : len(past) - ago])
        assert ledger.ago(np.array([ago])) == pytest.approx([whole], abs=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: MirrorSettings(interval_s=0.0),
        lambda: MirrorSettings(interval_s=20.0),
        lambda: MirrorSettings(delay_s=-1.0),
        lambda: MirrorSettings(delay_s=11.0),
        lambda: MirrorSettings(smooth_s=-1.0),
        lambda: Mirror().join("q", share=1.5),
        lambda: Mirror().join("q", weight=0.0),
        lambda: Mirror().join("q", weight=math.inf),
        lambda: Mirror().join("q", delay_s=99.0),
        lambda: Mirror().leave("q"),
        lambda: Mirror().change("q", weight=2.0),
        lambda: one_node(1).join(0),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()
