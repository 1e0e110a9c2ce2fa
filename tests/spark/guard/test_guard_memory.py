"""What a guard remembers stays small; no session is needed for it."""

from __future__ import annotations

from pathlib import Path

from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import average
from headgate.spark.guard.memory import GuardMemory
from headgate.store.folder import read_json
from headgate.store.upkeep import remove_query


def test_queries_that_are_gone_are_forgotten_in_the_merged_costs(control: Path) -> None:
    memory = GuardMemory(control, "g", InlinePolicy("balanced", average("1 second")))
    for number in range(4):
        memory.leave_lesson(f"q{number}", 0, 0, [(7, 3, 0.5)])
        memory.keep_queue(f"q{number}", 0, {})
        memory.merge(f"q{number}", 0)
    costs = control / "gates" / "g" / "costs.json"
    assert sorted(read_json(costs)["through"]) == ["q0", "q1", "q2", "q3"]
    for number in range(3):
        remove_query(control, "g", f"q{number}")
    memory.leave_lesson("q3", 1, 0, [(7, 3, 0.5)])
    assert memory.merge("q3", 1) == 1
    assert read_json(costs)["through"] == {"q3": 1}
    assert [p.name for p in (control / "gates" / "g" / "lessons").iterdir()] == ["q3"]
