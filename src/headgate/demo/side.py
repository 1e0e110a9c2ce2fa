"""One side of the comparison: the query runs for its time, and every batch is judged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from headgate.demo.batches import Batch, Side
from headgate.demo.progress import Progress
from headgate.demo.watch import Watch
from headgate.demo.workload import Workload

__all__ = ["Runner", "sustains"]

#: So many batches must have ended before a query is said to sustain its rate, the last ones in time.
_ENOUGH, _LATEST = 6, 3


@dataclass(frozen=True)
class Runner:
    """What both sides share."""

    workload: Workload
    rows_per_second: int
    target_s: float
    seconds: float
    progress: Progress

    def run(self, rows: DataFrame, checkpoint: Path, leave_if_sustained: bool = False) -> Side:
        """Run for the time, and then until the batch that is running ends or is over the target.

        One batch with rows is waited for in any case.

        So every batch counted is known to be inside or outside. One that is cut short counts as
        outside, with its duration and delay so far; both are lower bounds.
        """
        side = Side(self.target_s, time.time())
        query = self.workload.start(rows, checkpoint)
        side.query = str(query.id)
        watch = Watch(query, self.workload.trigger_s, self.rows_per_second)
        cut: Batch | None = None
        last: int | None = None
        try:
            while True:
                self._take(watch, side)
                if leave_if_sustained and sustains(side):
                    return side
                now = time.time()
                running = watch.running(now)
                self.progress.tick(running)
                if now - side.began_at >= self.seconds:
                    over = running is not None and running.duration_s > self.target_s
                    if over:
                        cut = running
                        break
                    later = running is None or (last is not None and running.number > last)
                    if later and side.batches:
                        break
                    last = running.number if running is not None else last
                time.sleep(0.2)
        finally:
            query.stop()
        self._take(watch, side)
        if cut is not None and all(b.number != cut.number for b in side.batches):
            self.progress.batch(cut)
            side.batches.append(cut)
        return side

    def _take(self, watch: Watch, side: Side) -> None:
        for batch in watch.poll():
            self.progress.batch(batch)
            side.batches.append(batch)


def sustains(side: Side) -> bool:
    """Whether the query keeps up with its rate: its latest batches are all inside the target."""
    latest = side.batches[-_LATEST:]
    return len(side.batches) >= _ENOUGH and all(b.duration_s <= side.target_s for b in latest)
