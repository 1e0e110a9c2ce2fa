"""The comparison: the same stream into the same query, first without a gate, then with one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.demo.batches import Side
from headgate.demo.books import ledger_agrees, rows_agree
from headgate.demo.calibrate import Calibration
from headgate.demo.progress import Progress, Silent
from headgate.demo.side import Runner, sustains
from headgate.demo.warm_up import WarmUp
from headgate.demo.watch import GATE, counted
from headgate.demo.workload import ARRIVAL, Workload
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.spark.gate.call import gate
from headgate.store.folder import open_control_folder
from headgate.store.settings_file import SettingsFile

__all__ = ["Demo", "DemoResult"]

#: How often the side without a gate begins, at most, if the capacity was measured too low.
_ATTEMPTS = 3
#: What the gate keeps of the very first batch, before anything is measured: the stream begins in
#: overload, and a first batch that keeps everything can take as long as the whole demo.
_START = 0.1


@dataclass(frozen=True)
class DemoResult:
    """Both sides, and what they were given."""

    target_s: float
    capacity_rows_s: float
    rows_per_second: int
    seconds: float
    ungated: Side
    gated: Side

    @property
    def load(self) -> float:
        """Rows that arrive / rows that can be sustained."""
        return self.rows_per_second / self.capacity_rows_s

    def to_json(self) -> dict[str, Any]:
        """What `headgate demo --json` prints."""
        return {
            "target_s": self.target_s,
            "capacity_rows_s": round(self.capacity_rows_s),
            "load": round(self.load, 3),
            "ungated": self.ungated.to_json(),
            "gated": self.gated.to_json(),
            "rows_per_second": self.rows_per_second,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Demo:
    """`load` times what this machine sustains, or `rows_per_second`, for `seconds` on each side.

    `capacity` skips the measurement of what this machine sustains.
    """

    target: Duration = "2 seconds"
    seconds: float = 45.0
    load: float = 5.0
    rows_per_second: int | None = None
    capacity: float | None = None
    workload: Workload = field(default_factory=Workload)
    calibration: Calibration = field(default_factory=Calibration)
    warm_up: WarmUp = field(default_factory=WarmUp)

    def __post_init__(self) -> None:
        seconds(self.target, "target")
        for name in ("seconds", "load", "rows_per_second", "capacity"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise BadArgument(f"{name}={value!r} is not above 0")

    def run(
        self, spark: SparkSession, control: Path, scratch: Path, progress: Progress | None = None
    ) -> DemoResult:
        """Measure the capacity, then run both sides; `control` is the gate's control folder."""
        progress = progress or Silent()
        target_s = seconds(self.target, "target")
        opened = open_control_folder(control)
        capacity = self._capacity(spark, scratch, progress)
        for attempt in range(_ATTEMPTS):
            rate = self.rows_per_second or max(1, round(self.load * capacity))
            runner = Runner(self.workload, rate, target_s, self.seconds, progress)
            rows = self.workload.arrivals(spark, rate)
            again = ", again (it kept up: the machine was busier when measured)" if attempt else ""
            progress.stage(f"without a gate: {rate:,} rows/s{again}", self.seconds, target_s)
            leave = self._must_overload and attempt < _ATTEMPTS - 1
            ungated = runner.run(counted(rows), scratch / f"ungated-{attempt}", leave)
            if not (leave and sustains(ungated)):
                break
            capacity = max(capacity, float(rate))
        ungated.ledger_balanced = rows_agree(ungated)
        if self.capacity is None:  # else nothing has warmed up the side without a gate either
            progress.stage("warming a gate up, as the side without was", self.warm_up.seconds, target_s)
            self.warm_up.run(self.workload, rows, scratch, progress)
        progress.stage(f"with a gate: {rate:,} rows/s", self.seconds, target_s)
        held = gate(GATE, hold=self.target, control=str(opened), arrival=ARRIVAL, start=_START)
        behind = rows.transform(held)
        SettingsFile(opened, GATE).reset()  # what someone tried on an earlier demo
        gated = runner.run(behind, scratch / "gated")
        gated.ledger_balanced = ledger_agrees(spark, opened, gated)
        return DemoResult(target_s, capacity, rate, self.seconds, ungated, gated)

    @property
    def _must_overload(self) -> bool:
        """Whether the query must fall behind without a gate, if the capacity was measured well."""
        return self.rows_per_second is None and self.capacity is None and self.load >= 2.0

    def _capacity(self, spark: SparkSession, scratch: Path, progress: Progress) -> float:
        if self.capacity is not None:
            return self.capacity
        target_s = seconds(self.target, "target")
        progress.stage("measuring what this machine sustains", 35.0, target_s)
        found = self.calibration.measure(spark, self.workload, target_s, scratch, progress.tick)
        return found.rows_per_second
