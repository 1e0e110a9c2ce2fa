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
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.keeping.upkeep import remove_query
from headgate.store.lease import Holder
from headgate.store.plans import PlanStore


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


def memory_of(control: Path, call: int, owner: str = "me") -> GuardMemory:
    return GuardMemory(control, "g", InlinePolicy("balanced", average("1 second")), call, owner)


def learn(control: Path, query: str, call: int, batch: int, seconds: float) -> None:
    """One batch of a query behind the guard of this call."""
    memory = memory_of(control, call)
    memory.mark_begun(query, batch, Holder("me", run="r"), GateCall(call))
    memory.leave_lesson(query, batch, 0, [(7, 8, seconds)])
    memory.merge(query, batch, call)


def test_namesakes_that_run_at_once_learn_each_for_itself(control: Path) -> None:
    for batch in range(3):
        learn(control, "qa", 1, batch, 0.5)
        learn(control, "qb", 2, batch, 0.001)
    assert memory_of(control, 1).costs("qa", 3).duration(7) == pytest.approx(0.5)
    assert memory_of(control, 2).costs("qb", 3).duration(7) == pytest.approx(0.001)
    # In another process, with other numbers, each query goes on from its own.
    assert memory_of(control, 1, "later").costs("qa", 3).duration(7) == pytest.approx(0.5)
    assert memory_of(control, 1, "later").costs("qb", 3).duration(7) == pytest.approx(0.001)


def test_one_call_in_two_queries_learns_together(control: Path) -> None:
    learn(control, "qa", 1, 0, 0.5)
    learn(control, "qb", 1, 0, 0.5)
    assert memory_of(control, 1).costs("qb", 1).frequency(7) == 16.0


@pytest.mark.parametrize("owner", ["me", "later"])
def test_a_redeployed_guard_goes_on_from_what_was_learned(control: Path, owner: str) -> None:
    learn(control, "qa", 1, 0, 0.5)
    PlanStore(control, "g", "qa").lease.release(Holder("me", run="r"))
    assert memory_of(control, 2, owner).costs("qa", 1).duration(7) == pytest.approx(0.5)
    assert memory_of(control, 2, owner).costs("another checkpoint", 0).duration(7) == pytest.approx(0.5)


def test_a_job_that_merges_what_is_left_takes_nothing_from_a_running_query(control: Path) -> None:
    learn(control, "qa", 1, 0, 0.5)
    memory_of(control, 1).leave_lesson("qa", 1, 0, [(7, 8, 0.5)])
    memory_of(control, 0).leave_lesson("batch-x", 0, 0, [(8, 8, 0.25)])
    assert memory_of(control, 0).merge_what_is_left() == 1
    learn(control, "qb", 2, 0, 0.001)
    assert memory_of(control, 1).costs("qa", 2).duration(7) == pytest.approx(0.5)


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
