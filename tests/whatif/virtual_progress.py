"""Saved reports of a query whose truth is known: virtual batches, as Spark would write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate import FixedRate
from headgate.control import ControllerConfig
from headgate.whatif.arrivals import Rate, bursts
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload

__all__ = ["BURSTS", "COST", "ORIGIN", "lived", "reports", "text_of"]

#: A batch takes 0.3 s, a kept row 60 microseconds and one that arrives 2; batches miss that by 8 %.
COST = Cost(fixed_s=0.3, per_kept_s=60e-6, per_arrived_s=2e-6, noise=0.08)
ORIGIN = 1_790_000_000.0
#: About three quarters of what fits into batches of two seconds, and twice as much now and then.
BURSTS: Rate = bursts(10_000.0, spread=0.6, every_s=15.0, seed=5)


def lived(config: ControllerConfig | None = None, seconds: float = 600.0, **load: Any) -> list[BatchRun]:
    """What really happened: with a controller, or with every row kept."""
    workload = Workload(**{"arrivals": BURSTS, "cost": COST, "trigger_s": 1.0, "seed": 9, **load})
    return MicroBatches(workload, config or FixedRate(1.0)).run_until(seconds)


def reports(batches: Sequence[BatchRun], gate: str | None = None) -> list[dict[str, Any]]:
    """A report for each batch, as Spark has it; with a gate, with what its meters counted."""
    found = []
    for batch in batches:
        at = datetime.fromtimestamp(ORIGIN + batch.start, UTC)
        report: dict[str, Any] = {
            "id": "7d3c3f6a-0000-4000-8000-000000000001",
            "runId": "run-1",
            "name": "rides",
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "batchId": batch.batch + 40,
            "numInputRows": batch.arrived,
            "durationMs": {"triggerExecution": round(1000 * batch.duration)},
            "sources": [{"description": "KafkaV2[Subscribe[rides]]", "numInputRows": batch.arrived}],
        }
        if gate is not None:
            oldest = round(1e6 * (ORIGIN + batch.start + batch.duration - batch.delay))
            front = {"arrived": batch.arrived, "oldest": oldest}
            front |= {f"class_{key}": rows for key, (rows, _) in batch.groups.items()}
            report["observedMetrics"] = {
                f"headgate.{gate}#1.1.in": front,
                f"headgate.{gate}#1.1.out": {"kept": batch.kept},
            }
        found.append(report)
    return found


def text_of(found: Sequence[dict[str, Any]]) -> str:
    """One report a line."""
    return "".join(json.dumps(report) + "\n" for report in found)
