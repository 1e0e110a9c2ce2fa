"""Which batch is the first after an outage: the one with the rows of the outage, not one of before."""

from __future__ import annotations

from headgate.demo.batches import Batch
from headgate_lab.bench.hold.outage import _first
from headgate_lab.bench.hold.process import Answered

STOPPED, STARTED = 100.0, 160.0


def batch(number: int, duration_s: float, arrived: int, until: float, running: bool = False) -> Batch:
    return Batch(number, STARTED + number, duration_s, 1.0, arrived, arrived // 2, until, True, running)


def test_a_batch_that_was_planned_before_is_counted_apart() -> None:
    again, backlog = batch(7, 1.0, 500, STOPPED - 1.0), batch(8, 2.6, 60_000, STARTED)
    calm = [batch(number, 1.5, 1_000, STARTED + number) for number in (9, 10, 11)]
    found = _first(Answered((again, backlog, *calm), "q", 200.0), STARTED, 2.0, STOPPED)
    assert (found["planned before"], found["rows"], found["first batch"]) == (1, 60_000, 1.3)
    assert (found["batches to enter"], found["inside after s"]) == (1, 10.5)


def test_one_that_was_cut_short_is_the_first_whatever_it_brought() -> None:
    found = _first(Answered((batch(7, 90.0, 0, STOPPED, True),), "q", 250.0), STARTED, 2.0, STOPPED)
    assert (found["planned before"], found["first batch"], found["cut short"]) == (0, 45.0, True)
    assert found["batches to enter"] is None
