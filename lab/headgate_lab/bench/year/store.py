"""``headgate bench store-year``: what a year of batches does to the control folder.

A year of batches in virtual time goes through the store as a gate uses it: a task pins the plan, the run
decides, publishes and records, and the process's own upkeep thread compresses, expires and prunes beside
it. The year has fewer batches than a real one, and segments are smaller in the same proportion, so that
all of that happens hundreds of times; once a month another query of the gate runs for a day and ends.

Then what people ask is timed, against ledgers of real segments: ten thousand records, and ten million.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL
from headgate.policies import Uniform
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.keeping.upkeep import Upkeep
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.year.books import write_books
from headgate_lab.bench.year.gauges import rss_mb
from headgate_lab.bench.year.small_segments import segments_of
from headgate_lab.bench.year.virtual_folder_time import folders_follow_the_clock

__all__ = ["ask", "run", "year"]

_YEAR_S = 365 * 86_400.0
_OPEN = PinnedPlan(KEEP_ALL, "fail-open")
_GATE = "rides"


def run(*, quick: bool) -> dict[str, Any]:
    """12,000 batches and ten million records; a third, and 300,000, if it must be quick."""
    batches, segment, records = (4_000, 40, 300_000) if quick else (12_000, 60, 10_000_000)
    with tempfile.TemporaryDirectory(prefix="headgate-year-") as scratch:
        moments = year(Path(scratch) / "year", batches, segment)
        asked = ask(Path(scratch), 10_000, records)
    first, last = moments[0], moments[-1]
    ratios: dict[str, float] = {
        f"{name}_end_vs_start": last[name] / first[name]
        for name in ("cpu_ms", "pin_ms", "handle_ms", "rss_mb", "bytes", "files")
    }
    ratios |= {f"{row['what']}, {records:,} vs 10,000": row["ratio"] for row in asked}
    tables = {
        f"a year: {batches:,} batches, segments of {segment}": moments,
        "what is asked of a ledger, median ms of CPU": asked,
    }
    load = f"load average of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}"
    return {"bench": "store-year", "ratios": ratios, "context": {"tables": tables, "remarks": [load]}}


def year(control: Path, batches: int, segment: int) -> list[dict[str, Any]]:
    """A gate's year; what a batch cost and what there was, at the start, in the middle, at the end."""
    clock = ManualClock(time.time())
    settings = GateSettings(hold="2 seconds")
    SettingsFile(control, _GATE).declare(settings)
    spec = GateSpec(_GATE, control, settings, Uniform())
    window, month, step_s = batches // 10, batches // 12 + 1, _YEAR_S / batches
    moments: list[dict[str, Any]] = []
    with segments_of(segment), folders_follow_the_clock(), bench_progress() as bar:
        task = bar.add_task("a year of batches", total=batches)
        store, gate = _opened(spec, "lives", clock)
        costs: deque[_Cost] = deque(maxlen=window)
        for number in range(batches):
            if number % month == 0:
                other = _opened(spec, f"ends-{number}", clock)
                for batch in range(min(50, month)):
                    _batch(batch, *other, clock)
            costs.append(_batch(number, store, gate, clock))
            clock.sleep(step_s)
            bar.advance(task)
            if number + 1 in (window, (batches + window) // 2, batches):
                gate.upkeep.run()
                moments.append(_moment(control, number + 1, list(costs), batches))
    return moments


class _Cost(NamedTuple):
    """Seconds of a batch: for its task, for the loop; of a CPU for both."""

    pin_s: float
    handle_s: float
    cpu_s: float


def _opened(spec: GateSpec, query: str, clock: ManualClock) -> tuple[PlanStore, GateRun]:
    """A query of the gate begins."""
    return PlanStore(spec.control, spec.name, query, clock), GateRun(spec, query, clock)


def _batch(number: int, store: PlanStore, gate: GateRun, clock: ManualClock) -> _Cost:
    store.beat()
    began, cpu = time.perf_counter(), time.thread_time()
    plan = store.pin(number, _OPEN, "shape").plan
    pinned = time.perf_counter()
    arrived = 60_000
    kept = round(arrived * plan.default)
    sample = LoadSample(number, clock(), 0.25 + 0.75e-4 * kept, arrived, kept)
    offsets = [{"description": "KafkaV2[Subscribe[rides]]", "endOffset": {"rides": {"0": number}}}]
    report = BatchReport(query="q", sample=sample, weight=plan.default_weight, offsets=offsets)
    reported = time.perf_counter()
    gate.handle(report)
    return _Cost(pinned - began, time.perf_counter() - reported, time.thread_time() - cpu)


def _moment(control: Path, number: int, costs: list[_Cost], batches: int) -> dict[str, Any]:
    totals = Ledger(control, _GATE, "lives").totals()
    handled = sorted(cost.handle_s for cost in costs)
    sizes = [p.stat().st_size for p in control.rglob("*") if p.is_file()]
    return {
        "day": round(365 * number / batches),
        "cpu_ms": 1e3 * statistics.median(cost.cpu_s for cost in costs),
        "pin_ms": 1e3 * statistics.median(cost.pin_s for cost in costs),
        "handle_ms": 1e3 * statistics.median(handled),
        "handle_p99_ms": 1e3 * handled[int(0.99 * len(handled))],
        "rss_mb": rss_mb(),
        "bytes": sum(sizes),
        "files": len(sizes),
        "queries": len(queries_of(control, _GATE)),
        "batches": totals.all.batches,
        "expired": totals.expired.batches,
    }


def ask(scratch: Path, few: int, many: int, repeats: int = 7) -> list[dict[str, Any]]:
    """Milliseconds of CPU for what people ask, of a ledger of few records and of one of many."""
    found: dict[str, dict[int, float]] = {}
    for count in (few, many):
        control = scratch / f"books-{count}"
        began = time.time() - count
        write_books(control, _GATE, "q", count, began=began)
        PlanStore(control, _GATE, "q").publish(KEEP_ALL, count - 1)
        for what, question in _questions(control, count, began).items():
            question()
            times = [_timed(question) for _ in range(repeats)]
            found.setdefault(what, {})[count] = 1e3 * statistics.median(times)
    return [
        {"what": what, f"{few:,}": ms[few], f"{many:,}": ms[many], "ratio": ms[many] / ms[few]}
        for what, ms in found.items()
    ]


def _questions(control: Path, count: int, began: float) -> dict[str, Callable[[], object]]:
    books = Ledger(control, _GATE, "q")
    upkeep = Upkeep(control, _GATE, "q")
    middle = count // 2

    def status() -> object:
        return books.tail(20), books.totals(), PlanStore(control, _GATE, "q").current()

    def verify_an_hour() -> object:
        first, last = books.span(began + middle, began + middle + 3599)
        return audit(control, _GATE, "q", first=first, last=last)

    def prune() -> object:
        store = PlanStore(control, _GATE, "q")
        for batch in range(count - 250, count):
            store.pin_to(batch, _OPEN)
        started = time.thread_time()
        upkeep.run(ended=False)
        return time.thread_time() - started

    return {
        "status": status,
        "show --last 20": lambda: (books.tail(20), books.totals()),
        "verify 1,000 batches": lambda: audit(control, _GATE, "q", first=middle, last=middle + 999),
        "verify an hour": verify_an_hour,
        "one record": lambda: books.record(middle),
        "prune 50 pins": prune,
    }


def _timed(question: Callable[[], object]) -> float:
    """Seconds of CPU; or what the question says it took, where it had to prepare something."""
    began = time.thread_time()
    answer = question()
    return answer if isinstance(answer, float) else time.thread_time() - began
