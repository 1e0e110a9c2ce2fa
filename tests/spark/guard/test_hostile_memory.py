"""A guard's memory that somebody changed: what is no cost is not learned, and ends nothing."""

from __future__ import annotations

import base64
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from headgate.errors import SnapshotError
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import average
from headgate.sketches.cost_table import CostTable
from headgate.spark.guard.memory import GuardMemory
from tests.hostile import mangled

_POLICY = InlinePolicy("balanced", average("1 second"))
_LESSON = {"v": 1, "lessons": [["7", 3, 0.5], ["8", 1, 0.25], ["9", 1, 0.75]]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=mangled(_LESSON))
def test_costs_stay_costs_whatever_a_lesson_says(tmp_path: Path, value: Any) -> None:
    memory = GuardMemory(tmp_path, "g", _POLICY)
    folder = tmp_path / "gates" / "g" / "lessons" / "q"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{1:012d}-0.json").write_text(json.dumps(value))
    memory.merge("q")
    costs = memory.costs("q", 5)
    assert isinstance(costs, CostTable)
    assert math.isfinite(costs.mean)
    assert costs.mean >= 0.0
    assert 0.0 <= costs.duration(7) < math.inf
    _POLICY.build(costs, costs.mean, 1, None).offer(7, 0.0, 0.0)
    for path in tmp_path.rglob("costs.json"):
        path.unlink()


def test_a_table_of_a_size_that_nobody_has_is_refused_before_it_is_made() -> None:
    whole = bytearray(CostTable().to_bytes())
    claims = whole[:8] + struct.pack(">I", 0xFFFFFFFF) + whole[12:]
    for data in (bytes(claims), bytes(whole[:-1]), b"", b"\x00" * 64):
        with pytest.raises(SnapshotError):
            CostTable.from_bytes(data)


def test_a_table_of_what_is_no_duration_is_learned_again(tmp_path: Path) -> None:
    table = CostTable()
    table.learn(7, 0.5)
    table.means[:] = math.nan
    with pytest.raises(SnapshotError, match="durations that are none"):
        CostTable.from_bytes(table.to_bytes())
    at = tmp_path / "gates" / "g" / "costs.json"
    at.parent.mkdir(parents=True)
    said = {"v": 1, "costs": base64.b64encode(table.to_bytes()).decode(), "learnt": 0, "through": {}}
    at.write_text(json.dumps(said))
    assert GuardMemory(tmp_path, "g", _POLICY).costs("q", 5).mean == 0.0
