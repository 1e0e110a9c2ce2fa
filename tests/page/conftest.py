"""A page on a control folder that a test writes, and a browser that looks at it."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headgate import ValueClasses
from headgate.core.plan import KEEP_ALL, Plan
from headgate.page.server import PageServer
from headgate.settings import GateSettings
from headgate.sites.service.ticker import Ticker
from headgate.sites.shared import SharedSite
from headgate.sketches.cost_table import CostTable
from headgate.store.folder import read_json, write_json
from headgate.store.guards import declare_guard
from headgate.store.ledger.record import Findings, Record
from headgate.store.ledger.records import Ledger, gates_in, queries_of
from headgate.store.plans import PlanStore
from headgate.testing.clock import ManualClock
from headgate.view.observer import Observer, View
from tests.harness.chromium import browser
from tests.sites.service.test_ticker import Clock, FakeClient, _allocator, _exchange, _feed
from tests.view.virtual_gate import CAPACITY, VirtualGate

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]

TOKEN = b"a token of the page, for tests"
#: Where the pictures of a run are, for people.
SHOTS = Path("out") / "page"


class _AsElsewhere(Observer):
    """Looks at the test's folder, and calls it what the docs call it: pictures are shown there."""

    def look(self) -> View:
        return replace(super().look(), control="/shared/headgate")


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., PageServer]]:
    """Starts a page on a folder; all end with the run, at once: each waits for its last answers."""
    started: list[PageServer] = []

    def start(control: Path, **options: Any) -> PageServer:
        given = {"refresh_s": 0.2, "observer": _AsElsewhere(control), **options}
        made = PageServer(control, port=0, **given)
        started.append(made)
        return made.__enter__()

    yield start
    with ThreadPoolExecutor(max(1, len(started))) as pool:
        list(pool.map(lambda server: server.__exit__(None, None, None), started))


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page; whatever its console says at the end is a fault."""
    opened, said = [], []

    def open_it(url: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((url, "data:")) else said.append(r.url))
        page.goto(url)
        return page

    open_it.said = said  # type: ignore[attr-defined]
    yield open_it
    for context in opened:
        context.close()
    assert not said


def ended_now(batches: int) -> ManualClock:
    """A clock by which so many batches of a second end about now."""
    return ManualClock(time.time() - batches)


@pytest.fixture
def busy_store(_busy_store: Path) -> Path:
    """A store with a gate in a burst, one that is idle, a guard, a join and a site; all alive now."""
    for gate in gates_in(_busy_store):
        for query in queries_of(_busy_store, gate):
            PlanStore(_busy_store, gate, query).beat()
    status = _busy_store / "sites" / "rome" / "status.json"
    write_json(status, read_json(status) | {"at": time.time()})
    return _busy_store


@pytest.fixture(scope="session")
def _busy_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    control = tmp_path_factory.mktemp("page") / "control"
    policy = ValueClasses(("priority = 'high'", "vip"))
    settings = GateSettings(delay=2, min_keep=0.02)
    rides = VirtualGate(control, "rides", settings, policy, clock=ended_now(90))
    for number in range(90):
        load = CAPACITY // 2 if number < 45 else 4 * CAPACITY
        rows = round(load * (1.0 + 0.2 * ((number * 7) % 5 - 2) / 2))
        rides.batch(rows, counts={1: rows // 20, 2: rows // 50})
    clicks = VirtualGate(control, "clicks", clock=ended_now(60), query="77c1e2f0-1111")
    for number in range(60):
        clicks.batch(3000 + 500 * ((number * 3) % 7))
    _guard(control)
    _join(control)
    allocator, clock = _allocator("rome"), Clock()
    _feed(allocator, clock.now, sic=0.3)
    exchange = _exchange(allocator, FakeClient(), clock)
    Ticker(SharedSite(allocator), control / "sites" / "rome", [exchange], clock=clock).leave_status()
    return control


def _guard(control: Path) -> None:
    declare_guard(control, "enrich", policy="balanced", target="average 1 s", target_s=1.0)
    ledger, query = Ledger(control, "enrich", "5a1d"), control / "gates/enrich/queries/5a1d"
    PlanStore(control, "enrich", "5a1d").beat()
    for batch in range(40):
        dropped = 0 if batch < 20 else 150 + 10 * (batch % 5)
        measures = {"queue_ms": 120.0 + 30 * min(batch, 25), "longest_queue_ms": 1400.0, "cost_ms": 2.5}
        found = Findings({"price": dropped} if dropped else {}, measures)
        record = Record(
            "enrich", "5a1d", batch, 900, 900 - dropped, dropped, KEEP_ALL, kind="guard", origin="guard",
            state="shedding" if dropped else "idle", started_at=time.time() - 40 + batch,
            duration_s=0.8, found=found,
        )  # fmt: skip
        ledger.append(record)
    write_json(query / "queues" / "0.json", {"v": 1, "state": {"price": [0.004, 1.0]}})
    table = CostTable(sets=64)
    for key in range(1, 9):
        table.learn(0x9E3779B97F4A7C15 * key % (1 << 64), 0.05 / key, 3 * key)
    costs = base64.b64encode(table.to_bytes()).decode()
    write_json(control / "gates" / "enrich" / "costs.json", {"v": 1, "costs": costs})


def _join(control: Path) -> None:
    gate = VirtualGate(control, "pairs", query="c0ffee00")
    gate.store.beat()
    ledger = Ledger(control, "pairs", "c0ffee00")
    for batch in range(30):
        skipped = 0 if batch < 15 else 4_000_000
        made = 6_000_000 + 100_000 * (batch % 4)
        share = 1.0 if not skipped else 0.91
        measures = {
            "pairs": 12_000.0, "pairs_missed": 12_000 * (1 - share) / share, "completeness": share,
            "completeness_error": 0.0 if not skipped else 0.006, "rows_kept": 8000.0, "rows_shed": 0.0,
            "late_rows": 3.0, "compare_s": 0.7, "state_bytes": 4.2e6, "work": 3e6,
        }  # fmt: skip
        found = Findings(measures=measures, windows=[[0.0, 6000, 590.0, share, 0.008]])
        ledger.append(
            Record("pairs", "c0ffee00", batch, made + skipped, made, skipped, Plan(0.5), kind="join",
                   state="shedding" if skipped else "idle", started_at=time.time() - 30 + batch,
                   duration_s=0.9, found=found, why="12000 pairs, 91.0 % of all (+- 0.6)")
        )  # fmt: skip
