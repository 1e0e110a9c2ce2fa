"""`SiteShare`: the controller of a gate at a site. How much is the site's answer, not the gate's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control import Controller
from headgate.core.load import Budget, LoadSample
from headgate.sites.allocator import SiteAllocator

__all__ = ["SiteShare", "SiteShareController"]

#: A rate, or the worth of a row, that moved by less than this is not worth another plan.
_SAME = 0.02


@dataclass(frozen=True)
class SiteShare:
    """One gate's share of its site."""

    gate: str
    shares: SiteAllocator = field(compare=False, repr=False)
    lock: threading.RLock = field(compare=False, repr=False)
    floor: float = 0.0
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller; what it learned is the site's to keep."""
        return SiteShareController(self)


class SiteShareController(Controller):
    """Tells the site of every batch, and passes its decision on."""

    def __init__(self, config: SiteShare) -> None:
        self._config = config
        self._given: Budget | None = None

    def decide(self, sample: LoadSample) -> Budget:
        """What the site grants this gate, now that its batch is over."""
        with self._config.lock:
            now = self._config.clock()
            self._config.shares.on_batch(self._config.gate, sample, now)
            self._given = self._budget(now)
            return self._given

    def revised(self) -> Budget | None:
        """What the site grants by now, if that is another amount."""
        with self._config.lock:
            found = self._budget(self._config.clock())
            last = self._given
            if last is not None and _alike(found.keep, last.keep) and _alike(found.sic, last.sic):
                return last
            self._given = found
            return found

    def opening(self, now: float) -> Budget:
        """The first batch of a query that has just begun."""
        with self._config.lock:
            shares, name = self._config.shares, self._config.gate
            gate = shares.gates.get(name)
            if gate is None:
                return super().opening(now)
            keep = max(self._config.floor, shares.rate(name, self._config.clock()))
            return Budget(keep, "idle", "nothing measured yet", sic=gate.sic or None)

    def _budget(self, now: float) -> Budget:
        shares, name = self._config.shares, self._config.gate
        gate = shares.gates.get(name)
        if gate is None:
            return Budget(1.0, "idle", "this gate has left its site")
        keep = max(self._config.floor, shares.rate(name, now))
        view = shares.view(gate.query, now)
        unit = "cores" if shares.settings.rows_per_s is None else "rows/s"
        why = (
            f"query {gate.query} at SIC {view.sic:.3f} ({view.told_by}), level {shares.level:.3f}, "
            f"{shares.capacity(now):.2f} {unit} for rows"
        )
        sic = None if gate.derived else gate.sic
        return Budget(keep, "idle" if keep >= 1.0 else "shedding", why, sic=sic)

    def snapshot(self) -> dict[str, Any]:
        """Only that there was one: the site remembers, and a query's first batch is behind it."""
        return {"gate": self._config.gate}


def _alike(new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is old
    return abs(new - old) <= _SAME * max(abs(new), abs(old), 1e-12)
