"""``headgate bench join-rows``: which rows a join leaves out, and what it then says of all pairs."""

from __future__ import annotations

from typing import Any

from headgate_lab.bench.progress import bench_progress
from headgate_lab.sim.join.batches import BatchJob, run_batches
from headgate_lab.sim.join.drawn_rows import run_drawn
from headgate_lab.sim.join.stream import Workload

__all__ = ["run"]

_ALL = 1e15
#: Streams of join-2007, section 6.1; four items in common, or three.
_JOBS = {
    "12 s apart, skew .8, 4 in common": BatchJob(
        Workload(rates=((40.0, 1500.0),), skew=0.8, shift_s=12.0), _ALL, at_least=4
    ),
    "no shift, skew .8, 4 in common": BatchJob(
        Workload(rates=((40.0, 1500.0),), skew=0.8, shift_s=0.0), _ALL, at_least=4
    ),
    "25 s apart, skew .6, 3 in common": BatchJob(
        Workload(rates=((40.0, 1000.0),), skew=0.6, shift_s=25.0), _ALL
    ),
    "a fiftieth of the comparisons, too": BatchJob(
        Workload(rates=((40.0, 1500.0),), skew=0.8, shift_s=12.0), 2e6, at_least=4
    ),
}


def run(*, quick: bool) -> dict[str, Any]:
    """A row for each job and share of rows: pairs found by both draws, and the estimate of all."""
    jobs = dict(list(_JOBS.items())[:1]) if quick else _JOBS
    shares = (0.3,) if quick else (0.5, 0.3, 0.1)
    table: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("rows left out", total=len(jobs) * (1 + 2 * len(shares)))
        for name, job in jobs.items():
            full = run_batches(job, full=True).found
            progress.advance(task)
            for share in shares:
                ours = run_drawn(job, share)
                progress.advance(task)
                random = run_drawn(job, share, by_matches=False)
                progress.advance(task)
                table.append(
                    {
                        "job": name,
                        "share": share,
                        "rows kept": round(ours.kept / ours.arrived, 3),
                        "found": round(ours.found / full, 3),
                        "found at random": round(random.found / full, 3),
                        "estimate / all": round(ours.estimate / full, 2),
                        "its error / all": round(ours.error / full, 2),
                        "at random": round(random.estimate / full, 2),
                        "error at random": round(random.error / full, 2),
                    }
                )
    least = min(row["found"] / max(row["found at random"], 1e-9) for row in table)
    ratios = {
        "pairs_over_random_least": least,
        "errors_off_most": max(
            abs(row["estimate / all"] - 1.0) / max(row["its error / all"], 1e-9) for row in table
        ),
    }
    return {"bench": "join-rows", "ratios": ratios, "context": {"tables": {"rows left out": table}}}
