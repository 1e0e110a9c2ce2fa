"""Tasks that pin plans, as executors' Python workers do: threads in a few processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headgate.core.plan import KEEP_ALL
from headgate.store.lease import Holder, Watch
from headgate.store.places.place import place_from
from headgate.store.plans import PinnedPlan, PlanStore

__all__ = ["Clients", "Pinned", "clients", "percentile"]

_PROCESSES = 4
_OPEN = PinnedPlan(KEEP_ALL, "fail-open")
#: What a process has seen of drivers: its tasks share it.
_WATCH = Watch()


@dataclass(frozen=True)
class Pinned:
    """How long a pin took, what it was, and how long it took to make thresholds of the plan."""

    took_s: float
    origin: str
    default: float
    thresholds_s: float


def _pin(control: str, gate: str, query: str, batch: int, driver: Holder, run: str) -> Pinned:
    store = PlanStore(place_from(control), gate, query, watch=_WATCH)
    began = time.perf_counter()
    pinned = store.pin(batch, _OPEN, "shape", replace(driver, run=run))
    took_s = time.perf_counter() - began
    began = time.perf_counter()
    pinned.plan.thresholds()
    return Pinned(took_s, pinned.origin, pinned.plan.default, time.perf_counter() - began)


def _pin_at_once(
    control: str, gate: str, query: str, batch: int, driver: Holder, run: str, readers: int, at: float
) -> list[Pinned]:
    """So many tasks of this process, which all begin at one moment."""

    def one(_: int) -> Pinned:
        time.sleep(max(0.0, at - time.time()))
        return _pin(control, gate, query, batch, driver, run)

    with ThreadPoolExecutor(readers) as pool:
        return list(pool.map(one, range(readers)))


class Clients:
    """The processes."""

    def __init__(self, pool: ProcessPoolExecutor, control: str, driver: Holder) -> None:
        self._pool, self._control, self._driver = pool, control, driver

    def pin(
        self, gate: str, query: str, batch: int, run: str, then: Callable[[Pinned], None]
    ) -> Future[Pinned]:
        """One task, somewhere; `then` hears of it."""
        found = self._pool.submit(_pin, self._control, gate, query, batch, self._driver, run)
        found.add_done_callback(lambda done: then(done.result()))
        return found

    def pin_at_once(self, gate: str, query: str, batch: int, run: str, readers: int) -> list[Pinned]:
        """So many tasks at one moment, spread over the processes."""
        shares = [readers // _PROCESSES + (n < readers % _PROCESSES) for n in range(_PROCESSES)]
        at = time.time() + 0.2
        asked = [
            self._pool.submit(
                _pin_at_once, self._control, gate, query, batch, self._driver, run, share, at
            )
            for share in shares
            if share
        ]
        return [pinned for found in asked for pinned in found.result()]


@contextmanager
def clients(control: str, driver: Holder) -> Iterator[Clients]:
    """Processes that have opened the store before anything is measured."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_PROCESSES, mp_context=spawn) as pool:
        beside = Clients(pool, f"{control}-warm", driver)
        for turn in range(3):
            beside.pin_at_once("warm", "up", turn, "", 4 * _PROCESSES)
        yield Clients(pool, control, driver)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them is; not a number where there are none."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
