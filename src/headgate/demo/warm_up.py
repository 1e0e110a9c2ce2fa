"""A gate's first moments, before the side with a gate is timed.

The side without a gate begins warm: the streams that measured the capacity have the same plan, so the
JVM has compiled it. A gate's plan has code of its own, and its first batch starts Python workers. Both
are over within seconds, and would be a good part of a comparison that takes three quarters of a minute;
so a gate of another name runs for a while first, in a control folder of its own, and nothing that it
learns reaches the gate that is shown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from headgate.demo.progress import Progress
from headgate.demo.workload import ARRIVAL, Workload
from headgate.spark.gate.call import gate

__all__ = ["WarmUp"]


@dataclass(frozen=True)
class WarmUp:
    """How long a gate runs before another one is timed, and the share that it keeps.

    `batches` are waited for after that, but not beyond `longest_s`: on a slow machine the first one
    takes most of the time.
    """

    seconds: float = 8.0
    keep: float = 0.05
    batches: int = 3
    longest_s: float = 25.0

    def run(self, workload: Workload, rows: DataFrame, scratch: Path, progress: Progress) -> int:
        """Send these rows through a gate into the demo's query; how many batches with rows ended."""
        held = gate("warm-up", rate=self.keep, control=str(scratch / "warm-up"), arrival=ARRIVAL)
        query = workload.start(rows.transform(held), scratch / "warm-up-checkpoint")
        began, done = time.monotonic(), 0
        try:
            while query.isActive and (spent := time.monotonic() - began) < self.longest_s:
                done = sum(p.numInputRows > 0 for p in query.recentProgress)
                if spent >= self.seconds and done >= self.batches:
                    break
                progress.tick(None)
                time.sleep(0.2)
        finally:
            query.stop()
        return done
