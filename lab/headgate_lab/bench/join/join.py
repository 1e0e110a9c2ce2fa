"""``headgate bench join``: kernels on one core, and a join under overload on Spark."""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

from headgate.demo.session import quiet_session
from headgate.spark.join.call import ROCKSDB
from headgate_lab.bench.join.kernels import measure
from headgate_lab.bench.join.stream import COMPLETE, DROP, SELECTIVE, Setting, measured, sustained_rate
from headgate_lab.bench.progress import bench_progress

__all__ = ["run"]


def run(*, quick: bool) -> dict[str, Any]:
    """Kernels first, then one run for each load and way of shedding."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-join-"))
    # Work grows with the square of the rate; the last one is five times the rate.
    loads = (5.0, 25.0) if quick else (0.5, 2.0, 5.0, 25.0)
    seconds = 45.0 if quick else 65.0
    setting = Setting()
    rows: list[dict[str, Any]] = []
    try:
        kernels = measure(quick)
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            spark.conf.set("spark.sql.shuffle.partitions", "2")
            spark.conf.set(*ROCKSDB)
            task = progress.add_task("the rate that a full join sustains", total=1 + 3 * len(loads))
            capacity = sustained_rate(spark, setting, folder, 10.0)
            progress.advance(task)
            for load in loads:
                for how in (COMPLETE, DROP, SELECTIVE):
                    progress.update(task, description=f"{load:g} times capacity, {how}")
                    here = folder / f"{load:g}-{how.replace(' ', '-')}"
                    rate = max(1, round(math.sqrt(load) * capacity))
                    found = measured(spark, setting, rate, how, seconds, here)
                    rows.append({"load": load, **found})
                    progress.advance(task)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios: dict[str, float] = {}
    for load in loads:
        by = {row["how"]: row for row in rows if row["load"] == load}
        name = f"at_{load:g}"
        ratios[f"inside_{name}"] = by[SELECTIVE]["inside"]
        ratios[f"inside_without_{name}"] = by[COMPLETE]["inside"]
        ratios[f"output_vs_random_drop_{name}"] = _ratio(by[SELECTIVE]["pairs_s"], by[DROP]["pairs_s"])
        ratios[f"output_vs_no_shedding_{name}"] = _ratio(
            by[SELECTIVE]["pairs_s"], by[COMPLETE]["pairs_s"]
        )
        ratios[f"completeness_{name}"] = by[SELECTIVE]["completeness"]
        ratios[f"completeness_error_{name}"] = by[SELECTIVE]["completeness_error"]
        ratios[f"rows_kept_{name}"] = by[SELECTIVE]["rows_kept"]
        ratios[f"time_used_{name}"] = by[SELECTIVE]["used"]
    context = {
        "target_s": setting.target_s,
        "capacity_rows_s": round(capacity),
        "kernels": kernels,
        "tables": {"a join on Spark": rows},
    }
    return {"bench": "join", "ratios": ratios, "context": context}


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else float("inf")
