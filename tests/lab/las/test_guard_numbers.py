"""The sweep of a guard's numbers, in its smallest size."""

from __future__ import annotations

import pytest

from headgate.guards.price_shedding import PriceShedding
from headgate_lab.bench.guard_numbers import run
from headgate_lab.sim.las.stream import StreamLaw
from headgate_lab.sim.las.worker import WorkerJob, run_worker

pytestmark = pytest.mark.slow

LAW = StreamLaw(1.0, 0.5, 3000, 128, shortest_s=0.0005, longest_s=0.032)


def test_a_worker_in_virtual_time_holds_its_target_and_drops_no_more_than_it_must() -> None:
    found = run_worker(WorkerJob(LAW), PriceShedding())
    assert found.wait < 1.1
    assert 0.5 < found.kept < 0.9, "half of the work fits, and dear rows go first"
    assert run_worker(WorkerJob(LAW), PriceShedding()) == found, "no clock decides"


def test_with_room_for_all_nothing_is_dropped() -> None:
    calm = StreamLaw(1.0, -0.5, 2000, 128, shortest_s=0.0005, longest_s=0.032)
    found = run_worker(WorkerJob(calm), PriceShedding())
    assert (found.kept, found.error) == (1.0, 0.0)


def test_a_pile_of_an_hour_ends_within_some_targets() -> None:
    found = run_worker(WorkerJob(LAW, piled_up=1500), PriceShedding())
    assert found.longest < 3.0


def test_the_sweep_in_its_smallest_size() -> None:
    result = run(quick=True, factors=(1.0, 2.0), jobs=("bursts",))
    tables = result["context"]["tables"]
    kept = tables["rows kept"]
    assert len(kept) == 14
    assert all(row["x1"] == 1.0 and 0.8 < row["x2"] < 1.2 for row in kept)
