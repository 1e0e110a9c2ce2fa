"""``headgate bench themis-speed``: how much faster than real time the federation simulator is.

18 nodes and 2,000 fragments for five minutes, with bursts and latencies, by shedder. The goal, five
minutes in less than one, is a ratio of 5; the first seconds of a process, in which kernels are compiled
or loaded, are not counted.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from headgate_lab.bench.progress import bench_progress
from headgate_lab.figures.themis.policies import SHEDDERS
from headgate_lab.sim.themis.deployment import Deployment, draw
from headgate_lab.sim.themis.federation import run as simulate
from headgate_lab.sim.themis.layout import Timing

__all__ = ["run"]

_FEDERATION = Deployment(18, 2000, zipf=1.0, capacity=0.3, timing=Timing(burst_share=0.1))


def run(*, quick: bool) -> dict[str, Any]:
    """Simulated seconds for each second, by shedder; quick is a tenth of the fragments and the time."""
    deployment = replace(_FEDERATION, fragments=200) if quick else _FEDERATION
    seconds = 30.0 if quick else 300.0
    layout, took_s = draw(deployment, 0), {}
    with bench_progress() as progress:
        task = progress.add_task("virtual time", total=len(SHEDDERS))
        for shedder in SHEDDERS:
            progress.update(task, description=shedder.name)
            simulate(layout, shedder, deployment.timing.stw_s, 0)  # loads or compiles the kernels
            started = time.perf_counter()
            simulate(layout, shedder, seconds, 0)
            took_s[shedder.name] = time.perf_counter() - started
            progress.advance(task)
    times = {name: seconds / took for name, took in took_s.items()}
    rows = [{"shedder": name, "took_s": took, "times": times[name]} for name, took in took_s.items()]
    ratios = {f"faster_than_time_{name}": faster for name, faster in times.items()}
    return {
        "bench": "themis-speed",
        "ratios": {"least_faster_than_time": min(ratios.values()), **ratios},
        "context": {
            "goals": {"least_faster_than_time": 5.0},
            "simulated_s": seconds,
            "nodes": deployment.nodes,
            "fragments": deployment.fragments,
            "tables": {"one run of the simulator": rows},
        },
    }
