"""``headgate bench loop-year``: a year of batches through the control loop itself, in virtual time.

Nothing of the driver is left out but Spark: a session that somebody plays posts the reports of batches
to the loop, as JSON; the loop's own thread, heartbeats and upkeep run beside it, and the store is a real
folder. In front of each report a task's part is done, too: look at the lease, pin the plan. The query is
stopped and started again a hundred times, and once a month another one of the gate runs for a while and
ends.

By default the year has a batch a minute, and segments are as large as ever. Heartbeats, and whoever
watches them, go by the clock on the wall: they are of this process and not of the year.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.core.plan import KEEP_ALL
from headgate.policies import Uniform
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import RETENTION_S, GateSettings
from headgate.spark.loop.loop import ControlLoop
from headgate.store.keeping.crew import Crew
from headgate.store.keeping.upkeep import Upkeep
from headgate.store.lease import Watch, this_process
from headgate.store.ledger.records import Ledger
from headgate.store.ledger.segments import SEGMENT
from headgate.store.plans import KEPT_PINS, PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.year.gauges import gauges
from headgate_lab.bench.year.load import MadeUpLoad
from headgate_lab.bench.year.session import PlayedSession
from headgate_lab.bench.year.small_segments import segments_of
from headgate_lab.bench.year.virtual_folder_time import folders_follow_the_clock

__all__ = ["BATCHES", "fsync_ms", "run", "year"]

#: One a minute.
BATCHES = 365 * 1440
_YEAR_S = 365 * 86_400.0
_OPEN = PinnedPlan(KEEP_ALL, "fail-open")
_GATE, _QUERY = "rides", "lives"
#: Batches of each query that runs for a while; those that are measured at each moment, at most.
_VISIT, _WINDOW = 50, 10_000
#: Records are kept for so many batches at least: pins of the last 200 are looked up among them.
_KEPT = 400
_COMPARED = ("cpu_ms", "task_ms", "loop_ms", "rss_mb", "python_blocks", "files", "bytes")


def run(*, batches: int = BATCHES, folder: Path | None = None) -> dict[str, Any]:
    """The year; `folder` is where its control folder is made, and gone again at the end."""
    with tempfile.TemporaryDirectory(prefix="headgate-loop-", dir=folder) as scratch:
        synced_ms = fsync_ms(Path(scratch))
        began = time.monotonic()
        moments = year(Path(scratch) / "control", batches)
        took_s = time.monotonic() - began
    first, last = moments[0], moments[-1]
    ratios = {f"{name}_end_vs_start": last[name] / first[name] for name in _COMPARED}
    remarks = [
        f"{took_s:,.0f} s for all; an fsync in this folder took {synced_ms:.3f} ms, and a batch waits "
        "for three: two for its pin, one for its record",
        f"load average of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}",
    ]
    title = f"a year of the loop: {batches:,} batches, segments of {_segment(batches):,}"
    context = {"tables": {title: moments}, "remarks": remarks, "fsync_ms": synced_ms, "took_s": took_s}
    return {"bench": "loop-year", "ratios": ratios, "context": context}


def fsync_ms(folder: Path, repeats: int = 100) -> float:
    """How long it takes until a line is on disk here; next to nothing in a folder that is memory."""
    times = []
    with open(folder / "line", "wb", buffering=0) as file:
        for _ in range(repeats):
            file.write(b"x" * 500)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def _segment(batches: int) -> int:
    """Batches in a segment: a year closes about a hundred, and none is larger than real ones."""
    return max(10, min(SEGMENT, batches // 100))


@dataclass(frozen=True)
class _SpecInVirtualTime(GateSpec):
    """A gate whose runs have another clock."""

    clock: Callable[[], float] = time.time

    def open(self, query: str) -> GateRun:
        """The gate at work in a query."""
        return GateRun(self, query, self.clock)


def year(control: Path, batches: int) -> list[dict[str, Any]]:
    """What a batch cost and what there was: once the first records had expired, halfway, at the end."""
    step_s, segment, window = _YEAR_S / batches, _segment(batches), min(batches // 20, _WINDOW)
    retention_s = max(RETENTION_S, _KEPT * step_s)
    play = _Play(control, ManualClock(time.time()), retention_s)
    full = round(retention_s / step_s) + 2 * segment + window
    # A run of fewer batches than upkeep waits for would leave all of it to a clock that is not this one.
    run_of, month = max(60, batches // 100), batches // 12
    moments: list[dict[str, Any]] = []
    costs: deque[tuple[float, float]] = deque(maxlen=window)
    try:
        with segments_of(segment), folders_follow_the_clock(), bench_progress() as bar:
            task = bar.add_task("a year of the loop", total=batches)
            for number in range(batches):
                if number % run_of == 0:
                    play.start(_QUERY)
                if number % month == 0:
                    play.visit(f"ends-{number}")
                if number + window in (full, (full + batches) // 2, batches):
                    cpu = time.process_time()
                costs.append(play.batch(_QUERY, number))
                play.clock.sleep(step_s)
                if number % 100 == 99 or number + 1 == batches:
                    bar.update(task, completed=number + 1)
                    play.let_upkeep_follow()
                if number + 1 in (full, (full + batches) // 2, batches):
                    cpu_s = (time.process_time() - cpu) / window
                    moments.append({"day": round(365 * (number + 1) / batches), "cpu_ms": 1e3 * cpu_s})
                    moments[-1] |= play.moment(list(costs))
    finally:
        play.loop.end()
    return moments


class _Play:
    """A loop, and the session that it hears of batches from."""

    def __init__(self, control: Path, clock: ManualClock, retention_s: float) -> None:
        self.control, self.clock = control, clock
        settings = GateSettings(hold="30 seconds", retention=f"{retention_s:.0f} seconds")
        SettingsFile(control, _GATE).declare(settings)
        self.spec = _SpecInVirtualTime(_GATE, control, settings, Uniform(), clock=clock)
        self.session = PlayedSession()
        session: Any = self.session
        self.loop = ControlLoop(session)
        self.loop.register(self.spec)
        self._load, self._watch = MadeUpLoad(_GATE), Watch()

    def start(self, query: str) -> None:
        """A run of a query begins; the one before it is stopped."""
        if self.session.get(query) is not None:
            self.session.stop(query)
        folder = Path(str(PlanStore(self.control, _GATE, query).folder))
        if not folder.exists():  # a folder of today's date would be months old to the upkeep
            begun = folder.with_name(f".{query}")
            begun.mkdir(parents=True)
            os.utime(begun, (self.clock(), self.clock()))
            begun.rename(folder)
        self.session.start(query)
        self.loop.drain()

    def visit(self, query: str) -> None:
        """Another query of the gate, which runs for a while and ends."""
        self.start(query)
        for batch in range(_VISIT):
            self.batch(query, batch)
        self.session.stop(query)
        self.loop.drain()
        while query in Crew.of_process().living(self.control, _GATE):
            gc.collect()  # else its upkeep may take the other query for ended, between two runs of that
            time.sleep(0.01)

    def batch(self, query: str, number: int) -> tuple[float, float]:
        """One batch; seconds for its task's look at the store, and for the loop."""
        began = time.perf_counter()
        store = PlanStore(self.control, _GATE, query, self.clock, watch=self._watch)
        handle = self.session.get(query)
        assert handle is not None
        pinned = store.pin(number, _OPEN, "shape", replace(this_process(), run=handle.runId))
        asked = time.perf_counter()
        progress = self._load.progress(number, self.clock(), pinned.plan)
        made = time.perf_counter()
        self.session.report(query, progress)
        self.loop.drain()
        done = time.perf_counter()
        return asked - began, done - made

    def let_upkeep_follow(self) -> None:
        """Wait for the upkeep's thread where it is behind: it has hours for what takes a second here."""
        pins = Path(str(PlanStore(self.control, _GATE, _QUERY).folder)) / "pins"
        for _ in range(200):
            if sum(1 for _ in pins.iterdir()) <= KEPT_PINS + 100:
                break
            Crew.of_process().ask()
            time.sleep(0.05)

    def moment(self, costs: list[tuple[float, float]]) -> dict[str, Any]:
        """What the last batches cost, and what there is now."""
        upkeep = Upkeep(self.control, _GATE, _QUERY, self.clock)
        upkeep.retention_s = self.spec.settings.retention_s
        folder = self.control / "gates" / _GATE / "queries"
        for _ in range(200):  # the process's own thread may be at it, or remove a query that ended
            upkeep.run(ended=False)
            there, sizes = set(folder.iterdir()), _sizes(self.control)
            at_rest = there == set(folder.iterdir()) and not any(f.name.startswith(".") for f in there)
            if at_rest and not any(upkeep.due().values()):
                break
            time.sleep(0.05)
        totals = Ledger(self.control, _GATE, _QUERY).totals()
        task, loop = (sorted(times) for times in zip(*costs, strict=True))
        return {
            "task_ms": 1e3 * statistics.median(task),
            "loop_ms": 1e3 * statistics.median(loop),
            "loop_p99_ms": 1e3 * loop[int(0.99 * len(loop))],
            **gauges(),
            "files": len(sizes),
            "bytes": sum(sizes),
            "queries": len(there),
            "batches": totals.all.batches,
            "shed": totals.all.shed / totals.all.arrived,
            "not_by_plan": totals.all.batches - totals.all.origins.get("plan", 0),
            "expired": totals.expired.batches,
        }


def _sizes(folder: Path) -> list[int]:
    """Bytes of each file below; what goes this moment is passed over."""
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found.append((Path(root) / name).stat().st_size)
    return found
