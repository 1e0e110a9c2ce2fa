"""The shedders in virtual time: drops and latencies at the paper's defaults, and how fast they adapt.

Numbers to compare with: las-2020 gives none in print; a reading of its text that reproduces every claim
drops .285 (LAS) and .253 (Full Knowledge) at 25 % under-provisioning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.guards.targets import PAPER_TARGET
from headgate_lab.bench.progress import bench_progress
from headgate_lab.papers.las import AckedPrice, AverageLatency, LasSettings
from headgate_lab.sim.las.queue import LasRun, PublishedPolicy
from headgate_lab.sim.las.queue import run as run_stream
from headgate_lab.sim.las.stream import StreamLaw, phases

__all__ = ["run"]

_SETTINGS = {"uniform 25 %": (None, 0.25), "uniform 50 %": (None, 0.5),
             "Zipf-1.0 25 %": (1.0, 0.25), "Zipf-1.0 50 %": (1.0, 0.5)}  # fmt: skip
_FULL, _OURS, _KNOWN = "Full Knowledge", "balanced price", "balanced price, known costs"
#: Phase F of Figure 9 doubles every cost at once.
_PHASE_TAU, _WINDOW, _LENGTH = 0.064, 4000, 20_000


def run(*, quick: bool) -> dict[str, Any]:
    """A row for each law and policy; savings against Full Knowledge; windows until tau holds again."""
    count = 8 if quick else 40
    table: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("streams", total=len(_SETTINGS) * count + count)
        for name, (zipf, under) in _SETTINGS.items():
            law = StreamLaw(zipf=zipf, under=under)
            found: dict[str, list[LasRun]] = {}
            for seed in range(count):
                stream = law.draw(seed)
                for policy, config in _policies(under, seed).items():
                    found.setdefault(policy, []).append(run_stream(stream, config))
                progress.advance(task)
            table += [
                {"law": name, "policy": policy, **_figures(runs)} for policy, runs in found.items()
            ]
        windows = []
        for seed in range(count):
            windows.append(_windows_to_settle(seed))
            progress.advance(task)
    drops = {(row["law"], row["policy"]): row["dropped_ratio"] for row in table}
    full = drops["Zipf-1.0 25 %", _FULL]
    ratios = {
        "saving_learnt": 1.0 - drops["Zipf-1.0 25 %", _OURS] / full,
        "saving_known": 1.0 - drops["Zipf-1.0 25 %", _KNOWN] / full,
        "phase_f_windows": float(max(windows)),
        "highest_running_average_known_s": max(
            row["highest_running_average_s"] for row in table if row["policy"] == _KNOWN
        ),
    }
    return {"bench": "las", "ratios": ratios, "context": {"streams": count, "rows": table}}


def _policies(under: float, seed: int) -> dict[str, Any]:
    return {
        "LAS": LasSettings(seed=seed),
        _FULL: PublishedPolicy(_FULL, PAPER_TARGET, under=under),
        _OURS: AckedPrice(seed=seed),
        _KNOWN: AckedPrice(costs="known", seed=seed),
    }


def _figures(runs: list[LasRun]) -> dict[str, float]:
    waits = [found.latency_s[found.keep] for found in runs]
    return {
        "dropped_ratio": float(np.mean([found.dropped_ratio for found in runs])),
        "average_queueing_latency_s": float(np.mean([found.average_latency_s for found in runs])),
        "p95_queueing_latency_s": float(np.mean([np.quantile(w, 0.95) for w in waits])),
        "p99_queueing_latency_s": float(np.mean([np.quantile(w, 0.99) for w in waits])),
        "highest_running_average_s": float(max(found.running_average_s.max() for found in runs)),
    }


def _windows_to_settle(seed: int) -> int:
    """Windows of phase F whose mean latency is above tau."""
    shedder = AckedPrice(AverageLatency(_PHASE_TAU), seed=seed)
    latency, _ = run_stream(phases(seed, length=_LENGTH), shedder, warm=False).windows(_WINDOW)
    in_phase = latency[5 * _LENGTH // _WINDOW : 6 * _LENGTH // _WINDOW]
    above = np.flatnonzero(in_phase > 1.02 * _PHASE_TAU)
    return int(above[-1]) + 1 if len(above) else 0
