"""The hold table in virtual time: the shipped controller over several jobs, loads and kinds of arrivals.

Where `hold` takes minutes on Spark for one job on one machine, here the noise is known, a batch's luck
can be told from the controller's skill, and thousands of batches take seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headgate import HoldDelay, HoldDuration
from headgate.whatif.arrivals import step
from headgate.whatif.microbatch import BatchRun, MicroBatches, Workload
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.virtual_demo import demo_rows
from headgate_lab.bench.virtual_jobs import JOBS, SHAPES, WARM_UPS, Held, Job, WarmUp, hold, hold_cold
from headgate_lab.bench.virtual_peers import peer_rows

__all__ = ["run"]

LOADS = (0.9, 1, 2, 5, 10)
_NOISE = 0.1


def run(*, quick: bool) -> dict[str, Any]:
    """One row for each load and kind of arrivals, over all jobs; then steps and first batches."""
    jobs, seeds = (JOBS[:2], (0,)) if quick else (JOBS, (0, 1, 2))
    rows: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("holding", total=len(SHAPES) * len(LOADS) + 2)
        for shape in SHAPES:
            for load in LOADS:
                progress.update(task, description=f"{shape}, {load:g} times capacity")
                rows.append(_row(shape, load, [hold(j, load, shape, seeds=seeds) for j in jobs]))
                progress.advance(task)
        progress.update(task, description="steps, outages, first batches")
        steps = [_steps(job, seeds) for job in jobs]
        progress.advance(task)
        sizes = [_sizes(name, jobs, seeds, around) for name, around in _SIZES.items()]
        progress.advance(task)
    cold = [_cold(warm_up, load, jobs, seeds) for warm_up in WARM_UPS for load in (2, 5)]
    ratios = {f"inside_{r['arrivals'].replace(' ', '_')}_at_{r['load']}": r["inside"] for r in rows}
    ratios["shed_in_an_hour_at_0.9"] = sum(_shed_in_an_hour(job) for job in jobs if job.name != "edge")
    tables = {
        "all jobs, 10 % noise": rows,
        "steps, outages, first batches": steps,
        "how the size is known, bursts at 5 times capacity": sizes,
        "a cold start: kept of the best, and inside, by batches": cold,
        "the demo: 45 s at 5 times capacity, whole seconds": demo_rows(range(3 if quick else 10)),
        "errors of a mean, 30 s of bursts at 5 times capacity": peer_rows(range(2 if quick else 10)),
    }
    return {"bench": "hold-virtual", "ratios": ratios, "context": {"tables": tables}}


def _row(shape: str, load: float, held: list[Held]) -> dict[str, Any]:
    return {"arrivals": shape, "load": load, **_summary(held)}


def _summary(held: list[Held]) -> dict[str, Any]:
    return {
        "inside": round(sum(h.inside for h in held) / len(held), 3),
        "worst job": round(min(h.inside for h in held), 3),
        "longest": round(max(h.longest for h in held), 2),
        "kept of best": round(sum(h.kept_of_best for h in held) / len(held), 3),
        "kept": round(sum(h.kept for h in held) / len(held), 3),
        "hopeless": round(sum(h.hopeless for h in held) / len(held), 3),
    }


def _steps(job: Job, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Five times the capacity and back; an outage of sixty targets; a first batch of ten minutes.

    Batches are given by the target, or by what their rows cost at the least share if that is longer.
    """
    enter, zero, after, later, first = [], [], [], [], []
    for seed in seeds:
        up = _batches(job, step(0.5, 5.0, 40 * job.target_s), 120, seed)
        high = [b for b in up if b.start > 40 * job.target_s]
        enter.append(_to_enter(high, job.target_s))
        down = _batches(job, step(5.0, 0.5, 40 * job.target_s), 200, seed)
        low = [b for b in down if b.start > 41 * job.target_s]
        zero.append(next(i for i in range(len(low) + 1) if all(b.kept == b.arrived for b in low[i:])))
        engine = _engine(job, step(2.0, 2.0, 0.0), seed)
        engine.run(60)
        engine.restart(down_s=60 * job.target_s)
        after.append(_by_possible(job, engine.run(1)[0]))
        delay = _engine(job, step(2.0, 2.0, 0.0), seed, HoldDelay(2 * job.target_s)).run(200)
        later += [b.delay <= 2 * job.target_s for b in delay[10:]]
        cold = _engine(job, lambda t: 2.0, seed, down_s=600.0)
        first.append(_by_possible(job, cold.run(1)[0]))
    return {
        "job": job.name,
        "batches to enter": max(enter),
        "batches to zero shedding": max(zero),
        "first after an outage": round(max(after), 2),
        "delay inside": round(sum(later) / len(later), 3),
        "very first batch": round(max(first), 2),
    }


#: Batches of a cold start, by number: from, and before.
_STRETCHES = ((2, 6), (6, 11), (11, 21), (21, 40))


def _cold(warm_up: WarmUp, load: float, jobs: tuple[Job, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    """A run that warms up, by stretches of its batches; without the job that is mostly fixed price."""
    row: dict[str, Any] = {"prices fall by": warm_up.factor, "load": load}
    runs = [(j, hold_cold(j, load, warm_up, seeds=seeds)) for j in jobs if j.name != "edge"]
    for low, high in _STRETCHES:
        part = [
            (job, [(b, best) for run in found for b, best in run if low <= b.batch < high])
            for job, found in runs
        ]
        part = [(job, batches) for job, batches in part if batches]
        kept = [sum(b.kept for b, _ in bs) / sum(best for _, best in bs) for _, bs in part]
        inside = [sum(b.duration <= job.target_s for b, _ in bs) / len(bs) for job, bs in part]
        name = f"{low} to {high - 1}"
        row[f"kept {name}"] = round(sum(kept) / len(kept), 3)
        row[f"inside {name}"] = round(sum(inside) / len(inside), 3)
    late = [
        b.duration / job.target_s for job, found in runs for run in found for b, _ in run if b.batch > 1
    ]
    return row | {"longest": round(max(late), 2)}


def _by_possible(job: Job, batch: BatchRun) -> float:
    return batch.duration / max(job.target_s, job.cost.seconds(0.01 * batch.arrived, batch.arrived))


def _engine(job: Job, load: Any, seed: int, config: Any = None, down_s: float = 0.0) -> MicroBatches:
    cost = replace(job.cost, noise=_NOISE)
    engine = MicroBatches(
        Workload(lambda t: job.capacity * load(t), cost, seed=seed), config or HoldDuration(job.target_s)
    )
    engine.now += down_s
    return engine


def _batches(job: Job, load: Any, count: int, seed: int) -> list[BatchRun]:
    return _engine(job, load, seed).run(count)


def _to_enter(high: list[BatchRun], target_s: float) -> int:
    """Batches before the first of three in a row inside the target."""
    inside = [b.duration <= target_s for b in high]
    return next((i for i in range(len(inside) - 2) if all(inside[i : i + 3])), len(inside))


#: How well the size of a batch is known when its plan is pinned.
_SIZES: dict[str, dict[str, Any]] = {
    "exactly": {},
    "a fifth too large": {"size_ratio": 1.2},
    "a fifth too small": {"size_ratio": 0.8},
    "off by 20 % each": {"size_spread": 0.2},
    "not at all": {"size_known": False},
    "exactly, plans one batch late": {"plan_lag": True},
}


def _sizes(
    name: str, jobs: tuple[Job, ...], seeds: tuple[int, ...], around: dict[str, Any]
) -> dict[str, Any]:
    return {"size known": name, **_summary([hold(j, 5, "bursts", seeds=seeds, **around) for j in jobs])}


def _shed_in_an_hour(job: Job) -> int:
    """Rows shed in an hour of batches of a second, that is 3,600, at nine tenths of capacity."""
    engine = _engine(job, step(0.9, 0.9, 0.0), seed=5)
    engine.run(3600)
    return engine.shed
