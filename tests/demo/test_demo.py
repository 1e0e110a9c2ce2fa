"""A short demo on the shared session: the figures are all there, and the books balance."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.demo.batches import Batch, Side
from headgate.demo.calibrate import Calibration
from headgate.demo.plot import save_plot
from headgate.demo.progress import Silent
from headgate.demo.report import doubt
from headgate.demo.run import Demo, DemoResult
from headgate.demo.warm_up import WarmUp
from headgate.demo.watch import GATE
from headgate.demo.workload import Workload
from headgate.errors import BadArgument
from headgate.store.ledger.audit import audit
from tests.eventually import eventually

SIDE = {
    "batches",
    "inside_target",
    "p50_delay_s",
    "p95_delay_s",
    "max_delay_s",
    "kept",
    "ledger_balanced",
}


def batch(number: int, duration_s: float, **changes: object) -> Batch:
    values: dict[str, object] = {
        "number": number,
        "started_at": 100.0 + number,
        "duration_s": duration_s,
        "delay_s": duration_s + 1.0,
        "arrived": 100,
        "kept": 20,
        "until": 100.0 + number,
    }
    return Batch(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "control"


@pytest.fixture(scope="module")
def result(spark: SparkSession, control: Path, tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    demo = Demo(target="30 seconds", seconds=3.0, load=2.0, capacity=1000.0, workload=Workload(roads=5))
    return demo.run(spark, control, tmp_path_factory.mktemp("demo-scratch"))


def test_the_json_has_every_figure(result: DemoResult) -> None:
    value = result.to_json()
    assert {"target_s", "capacity_rows_s", "load", "ungated", "gated"} <= value.keys()
    assert (value["target_s"], value["capacity_rows_s"], value["load"]) == (30.0, 1000, 2.0)
    for side in (value["ungated"], value["gated"]):
        assert side.keys() >= SIDE
        assert side["batches"] > 0
        assert 0.0 <= side["inside_target"] <= 1.0
        assert 0.0 < side["p50_delay_s"] <= side["p95_delay_s"] <= side["max_delay_s"]


def test_every_row_is_accounted_for(result: DemoResult, control: Path) -> None:
    assert result.ungated.ledger_balanced
    assert result.ungated.kept == 1.0
    assert result.gated.ledger_balanced
    (found,) = audit(control, GATE, result.gated.query)
    assert found.balanced
    assert found.arrived == sum(b.arrived for b in result.gated.batches)


def test_a_gate_warms_up_in_a_folder_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    workload = Workload(roads=5)
    warm_up = WarmUp(seconds=0.0, batches=1)
    assert warm_up.run(workload, workload.arrivals(spark, 1000), tmp_path, Silent()) >= 1
    control = tmp_path / "warm-up"
    rows = eventually(
        lambda: sum(found.arrived for found in audit(control, "warm-up")), "the warm-up's own ledger"
    )
    assert rows >= 1000
    assert not (control / "gates" / GATE).exists(), "nothing of it reaches the gate that is shown"


def test_the_picture_is_drawn(result: DemoResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert save_plot(result, tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_first_ten_batches_are_not_judged() -> None:
    slow = [batch(i, 9.0) for i in range(10)]
    assert Side(2.0, 100.0, batches=[*slow, batch(10, 1.0)]).inside_target == 1.0
    assert Side(2.0, 100.0, batches=slow).inside_target == 0.0
    few = Side(2.0, 100.0, batches=[batch(0, 1.0), batch(1, 3.0)])
    assert few.inside_target == 0.5, "with ten or fewer, all count"


def test_rows_are_counted_in_the_whole_run_and_beside_it_once_it_has_settled() -> None:
    learning = [batch(i, 1.0, kept=2) for i in range(10)]
    side = Side(2.0, 100.0, batches=[*learning, batch(10, 1.0, kept=20), batch(11, 1.0, kept=18)])
    assert side.kept == pytest.approx(58 / 1200)
    assert side.kept_settled == pytest.approx(0.19)
    assert Side(2.0, 100.0, batches=learning).kept_settled == pytest.approx(0.02)
    cut = batch(10, 2.5, arrived=0, kept=0, running=True)
    assert Side(2.0, 100.0, batches=[*learning, cut]).kept_settled == pytest.approx(0.02), "none ended"


def test_a_batch_cut_short_is_outside_and_carries_no_rows() -> None:
    cut = batch(1, 2.5, arrived=0, kept=0, running=True)
    side = Side(2.0, 100.0, batches=[batch(0, 1.0), cut])
    assert side.inside_target == 0.5
    assert side.kept == 0.2
    assert side.to_json()["cut_short_after_s"] == 2.5


def test_capacity_is_what_can_go_on_for_ever() -> None:
    slow = [batch(0, 0.7, arrived=1), batch(1, 0.5, arrived=1)]
    busy = [batch(0, 9.0, arrived=400_001), batch(1, 4.5, arrived=400_001)]
    found = Calibration().line(slow, busy, target_s=2.0, trigger_s=1.0)
    assert (found.fixed_s, found.per_row_s) == pytest.approx((0.5, 1e-5), rel=1e-3)
    assert found.fixed_s + found.per_row_s * 2.0 * found.rows_per_second == pytest.approx(2.0)


def test_the_price_of_a_row_is_that_of_batches_of_the_targets_length() -> None:
    """A row is cheaper in a batch of nine seconds, so a line through one promises too much; and so does
    the luckiest of those near the target: the middle one tells what is sustained."""
    found = Calibration().line(
        [batch(0, 0.5, arrived=1)], [batch(0, 9.0, arrived=850_001)], target_s=2.0, trigger_s=1.0
    )
    assert found.rows_per_second == pytest.approx(75_000, rel=1e-3)
    near = [batch(1, 1.55, arrived=75_000)]
    near += [batch(2, 3.5, arrived=150_000), batch(3, 2.9, arrived=150_000)]
    far = [batch(0, 0.6, arrived=10_000), batch(4, 4.0, arrived=500_000)]
    again = Calibration().checked(found, near + far, target_s=2.0, trigger_s=1.0)
    assert (again.fixed_s, again.per_row_s) == pytest.approx((0.5, 16e-6), rel=1e-3)
    assert again.fixed_s + again.per_row_s * 2.0 * again.rows_per_second == pytest.approx(2.0)
    assert Calibration().checked(found, far, target_s=2.0, trigger_s=1.0) == found


def test_a_target_below_the_price_of_a_batch_is_refused() -> None:
    slow, busy = [batch(0, 3.0, arrived=100)], [batch(1, 5.0, arrived=400_000)]
    with pytest.raises(BadArgument, match="before its first row"):
        Calibration().line(slow, busy, target_s=2.0, trigger_s=1.0)
    with pytest.raises(BadArgument, match="calmer"):
        Calibration().line([], [], target_s=2.0, trigger_s=1.0)


def _side(*delays: float, running: bool = True) -> Side:
    side = Side(2.0, 100.0)
    side.batches = [batch(i, 3.0, delay_s=d) for i, d in enumerate(delays)]
    side.batches[-1] = batch(len(delays), 3.0, delay_s=delays[-1], running=running)
    return side


@pytest.mark.parametrize(
    ("side", "rising"),
    [
        (_side(5.9, 22.5, 40.0), True),
        (_side(5.9, 22.5, 20.0), True),  # cut short when its last batch had just begun
        (_side(5.0), True),  # the first batch never ended
        (_side(8.0, 7.0, 6.6, 6.0), False),
        (_side(3.0, 9.0, running=False), False),
    ],
)
def test_delays_rise_only_where_a_query_falls_behind(side: Side, rising: bool) -> None:
    assert side.rising is rising
    result = DemoResult(2.0, 1000.0, 5000, 45.0, side, _side(3.0))
    assert (doubt(result) is None) is rising, "what was no overload is said to be none"
