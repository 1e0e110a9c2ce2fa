"""What is said of peers, on runs whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headgate.demo.batches import Batch
from headgate.errors import BadArgument
from headgate_lab.bench.hold.arrivals import Schedule
from headgate_lab.bench.hold.hold import HoldPlan
from headgate_lab.bench.hold.orders import Query, RunOrder, Shedding, Source, order_from, to_line
from headgate_lab.bench.hold.outage import OutagePlan
from headgate_lab.bench.hold.peer_figures import (
    backlog,
    errors,
    row_delays,
    weighted_quantile,
)
from headgate_lab.bench.hold.peers import PeerPlan
from headgate_lab.bench.hold.process import Release

STEADY = Schedule((100.0,) * 40)  # 20 s


def _batch(number: int, start: float, ended: float, since: float, until: float, arrived: int) -> Batch:
    return Batch(number, start, ended - start, ended - since, arrived, arrived, until)


def test_whoever_keeps_up_has_the_delay_of_a_batch() -> None:
    batches = [_batch(i, i + 1.0, i + 2.0, float(i), i + 1.0, 100) for i in range(20)]
    delays, weights = row_delays(batches, STEADY, 0.0, 21.0)
    assert weights.sum() == pytest.approx(2000)
    assert weighted_quantile(delays, weights, 0.5) == pytest.approx(1.5, abs=0.05)
    assert delays[weights > 0].max() == pytest.approx(2.0)
    assert backlog(batches, STEADY, 0.0, 21.0) == 0


def test_rows_that_nobody_has_read_are_late_by_what_they_have_waited() -> None:
    batches = [_batch(0, 1.0, 2.0, 0.0, 1.0, 100), Batch(1, 2.0, 18.0, 19.0, 0, 0, 1.0, running=True)]
    delays, weights = row_delays(batches, STEADY, 0.0, 20.0)
    assert weights.sum() == pytest.approx(2000)
    assert delays[weights > 0].max() == pytest.approx(19.0, abs=0.3)
    assert weighted_quantile(delays, weights, 0.5) == pytest.approx(9.5, abs=1.0)
    assert backlog(batches, STEADY, 0.0, 20.0) == 1900


def test_errors_are_of_answered_windows_and_the_share_says_how_many() -> None:
    true = {(float(w), road): (10.0, 20.0) for w in range(10) for road in (1, 2)}
    said = {(float(w), 1): (11.0, 18.0) for w in range(4)}
    found = errors(said, true, last_begin=7.0)
    assert (found.mean, found.median) == (pytest.approx(0.1), pytest.approx(0.1))
    assert found.answered == 4 / 16
    assert errors({}, true, 7.0).answered == 0.0


def test_quantiles_by_weight() -> None:
    values, weights = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 9.0])
    assert weighted_quantile(values, weights, 0.05) == 1.0
    assert weighted_quantile(values, weights, 0.95) == 3.0
    assert weighted_quantile(values, np.zeros(3), 0.5) == 0.0


def test_orders_cross_over_unchanged() -> None:
    source = Source("rate", 7, (1, 2, 3), 0.5, 1e9)
    order = RunOrder(source, Shedding("gate", hold_s=2.0, control="c"), "p", 2.0, Query(results="r"))
    assert order_from(to_line(order)) == order


def test_a_plan_fits_its_minutes_or_says_what_would() -> None:
    plan = HoldPlan(loads=(2.0, 5.0), arrivals=("steady", "bursts"), minutes=20.0, beside="x")
    assert plan.runs == 12
    assert plan.runs * (plan.step.end_s + 8) + 120 <= 20 * 60
    with pytest.raises(BadArgument, match=r"too few for 10 runs .* give 7"):
        _ = HoldPlan(minutes=3.0).step
    peers = PeerPlan.of_minutes(10.0, loads=(2.0,))
    assert 4.6 * peers.seconds + 125 + 4 * 6 <= 600
    assert OutagePlan().minutes < 18 < OutagePlan(beside="x").minutes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: HoldPlan(loads=(0.0,)), "above 0"),
        (lambda: HoldPlan(arrivals=("waves",)), "steady, bursts, trace"),
        (lambda: PeerPlan(source="rate"), "maxOffsetsPerTrigger"),
        (lambda: PeerPlan(seconds=5.0), "20 s or more"),
        (lambda: OutagePlan(backlog=2.0), r"outside \(0, 1\]"),
        (lambda: Release.beside("/no/such/place"), "neither a checkout"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(make: object, said: str) -> None:
    with pytest.raises(BadArgument, match=said):
        make()  # type: ignore[operator]


def test_a_release_is_found_by_its_checkout(tmp_path: Path) -> None:
    package = tmp_path / "src" / "headgate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for given in (tmp_path, tmp_path / "src"):
        found = Release.beside(str(given))
        assert found.path == tmp_path / "src"
        assert found.environment()["PYTHONPATH"].startswith(str(tmp_path / "src"))
