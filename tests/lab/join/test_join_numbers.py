"""The sweep of a join's numbers, in its smallest size; and how numbers are moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from headgate.control.allowance import ALLOWANCE
from headgate.spark.join.terms import WORK
from headgate_lab.bench.join import numbers
from headgate_lab.bench.numbers import Number, sweep
from headgate_lab.sim.join.batches import BatchJob, run_batches
from headgate_lab.sim.join.machine import MachineJob, run_machine
from headgate_lab.sim.join.stream import Workload

pytestmark = pytest.mark.slow

SMALL = BatchJob(Workload(rates=((30.0, 60.0),), skew=0.8), 8_000.0, basic_s=0.5, first=10)


def test_a_number_is_moved_by_its_own_scale() -> None:
    assert Number("aim", "").at(ALLOWANCE, 0.5).aim == pytest.approx(0.46)
    assert Number("aim", "", most=1.0).at(ALLOWANCE, 2.0).aim == 1.0
    assert Number("memory", "", "window").at(ALLOWANCE, 2.0).memory == pytest.approx(0.9)
    assert Number("open_blocks", "").at(WORK, 0.7).open_blocks == 3
    deep = Number("lag_stats.draws", "")
    assert (deep.of(WORK), deep.at(WORK, 0.5).lag_stats.draws) == (32, 16)


def test_a_sweep_says_which_number_bends_the_result_and_where() -> None:
    @dataclass(frozen=True)
    class Config:
        steep: float = 2.0
        idle: float = 5.0

    def measured(job: float, config: Config) -> dict[str, float]:
        return {"found": 10.0 + job * config.steep}

    moved = (Number("steep", "units"), Number("idle", "units"))
    swept = sweep(Config(), moved, {"calm": 0.0, "hard": 5.0}, measured, (0.5, 1.0, 2.0))
    steep, idle = swept.rows("found")
    assert (idle["x0.5"], idle["x2"]) == (1.0, 1.0)
    assert (steep["x0.5"], steep["x1"], steep["x2"]) == (0.875, 1.0, 1.25)
    assert (steep["worst job"], steep["there"]) == ("hard", 0.75)
    assert swept.steepest("found") == {"steep": 0.25, "idle": 0.0}


def test_the_shipped_join_finds_more_in_virtual_time_than_its_share_of_comparisons() -> None:
    full, some = run_batches(SMALL, full=True), run_batches(SMALL)
    assert full.missed == 0.0
    assert some.made < 0.3 * full.made
    assert some.found / full.found > 1.5 * some.made / full.made
    assert run_batches(SMALL) == some, "no clock decides"


def test_the_machine_holds_its_target_and_uses_it() -> None:
    found = run_machine(MachineJob(), seeds=1)
    assert found["inside"] > 0.9
    assert found["made"] == pytest.approx((0.9 * 2.0 - 0.53) / (1e-9 * (1 + 400e-3)), rel=0.15)


def test_the_sweep_in_its_smallest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(numbers._LEARNING["few rows"], seeds=1)
    monkeypatch.setitem(numbers._LEARNING, "few rows", few)
    drawn = BatchJob(Workload(rates=((40.0, 150.0),), skew=0.8, shift_s=12.0), 1e15)
    monkeypatch.setitem(numbers._DRAWING, "rows 12 s apart", drawn)
    jobs = ("sparse", "few rows", "rows 12 s apart", "steady")
    result = numbers.run(quick=True, factors=(1.0, 2.0), jobs=jobs)
    tables = result["context"]["tables"]
    assert {len(rows) for rows in tables.values()} == {4, 8, 10}
    for rows in tables.values():
        assert all(row["x1"] == 1.0 and 0.1 < row["x2"] < 10.0 for row in rows)
    assert min(row["x2"] for row in tables["comparisons made"]) > 0.9
    assert set(result["ratios"].values()) > {0.0}
