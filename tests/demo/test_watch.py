"""A batch is read from the demo's own meter, or from the gate's where that is alone in the query."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.demo.watch import GATE, batch_in
from headgate.spark.gate.meter import metric_names

#: When the stream's first second began, in microseconds since 1970.
BEGAN_US = 1_767_225_600_000_000


def _progress(**metrics: dict[str, Any]) -> dict[str, Any]:
    """Three seconds of a hundred rows each, whose batch began half a second after the last of them."""
    front, behind, _ = metric_names(GATE)
    names = {"counted": "demo.rows", "gate": front, "behind": behind}
    return {
        "id": "q", "batchId": 7, "timestamp": "2026-01-01T00:00:03.500Z",
        "durationMs": {"triggerExecution": 1000},
        "sources": [{"description": "RateStreamV2[]", "startOffset": 0, "endOffset": 3}],
        "observedMetrics": {names[key]: value for key, value in metrics.items()},
    }  # fmt: skip


def test_without_a_gate_the_demos_meter_counts() -> None:
    found = batch_in(_progress(counted={"rows": 300, "oldest": BEGAN_US}), 100)
    assert found is not None
    assert (found.arrived, found.kept, found.counted) == (300, 300, True)
    assert found.delay_s == pytest.approx(4.5)


def test_with_a_gate_the_gates_own_meter_does_and_the_offsets_check_it() -> None:
    gate = {"arrived": 300, "oldest": BEGAN_US}
    found = batch_in(_progress(gate=gate, behind={"kept": 30}), 100)
    assert found is not None
    assert (found.arrived, found.kept, found.counted) == (300, 30, True)
    assert (found.delay_s, found.until) == pytest.approx((4.5, BEGAN_US / 1e6 + 3))
    short = batch_in(_progress(gate={**gate, "arrived": 299}, behind={"kept": 30}), 100)
    assert short is not None
    assert not short.counted, "three seconds bring three hundred rows"


def test_where_both_count_they_must_agree() -> None:
    counted, gate = {"rows": 300, "oldest": BEGAN_US}, {"arrived": 299, "oldest": BEGAN_US}
    found = batch_in(_progress(counted=counted, gate=gate, behind={"kept": 30}), 100)
    assert found is not None
    assert (found.arrived, found.counted) == (300, False)


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"counted": {"rows": 0, "oldest": None}},
        {"gate": {"arrived": 0, "oldest": None}, "behind": {"kept": 0}},
    ],
)
def test_a_batch_without_rows_is_none(metrics: dict[str, Any]) -> None:
    assert batch_in(_progress(**metrics), 100) is None
