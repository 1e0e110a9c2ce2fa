"""The hold table: how well a gate holds its target at 1, 2, 5 and 10 times capacity.

The demo's query under a load that steps: half of what the machine sustains, then `load` times that
capacity, then half again; each load first without and then with a gate. The step is in the data (each
row of the rate source is multiplied natively while the step lasts), so it comes at one instant and
does not depend on a producer.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.demo.batches import Batch, Side, quantile
from headgate.demo.calibrate import Calibration
from headgate.demo.progress import Silent
from headgate.demo.session import quiet_session
from headgate.demo.side import Runner
from headgate.demo.watch import GATE, counted
from headgate.demo.workload import ARRIVAL, Workload
from headgate.spark.gate.call import gate
from headgate.store.ledger.audit import audit
from headgate_lab.bench.progress import bench_progress

__all__ = ["run"]

_TARGET_S = 2.0


@dataclass(frozen=True)
class _Step:
    """When the load rises and falls again, in seconds from the start."""

    up_s: float = 15.0
    down_s: float = 60.0
    end_s: float = 90.0


def run(*, quick: bool) -> dict[str, Any]:
    """One row for each load and side; ratios are shares of one run."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-hold-"))
    loads = (5,) if quick else (1, 2, 5, 10)
    rows: list[dict[str, Any]] = []
    try:
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            task = progress.add_task("measuring capacity", total=1 + 2 * len(loads))
            workload = Workload()
            found = Calibration().measure(spark, workload, _TARGET_S, folder / "calibrate")
            progress.advance(task)
            for load in loads:
                for gated in (False, True):
                    side = "with a gate" if gated else "without"
                    progress.update(task, description=f"{load} times capacity, {side}")
                    rows.append(_one(spark, workload, folder, found.rows_per_second, load, gated))
                    progress.advance(task)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = {f"inside_{'gated' if r['gated'] else 'ungated'}_at_{r['load']}": r["inside"] for r in rows}
    context = {"target_s": _TARGET_S, "capacity_rows_s": round(found.rows_per_second), "rows": rows}
    return {"bench": "hold", "ratios": ratios, "context": context}


def _one(
    spark: SparkSession, workload: Workload, folder: Path, capacity: float, load: int, gated: bool
) -> dict[str, Any]:
    step = _Step()
    base = max(1, round(0.5 * capacity))
    began = time.time() + 2.0  # the source counts from the query's start
    rows = _stepped(workload.arrivals(spark, base), began, step, 2 * load)
    control = folder / f"control-{load}"
    behind = counted(rows)
    if gated:
        behind = behind.transform(gate(GATE, hold=_TARGET_S, control=control, arrival=ARRIVAL))
    runner = Runner(workload, base, _TARGET_S, step.end_s + 2.0, Silent())
    side = runner.run(behind, folder / f"checkpoint-{load}-{gated}")
    row = {"load": load, "gated": gated, **_figures(side, began, step)}
    if gated:
        row["ledger_balanced"] = all(a.balanced for a in audit(control))
    return row


def _stepped(rows: DataFrame, began: float, step: _Step, factor: int) -> DataFrame:
    """Every row `factor` times between the steps, once before and after."""
    since = F.unix_micros(ARRIVAL) / F.lit(1e6) - F.lit(began)
    copies = F.when((since >= step.up_s) & (since < step.down_s), factor).otherwise(1)
    return rows.withColumn("copy", F.explode(F.sequence(F.lit(1), copies)))


def _figures(side: Side, began: float, step: _Step) -> dict[str, Any]:
    high = [b for b in side.batches if began + step.up_s < b.until <= began + step.down_s + 1]
    low = [b for b in side.batches if _oldest(b) >= began + step.down_s]
    settled = high[10:] or high[-1:]
    inside = [not b.running and b.duration_s <= side.target_s for b in settled]
    delays = [b.delay_s for b in settled]
    arrived = sum(b.arrived for b in high)
    return {
        "batches": len(high),
        "inside": round(sum(inside) / len(inside), 4) if inside else 0.0,
        "p50_delay_s": round(quantile(delays, 0.5), 2),
        "p95_delay_s": round(quantile(delays, 0.95), 2),
        "p100_delay_s": round(quantile(delays, 1.0), 2),
        "kept": round(sum(b.kept for b in high) / arrived, 4) if arrived else None,
        "batches_to_enter": _batches_to_enter(high, side.target_s),
        "batches_to_zero": _batches_to_zero(low),
    }


def _oldest(batch: Batch) -> float:
    return batch.ended_at - batch.delay_s


def _batches_to_enter(high: list[Batch], target_s: float) -> int | None:
    """Batches of the high load before the first of three in a row inside the target."""
    inside = [not b.running and b.duration_s <= target_s for b in high]
    for i in range(len(inside) - 2):
        if all(inside[i : i + 3]):
            return i
    return None


def _batches_to_zero(low: list[Batch]) -> int | None:
    """Batches after the load fell before the first from which on nothing is shed."""
    for i in range(len(low)):
        if all(b.kept == b.arrived for b in low[i:] if not b.running):
            return i
    return None
