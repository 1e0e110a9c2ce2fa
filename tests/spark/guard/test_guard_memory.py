"""What a guard remembers stays small; no session is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.price import PriceRule
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.targets import average
from headgate.spark.guard.memory import GuardMemory
from headgate.store.folder import read_json, write_json
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


AVERAGE = "AverageLatency(tau_s=1.0, form='long', counted_before=1, memory=10000)"
PAPER = "AverageLatency(tau_s=0.0064, form='long', counted_before=0, memory=None)"


@pytest.mark.parametrize(
    ("which", "written"),
    [
        ("balanced", f"InlinePolicy(which='balanced', target={AVERAGE})"),
        (0.2, f"InlinePolicy(which=0.2, target={AVERAGE})"),
        (
            PriceShedding(rule=PriceRule("soft")),
            f"InlinePolicy(which=PriceShedding(target={PAPER}, rule=PriceRule(shape='soft', gamma=1.0, "
            "spread=0.005, kp=0.3, ki=0.01), costs='table', epsilon=0.001, delta=0.1, half_life=4096, "
            f"ack_every=16, seed=0), target={AVERAGE})",
        ),
    ],
)
def test_a_queues_state_of_the_first_version_is_read(control: Path, which: object, written: str) -> None:
    policy = InlinePolicy(which, average("1 second"))  # type: ignore[arg-type]
    path = control / "gates" / "g" / "queries" / "q" / "queues" / "0.json"
    write_json(path, {"v": 1, "policy": written, "state": {"check": [3.0, 4.0]}})
    assert GuardMemory(control, "g", policy).queue("q", 0) == {"check": [3.0, 4.0]}
    other = InlinePolicy(which, average("2 seconds"))  # type: ignore[arg-type]
    assert GuardMemory(control, "g", other).queue("q", 0) is None
