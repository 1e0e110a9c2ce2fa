"""Is the result flat around the controller's numbers? Each is made smaller and larger, alone.

Over all jobs, with smooth arrivals and bursts, at 1 and 5 times the capacity and noise of 3, 10 and
20 %: what changes of the share of batches inside and of the rows kept against the best
constant budget, and what is shed at nine tenths of the capacity; and of the rows that could be kept in
batches 6 to 20 after a cold start in which prices fall by three.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from headgate import HoldDuration
from headgate.control.tuning import HoldTuning
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.virtual_jobs import JOBS, WARM_UPS, Held, Job, hold, hold_cold

__all__ = ["run"]

#: Numbers that are shares close to 1 are moved by so much, all others by the factors.
_NEAR_ONE = {"enter": 0.02, "leave": 0.02, "highest_aim": 0.02, "first_fixed": 0.02, "fade": 0.0009}
_FACTORS = (0.5, 2.0)
#: Bounds that a factor would move past what they bound.
_VALUES = {"longest": (1.15, 1.6), "least": (0.35, 0.9), "most": (1.5, 4.0), "lowest_aim": (0.25, 0.7)}
#: Numbers that these runs do not show: when shedding is futile, what is late, starting up, pauses.
_NOT_SHOWN = ("futility", "least_room", "start_up", "waited", "fade")


def run(*, quick: bool) -> dict[str, Any]:
    """One row for each number and each of its other values, beside the defaults."""
    jobs = JOBS[:2] if quick else JOBS
    variants = _variants()
    if quick:
        variants = variants[:7]
    rows: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("moving the numbers", total=len(variants))
        for name, value, tuning in variants:
            progress.update(task, description=f"{name} = {value}")
            rows.append({"number": name, "value": value, **_measure(jobs, tuning)})
            progress.advance(task)
    base = rows[0]
    ratios = {
        f"largest_change_{of}": round(max(abs(r[of] - base[of]) for r in rows), 4)
        for of in ("inside_at_5", "kept_of_best_at_5", "inside_at_1", "shed_at_0.9", "kept_cold")
    }
    tables = {"each number alone": rows}
    return {"bench": "hold-sweep", "ratios": ratios, "context": {"tables": tables}}


def _variants() -> list[tuple[str, str, HoldTuning]]:
    base = HoldTuning()
    found = [("defaults", "", base)]
    for part in fields(base):
        if part.name in _NOT_SHOWN:
            continue
        config = getattr(base, part.name)
        for number in fields(config):
            if number.name in _NOT_SHOWN:
                continue
            value = getattr(config, number.name)
            for other in _others(number.name, value):
                moved = replace(config, **{number.name: other})
                tuning = replace(base, **{part.name: moved})
                found.append((f"{part.name}.{number.name}", f"{value:g} -> {other:g}", tuning))
    return found


def _others(name: str, value: float) -> list[float]:
    if name in _NEAR_ONE:
        return [value - _NEAR_ONE[name], value + _NEAR_ONE[name]]
    if name in _VALUES:
        return list(_VALUES[name])
    return [type(value)(value * factor) for factor in _FACTORS]


def _measure(jobs: tuple[Job, ...], tuning: HoldTuning) -> dict[str, float]:
    def config(target_s: float) -> HoldDuration:
        return HoldDuration(target_s, tuning=tuning)

    def all_of(load: float, shapes: tuple[str, ...], noises: tuple[float, ...]) -> list[Held]:
        return [
            hold(job, load, shape, noise=noise, seeds=(0,), batches=130, config=config)
            for job in jobs
            for shape in shapes
            for noise in noises
        ]

    high = all_of(5, ("smooth", "bursts"), (0.03, 0.1, 0.2))
    edge = all_of(1, ("smooth",), (0.1,))
    low = all_of(0.9, ("smooth",), (0.1,))
    return {
        "inside_at_5": round(_mean([h.inside for h in high]), 4),
        "kept_of_best_at_5": round(_mean([h.kept_of_best for h in high]), 4),
        "longest_at_5": round(max(h.longest for h in high), 2),
        "inside_at_1": round(_mean([h.inside for h in edge]), 4),
        "shed_at_0.9": round(1.0 - _mean([h.kept for h in low]), 4),
        "kept_cold": round(_mean([_kept_cold(job, config) for job in jobs if job.name != "edge"]), 4),
    }


def _kept_cold(job: Job, config: Callable[[float], HoldDuration]) -> float:
    found = hold_cold(job, 5, WARM_UPS[2], seeds=(0, 1), batches=21, config=config)
    later = [(b.kept, best) for run in found for b, best in run if b.batch >= 6]
    return sum(kept for kept, _ in later) / sum(best for _, best in later)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
