"""The parts of `headgate bench scale`, small; and what it must never show."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.store.lease import this_process
from headgate_lab.bench.scale.clients import clients, percentile
from headgate_lab.bench.scale.loop import Load, run_application
from headgate_lab.bench.scale.pins import at_once, with_exceptions
from headgate_lab.bench.scale.scale import _ratios


@pytest.mark.slow
def test_an_application_of_many_gates_is_measured_and_none_fails_open(tmp_path: Path) -> None:
    with clients(str(tmp_path / "control"), this_process()) as found:
        row = run_application(tmp_path / "control", Load(6, 3, 10.0, 1.0), found, None)
        assert row["failed_open"] == 0
        assert 0.0 < row["pin_ms"] <= row["pin_p99_ms"]
        assert row["status_s"] > 0.0
        row = with_exceptions(tmp_path / "control", 1000, found, pins=2)
        assert row["plan_kb"] > 5.0
        row = at_once(tmp_path / "control", 20, found, 2, None)
        assert row["pin_p99_ms"] > 0.0


def test_ratios_are_the_most_against_the_least() -> None:
    rows = [{"gates": n, "pin_p99_ms": 2.0 * n, "driver_cpu": 0.0, "threads": n} for n in (10, 100, 500)]
    assert _ratios({"gates: folder": rows}) == {
        "pin_p99_ms of 500 vs 10 gates, folder": 50.0,
        "threads of 500 vs 10 gates, folder": 50.0,
    }


def test_a_percentile_of_few_values_is_the_largest() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile(list(map(float, range(200))), 0.99) == 198.0
