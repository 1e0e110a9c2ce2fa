"""What a guard's weights promise, in bursts: overall and by kind, over many seeds.

A run is a queue on a virtual clock, in batches of a second, with a shedder built anew for each batch
from what the one before left, as in a worker.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest

import headgate as hg
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import LatencyTarget
from headgate.sketches.hashing import mix64
from headgate.sketches.keys import stable_key
from headgate_lab.figures.data_folder import found_data_file

pytestmark = pytest.mark.slow  # bursts in virtual time, some hundred times

#: What a row takes, by its kind, in units that make the whole stream `LOAD` times what fits.
KINDS = {"SUBMIT": 0.1, "SCHEDULE": 1.0, "KILL": 2.0, "FINISH": 3.0, "EVICT": 5.0, "FAIL": 10.0}
LOAD = 3.0
GOOGLE = "google_task_events_2011.parquet"

Rows = list[tuple[str, float]]


@cache
def generated() -> Rows:
    """Three minutes at 30 rows a second; in two of them a burst of 3,000 rows within two seconds."""
    random = np.random.default_rng(7)
    calm = np.sort(random.uniform(0.0, 180.0, 5_400))
    bursts = [begin + random.uniform(0.0, 2.0, 3_000) for begin in (45.0, 130.0)]
    instants = np.sort(np.concatenate([calm, *bursts]))
    kinds = random.choice(list(KINDS), len(instants), p=[0.33, 0.32, 0.08, 0.15, 0.1, 0.02])
    return list(zip(kinds.tolist(), instants.tolist(), strict=True))


@cache
def real() -> Rows:
    """Task events of a Google cluster, from an hour with bursts."""
    import pyarrow.parquet as pq

    path = found_data_file(GOOGLE)
    if path is None:
        pytest.skip(f"{GOOGLE} is not here")
    table = pq.read_table(path, columns=["ts_us", "event"])
    table = table.slice(int(np.searchsorted(table["ts_us"].to_numpy(), 27_000_000_000)), 12_000)
    rows = zip(table["event"].to_pylist(), table["ts_us"].to_pylist(), strict=True)
    return [(kind, micros / 1e6) for kind, micros in rows if kind in KINDS]


@dataclass
class Outcome:
    """What one run kept and dropped."""

    weights: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    largest: float = 0.0


def run(rows: Rows, policy: InlinePolicy, seed: int) -> Outcome:
    units = sum(KINDS[kind] for kind, _ in rows)
    took = {kind: unit * LOAD * (rows[-1][1] - rows[0][1]) / units for kind, unit in KINDS.items()}
    costs = policy.costs()
    for kind, seconds in took.items():
        costs.learn(stable_key(kind), seconds, 8)
    found, now, batch = Outcome(), 0.0, -1.0
    shedder = policy.build(costs, costs.mean, seed, None)
    for kind, at in rows:
        if math.floor(at) != batch:
            batch = math.floor(at)
            luck = mix64(seed + mix64(int(batch)))
            shedder = policy.build(costs, costs.mean, luck, shedder.state())
        now = max(now, batch + 1.0)
        weight, reason = shedder.offer(kind, at, now)
        if weight == 0.0:
            found.dropped[reason] += 1
            found.late[kind] += reason == "latency"
            continue
        found.weights[kind] += weight  # type: ignore[assignment]
        found.largest = max(found.largest, weight)
        found.waits.append(now - at)
        now += took[kind]
        shedder.done(kind, took[kind], now)
    return found


def z(values: list[float]) -> float:
    """How far the mean is from 0, in its own standard errors."""
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)) / spread if spread > 0.0 else 0.0


SEEDS = range(10)


@pytest.mark.parametrize("policy", ["balanced", "soft"])
@pytest.mark.parametrize("stream", [generated, real])
@pytest.mark.parametrize("target", [hg.average("1 second"), hg.sliding("1 second", 100)], ids=["a", "s"])
def test_weights_stand_for_all_that_came_whatever_dropped_it(
    stream: object, policy: str, target: LatencyTarget
) -> None:
    rows: Rows = stream()  # type: ignore[operator]
    truth = Counter(kind for kind, _ in rows)
    runs = [run(rows, InlinePolicy(policy, target), seed) for seed in SEEDS]
    assert min(r.dropped["latency"] for r in runs) > 0.02 * len(rows), "bursts close the check"
    total = [sum(r.weights.values()) - len(rows) for r in runs]
    assert abs(z(total)) < 4.0
    assert abs(np.mean(total)) < 0.1 * len(rows)
    for kind in KINDS:
        assert abs(z([r.weights[kind] - truth[kind] for r in runs])) < 4.5, kind


@pytest.mark.parametrize("stream", [generated, real])
def test_the_sample_of_late_rows_does_not_break_the_average(stream: object) -> None:
    rows: Rows = stream()  # type: ignore[operator]
    policy = InlinePolicy("balanced", hg.average("1 second"))
    for seed in range(3):
        assert np.mean(run(rows, policy, seed).waits) < 1.1


def test_an_absolute_target_knows_no_exception_and_its_weights_stand_for_the_others() -> None:
    rows = generated()
    truth = Counter(kind for kind, _ in rows)
    policy = InlinePolicy("balanced", hg.absolute("2 seconds"))
    runs = [run(rows, policy, seed) for seed in SEEDS]
    assert max(max(r.waits) for r in runs) <= 2.0
    assert min(r.dropped["latency"] for r in runs) > 0.02 * len(rows)
    assert abs(z([sum(r.weights.values()) - len(rows) + r.dropped["latency"] for r in runs])) < 4.0
    for kind in KINDS:
        misses = [r.weights[kind] - truth[kind] + r.late[kind] for r in runs]
        assert abs(z(misses)) < 4.5, kind


def test_a_hard_price_weighs_every_row_one() -> None:
    found = run(generated(), InlinePolicy("hard", hg.average("1 second")), 1)
    assert found.largest == 1.0


def test_a_task_without_any_room_spends_about_its_target_on_late_rows() -> None:
    """300,000 rows of 10 ms that have waited a minute: 3,000 s of work, and 1 % of it would be 30 s."""
    policy = InlinePolicy("balanced", hg.average("1 second"))
    costs = policy.costs()
    costs.learn(stable_key("dear"), 0.01, 8)
    shedder = policy.build(costs, costs.mean, 5, None)
    now, stood_for, rows = 60.0, 0.0, 300_000
    for _ in range(rows):
        weight, _ = shedder.offer("dear", 0.0, now)
        if weight:
            now += 0.01
            shedder.done("dear", 0.01, now)
            stood_for += weight
    assert now - 60.0 < 3.0
    assert stood_for == pytest.approx(rows, rel=0.5)
