"""``headgate bench guard-numbers``: every tuned number of a guard's price, at half to twice its
default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.guards.price_shedding import PriceShedding
from headgate.spark.guard.terms import GuardTerms
from headgate_lab.bench.numbers import FACTORS, Number, sweep
from headgate_lab.bench.progress import bench_progress
from headgate_lab.sim.las.stream import StreamLaw
from headgate_lab.sim.las.worker import WorkerJob, run_worker

__all__ = ["run"]


def _law(zipf: float | None, under: float, tuples: int = 10_000, items: int = 512) -> StreamLaw:
    return StreamLaw(zipf, under, tuples, items, shortest_s=0.0005, longest_s=0.032)


_JOBS = {
    "Zipf, 25 % too much": WorkerJob(_law(1.0, 0.25), target_s=4.0),
    "Zipf, 60 % too much": WorkerJob(_law(1.0, 0.6), target_s=2.0),
    "a short target": WorkerJob(_law(1.0, 0.25)),
    "many keys, 50 % too much": WorkerJob(_law(None, 0.5, items=4096), target_s=3.0),
    "noisy costs": WorkerJob(_law(1.0, 0.4), noise=0.7, target_s=3.0),
    "costs that double": WorkerJob(_law(1.0, 0.1), doubled=2.0, target_s=3.0),
    "bursts": WorkerJob(_law(1.0, -0.3), in_bursts=0.4),
    "cheap rows": WorkerJob(StreamLaw(1.0, 0.5, 20_000, 512, 64, 0.00002, 0.001), target_s=1.0),
    "an hour piled up": WorkerJob(_law(1.0, 0.25), piled_up=5000),
    "pauses between batches": WorkerJob(_law(1.0, 0.25), pause_s=0.2),
    "10 % to spare": WorkerJob(_law(1.0, -0.1), target_s=2.0, pause_s=0.15),
}
_QUICK = ("Zipf, 25 % too much", "bursts")
_NUMBERS = (
    Number("price.rule.spread", "drops for a variance of 1"),
    Number("price.rule.kp", "logarithm of the price"),
    Number("price.rule.ki", "logarithm of the price, a row"),
    Number("price.rule.fade", "weight, a row", "window"),
    Number("price.rule.lowest", "share of the dearest cost"),
    Number("price.ahead.known", "executions"),
    Number("price.ahead.least_room", "share of the target"),
    Number("price.ahead.load_rows", "rows"),
    Number("price.ahead.overtime", "targets"),
    Number("price.memory", "rows of a key"),
    Number("price.calibration_rows", "rows"),
    Number("price.late_sample", "chance"),
    Number("price.late_room", "share of the target"),
    Number("cold_wait", "share of the target"),
)


_PRICE = PriceShedding()


@dataclass(frozen=True)
class _Guard:
    """The numbers of a guard: the price's, and how a cold start is counted."""

    price: PriceShedding = _PRICE
    cold_wait: float = GuardTerms.cold_wait


def run(
    *, quick: bool, factors: tuple[float, ...] | None = None, jobs: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Tables of what each number does to rows kept, to their waits, and to weighted counts."""
    moved = factors or ((0.5, 1.0, 2.0) if quick else FACTORS)
    names = jobs or (_QUICK if quick else tuple(_JOBS))
    with bench_progress() as progress:
        task = progress.add_task("numbers", total=len(_NUMBERS) + 1)

        def tell(what: str) -> None:
            progress.update(task, description=what)
            progress.advance(task)

        def measured(job: WorkerJob, guard: _Guard) -> dict[str, float]:
            found = run_worker(job, guard.price, guard.cold_wait)
            return {
                "kept": found.kept,
                "wait": found.wait,
                "certainty": 1.0 / max(0.001, found.error),
                "longest": found.longest,
            }

        swept = sweep(_Guard(), _NUMBERS, {n: _JOBS[n] for n in names}, measured, moved, tell)
    tables = {
        "rows kept": swept.rows("kept"),
        "mean wait": swept.rows("wait"),
        "certainty of weighted counts": swept.rows("certainty"),
        "longest batch": swept.rows("longest"),
    }
    ratios = {
        f"{name}: furthest from the default": value for name, value in swept.steepest("kept").items()
    }
    base = swept.found[_NUMBERS[0].name, 1.0]
    defaults = [{"job": job, **values} for job, values in base.items()]
    return {
        "bench": "guard-numbers",
        "ratios": ratios,
        "context": {"tables": {"defaults": defaults, **tables}},
    }
