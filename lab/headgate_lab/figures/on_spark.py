"""Figures that are measured on a real query: the same trace through every policy, one after another."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headgate.demo.session import quiet_session
from headgate.guards.targets import average
from headgate_lab.demo.guarded import GuardedRun, GuardTrial
from headgate_lab.figures.las.policies import DROPPED
from headgate_lab.spark.trace_source import Trace

__all__ = ["COMPLETION", "guarded_runs", "windows_of"]

COMPLETION = "average_completion_latency_s"


def guarded_runs(
    policies: Mapping[str, Any],
    runs: int,
    trace: Callable[[int], Trace],
    tau_s: float,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[str, int, GuardedRun]]:
    """Every policy on every run's trace: its name, the run's seed, what became of the rows."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-figure-"))
    whole = runs * len(policies)
    try:
        with quiet_session(folder / "spark") as spark:
            trial = GuardTrial(spark, folder)
            trial.warm_up()
            for seed in range(runs):
                found = trace(seed)
                for number, (name, policy) in enumerate(policies.items()):
                    yield name, seed, trial.run(found, policy, average(tau_s), longest_s=30 * tau_s)
                    progress(seed * len(policies) + number + 1, whole)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def windows_of(found: GuardedRun, count: int) -> Iterator[dict[str, float]]:
    """The metrics of each of so many windows, as far as the query came.

    Rows that nobody came to are not dropped, and a window in which nothing was kept has no latency.
    """
    length = len(found.trace) // count
    for end in range(length, found.reached + 1, length):
        kept = found.kept[end - length : end]
        values = {DROPPED: 1.0 - float(kept.mean())}
        if kept.any():
            values[COMPLETION] = float(np.nanmean(found.completion_s[end - length : end]))
        yield values
