"""``headgate bench page``: what an open page costs, beside reading the ledgers at each refresh.

Four gates with ledgers of 24,900 batches (four closed segments and one that is nearly full), and a new
record in each between two refreshes. A refresh is what the page's server does for it: look, render, put
the charts together, compress. Its CPU time is set against the default time between two refreshes.
"""

from __future__ import annotations

import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headgate.core.plan import Plan
from headgate.page.charts import charts_of
from headgate.page.metrics import exposition
from headgate.page.render import render_panels
from headgate.page.server import refresh_s_of
from headgate.settings import GateSettings
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.view.gate_status import gates_status
from headgate.view.observer import Observer, View
from headgate_lab.bench.year.books import write_books

__all__ = ["run"]

T = TypeVar("T")

_GATES = ("clicks", "orders", "rides", "visits")
_BATCHES = 24_900


class _Gate:
    """One gate whose batches go on."""

    def __init__(self, control: Path, name: str, began: float) -> None:
        SettingsFile(control, name).declare(GateSettings(hold="1 second"))
        write_books(control, name, "q", _BATCHES, began=began)
        self._ledger, self._store = Ledger(control, name, "q"), PlanStore(control, name, "q")
        last = self._ledger.last()
        assert last is not None
        self._last = last

    def batch(self) -> None:
        """One more batch in the books, and the plan for the next."""
        self._last = replace(
            self._last, batch=self._last.batch + 1, started_at=self._last.started_at + 1.0
        )
        self._store.beat()
        self._ledger.append(self._last)
        self._store.publish(Plan(0.4), self._last.batch)


def _answered(view: View) -> int:
    """What the server does for one refresh of one browser; how many bytes it sends."""
    html = render_panels(view, read_only=True)
    charts = {name: chart for job in view.jobs for name, chart in charts_of(job).items()}
    return len(gzip.compress(json.dumps({"html": html, "charts": charts}).encode(), 1))


def run(*, quick: bool) -> dict[str, Any]:
    """120 refreshes; 25 if it must be quick."""
    refreshes = 25 if quick else 120
    with tempfile.TemporaryDirectory(prefix="headgate-page-") as scratch:
        control = Path(scratch) / "control"
        gates = [_Gate(control, name, time.time() - _BATCHES) for name in _GATES]
        observer = Observer(control)
        first_s, _ = _cpu(lambda: _answered(observer.look()))
        spent: dict[str, list[float]] = {n: [] for n in ("look", "answer", "metrics", "status")}
        sent: list[int] = []
        for number in range(refreshes):
            for gate in gates:
                gate.batch()
            look_s, view = _cpu(observer.look)
            answer_s, size = _cpu(partial(_answered, view))
            spent["look"].append(look_s)
            spent["answer"].append(answer_s)
            spent["metrics"].append(_cpu(partial(exposition, view))[0])
            sent.append(size)
            if number % 5 == 0:
                spent["status"].append(_cpu(partial(gates_status, control, time.time()))[0])
    every_s = refresh_s_of(control, None)
    means = {name: statistics.fmean(values) for name, values in spent.items()}
    refresh = means["look"] + means["answer"]
    rows = [
        {"what": "the first look and answer", "cpu_ms": 1e3 * first_s},
        {"what": "a look", "cpu_ms": 1e3 * means["look"]},
        {"what": "an answer to a browser", "cpu_ms": 1e3 * means["answer"]},
        {"what": "an answer to Prometheus", "cpu_ms": 1e3 * means["metrics"]},
        {"what": "reading the ledgers (headgate status)", "cpu_ms": 1e3 * means["status"]},
    ]
    ratios = {
        f"CPU of one core, {len(_GATES)} gates, a refresh every {every_s:g} s": refresh / every_s,
        "a look vs reading the ledgers": means["look"] / means["status"],
    }
    remark = f"{statistics.fmean(sent) / 1024:.0f} KiB are sent to a browser at each refresh"
    tables = {f"CPU time, means of {refreshes} refreshes": rows}
    return {"bench": "page", "ratios": ratios, "context": {"tables": tables, "remarks": [remark]}}


def _cpu(work: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found
