"""What a guard's shedders must do: in the worker (`InlineShedder`), and in front of a queue (`Shedder`).

>>> from headgate.guards.inline import KeepAll
>>> check_shedder(lambda state: KeepAll())
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headgate.guards.inline import CHANCE, LATE, PRICED, InlineShedder
from headgate.guards.verdict import Shedder
from headgate.sketches.keys import stable_key
from headgate.testing.contracts.require import require

__all__ = [
    "QUEUE_SHEDDER_CHECKS",
    "SHEDDER_CHECKS",
    "check_queue_shedder",
    "check_shedder",
    "served_rows",
]

#: Makes the shedder of one queue, fresh or from what an earlier one's `state` said.
Build = Callable[[Mapping[str, Any] | None], InlineShedder]
#: Makes the shedder in front of one queue.
BuildQueue = Callable[[], Shedder]

_REASONS = {answer[1] for answer in (CHANCE, LATE, PRICED)}
#: A row: its key, what it takes, and when it arrives, in seconds.
Row = tuple[str, float, float]


def _rows(seed: int, count: int, gap_s: float) -> Iterator[Row]:
    """Rows whose key tells their cost: some dear, most cheap; 2 ms on average."""
    rng = random.Random(seed)
    now = 0.0
    for _ in range(count):
        key = rng.randrange(20)
        yield f"key {key}", 0.0002 * (1 + key), now
        now += rng.expovariate(1.0 / gap_s)


def served_rows(
    shedder: InlineShedder, seed: int, count: int = 2000, gap_s: float = 0.001
) -> Iterator[tuple[Row, tuple[float, str]]]:
    """Each row with the answer it got, in a worker that executes the kept ones one after another."""
    now = 0.0
    for key, cost, arrived in _rows(seed, count, gap_s):
        now = max(now, arrived)
        answer = shedder.offer(key, arrived, now)
        if answer[0] > 0.0:
            now += cost
            shedder.done(key, cost, now)
        yield (key, cost, arrived), answer


def answers_are_legal(build: Build) -> None:
    """A kept row stands for at least one and gives no reason; a dropped one for none, and gives one."""
    for seed in range(3):
        for row, (weight, reason) in served_rows(build(None), seed):
            kept = math.isfinite(weight) and weight >= 1.0 and reason == ""
            dropped = weight == 0.0 and reason in _REASONS
            require(kept or dropped, f"{(weight, reason)} is no answer for {row}")


def shedding_is_deterministic(build: Build) -> None:
    """The same rows get the same answers: no clock of its own, no chance but the seed's."""
    for seed in range(2):
        first = [answer for _, answer in served_rows(build(None), seed)]
        second = [answer for _, answer in served_rows(build(None), seed)]
        require(first == second, f"the rows of seed {seed} got other answers the second time")


def state_is_json_and_comes_back(build: Build) -> None:
    """What a queue remembers is JSON, and a shedder built from it remembers the same."""
    shedder = build(None)
    for _ in served_rows(shedder, 0):
        pass
    stored = json.loads(json.dumps(shedder.state(), allow_nan=False))
    again = json.loads(json.dumps(build(stored).state(), allow_nan=False))
    require(stored == again, f"a shedder built from {stored} remembers {again}")


def lessons_are_what_was_executed(build: Build) -> None:
    """Lessons tell of each key how often it ran and how long that took, under its stable number."""
    shedder, truth = build(None), dict[int, list[float]]()
    for (key, cost, _), (weight, _) in served_rows(shedder, 1):
        if weight > 0.0:
            truth.setdefault(stable_key(key), []).append(cost)
    lessons = {number: (runs, mean) for number, runs, mean in shedder.lessons()}
    require(
        {n: runs for n, (runs, _) in lessons.items()} == {n: len(c) for n, c in truth.items()},
        f"lessons {lessons} of executions {truth}",
    )
    for number, (_, mean) in lessons.items():
        real = sum(truth[number]) / len(truth[number])
        require(math.isclose(mean, real, rel_tol=1e-6), f"a mean of {mean} s for rows of {real} s")


def rows_that_do_not_wait_are_kept(build: Build) -> None:
    """Where every row finds an idle worker, none is dropped."""
    for row, answer in served_rows(build(None), 2, gap_s=1.0):
        require(answer == (1.0, ""), f"{row} waited for nothing and got {answer}")


SHEDDER_CHECKS: tuple[Callable[[Build], None], ...] = (
    answers_are_legal,
    shedding_is_deterministic,
    state_is_json_and_comes_back,
    lessons_are_what_was_executed,
    rows_that_do_not_wait_are_kept,
)


def check_shedder(build: Build, by_chance: bool = False) -> None:
    """Run every check of a worker's shedder; one that drops `by_chance` may drop rows at any time."""
    for check in SHEDDER_CHECKS:
        if not (by_chance and check is rows_that_do_not_wait_are_kept):
            check(build)


def _verdicts(shedder: Shedder, seed: int, gap_s: float) -> Iterator[tuple[Row, Any]]:
    for key, cost, arrived in _rows(seed, 2000, gap_s):
        yield (key, cost, arrived), shedder.offer(stable_key(key), arrived, cost)


def verdicts_are_legal(build: BuildQueue) -> None:
    """A chance is in [0, 1]; a kept row had one, and a request for C-hat comes with a kept row only."""
    for row, verdict in _verdicts(build(), 0, 0.001):
        legal = 0.0 <= verdict.probability <= 1.0 and (not verdict.keep or verdict.probability > 0.0)
        legal = legal and (verdict.request is None or (verdict.keep and verdict.request >= 0.0))
        require(legal, f"{verdict} is no verdict for {row}")


def verdicts_are_deterministic(build: BuildQueue) -> None:
    """The same rows get the same verdicts."""
    first = [verdict for _, verdict in _verdicts(build(), 1, 0.001)]
    require(first == [v for _, v in _verdicts(build(), 1, 0.001)], "other verdicts the second time")


def rows_before_an_empty_queue_are_kept(build: BuildQueue) -> None:
    """Where each row comes long after the one before it, none is dropped."""
    for row, verdict in _verdicts(build(), 2, 1.0):
        require(verdict.keep, f"{row} would have waited for nothing and got {verdict}")


QUEUE_SHEDDER_CHECKS: tuple[Callable[[BuildQueue], None], ...] = (
    verdicts_are_legal,
    verdicts_are_deterministic,
    rows_before_an_empty_queue_are_kept,
)


def check_queue_shedder(build: BuildQueue, by_chance: bool = False) -> None:
    """The same for a shedder in front of a queue."""
    for check in QUEUE_SHEDDER_CHECKS:
        if not (by_chance and check is rows_before_an_empty_queue_are_kept):
            check(build)
