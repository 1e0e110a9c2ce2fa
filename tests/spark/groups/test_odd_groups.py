"""Groups with values that are no finite number, or rows without a time: none is lost, none weighs more.

What a worker and the second pass make of a partition's groups, without a Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headgate.core.plan import Plan
from headgate.core.plan_parts import DrawLevel
from headgate.spark.groups.strata import StrataShape
from headgate.spark.groups.task import ABOUT, PartitionStrata, Sampling
from headgate.spark.groups.two_passes import needs_of, quotas_of

#: Three groups of a thousand rows, whose values are spread alike.
GROUPS, ROWS = 3, 1000


def _kept(odd: float, plan: Plan, alone: bool = True) -> tuple[list[int], list[float]]:
    """The rows kept of each group where one value of the first is odd, and the task's report."""
    rng = np.random.default_rng(1)
    keys, values = np.repeat(np.arange(GROUPS), ROWS), rng.normal(10.0, 2.0, GROUPS * ROWS)
    values[7] = odd
    hashes = rng.permutation(GROUPS * ROWS)
    columns = (pa.array(keys), pa.array(hashes), pa.array(values))
    sampling = Sampling("neyman", 1, "exceed", "fixed", seed=3, valued=True, alone=alone)
    weights, about = PartitionStrata(sampling, [columns]).decide(plan, 0)
    return np.bincount(keys, weights > 0, GROUPS).astype(int).tolist(), about


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan")])
def test_a_value_that_is_no_finite_number_is_passed_over(odd: float) -> None:
    kept, about = _kept(odd, Plan(0.1))
    assert kept == pytest.approx([100] * GROUPS, rel=0.1)
    assert about[ABOUT.index("deviation")] == pytest.approx(2.0 * GROUPS * ROWS, rel=0.1)


@pytest.mark.parametrize("odd", [1e200, -1.7e308])
def test_a_spread_beyond_all_numbers_takes_no_rows_from_other_groups(odd: float) -> None:
    kept, about = _kept(odd, Plan(0.1))
    assert kept[0] >= 1
    assert kept[1:] == pytest.approx([150] * 2, rel=0.1)
    assert about[ABOUT.index("deviation")] == pytest.approx(2.0 * 2 * ROWS, rel=0.1)


@pytest.mark.parametrize("odd", [float("inf"), 1e200])
def test_every_number_that_a_task_reports_is_finite(odd: float) -> None:
    level = DrawLevel(level=0.1, reference=2.0, rule="neyman")
    kept, about = _kept(odd, Plan(0.1, draw=level), alone=False)
    assert min(kept) >= 1
    assert kept[1:] == pytest.approx([100] * 2, rel=0.1)
    assert np.isfinite(about).all()


def test_a_batch_frame_treats_such_a_spread_alike() -> None:
    counts = pa.table({"k": range(GROUPS), "n": [ROWS] * GROUPS, "spread": [float("inf"), 2.0, 2.0]})
    shape = StrataShape(("route",), "neyman", 1, "exceed", value="fare", passes=True)
    assert quotas_of(counts, shape, Plan(0.1), 0).quotas.tolist() == [1, 150, 149]


def _needs(times: list[int | None]) -> list[float]:
    """The rows that an accuracy needs of groups whose rows all have this time, in minutes."""
    minute, n = 60_000_000, len(times)
    micros = pa.array([None if t is None else t * minute for t in times], pa.int64())
    counts = pa.table(
        {
            "n": [ROWS] * n, "mean": [10.0] * n, "spread": [2.0] * n,
            "earliest": micros, "latest": micros,
        }
    )  # fmt: skip
    shape = StrataShape(
        ("route",), "need", 1, "exceed", time="at", pane_us=10 * minute, window_us=30 * minute,
        value="fare", accuracy=("fare", 0.02, 0.95, 100), passes=True,
    )  # fmt: skip
    return needs_of(counts, shape, Plan(1.0)).tolist()


def test_rows_without_a_time_say_nothing_of_the_time_that_a_batch_spans() -> None:
    known = [29_000_000, 29_000_001, 29_000_002]
    assert _needs([*known, None])[:3] == _needs(known)
    assert _needs([None]) == _needs([0, 10])[:1], "as of a whole pane"
