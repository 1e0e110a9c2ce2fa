"""`SiteShare`: the controller of a gate at a site. How much is the site's answer, not the gate's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control import Controller
from headgate.core.load import Budget, LoadSample
from headgate.sites.allocator import SiteAllocator
from headgate.sites.shared import SharedSite

__all__ = ["SiteShare", "SiteShareController"]


@dataclass(frozen=True)
class SiteShare:
    """One gate's share of its site."""

    gate: str
    site: SharedSite = field(compare=False, repr=False)
    min_keep: float = 0.0
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller; a snapshot has nothing for it, since the site keeps what was learned."""
        return SiteShareController(self)


class SiteShareController(Controller):
    """Hands every batch to the site, and passes its decision on."""

    def __init__(self, config: SiteShare) -> None:
        self._config = config
        self._given: Budget | None = None

    def decide(self, sample: LoadSample) -> Budget:
        """What the site grants this gate, now that its batch is over."""
        with self._config.site as allocator:
            now = self._config.clock()
            allocator.on_batch(self._config.gate, sample, now)
            self._given = self._budget(allocator, now)
            return self._given

    def revised(self) -> Budget | None:
        """What the site grants by now, if that is another amount."""
        with self._config.site as allocator:
            found = self._budget(allocator, self._config.clock())
            last, same = self._given, self._config.site.settings.tuning.same
            if (
                last is not None
                and _alike(found.keep, last.keep, same)
                and _alike(found.sic, last.sic, same)
            ):
                return last
            self._given = found
            return found

    def opening(self, now: float) -> Budget:
        """The budget of the first batch of a query that has just begun."""
        with self._config.site as allocator:
            gate = allocator.state.gates.get(self._config.gate)
            if gate is None:
                return super().opening(now)
            keep = self._keep(allocator, self._config.clock())
            return Budget(keep, "idle", "nothing measured yet", sic=gate.sic or None)

    def _keep(self, allocator: SiteAllocator, now: float) -> float:
        return max(self._config.min_keep, allocator.rate(self._config.gate, now))

    def _budget(self, allocator: SiteAllocator, now: float) -> Budget:
        gate = allocator.state.gates.get(self._config.gate)
        if gate is None:
            return Budget(1.0, "idle", "this gate has left its site")
        keep = self._keep(allocator, now)
        view = allocator.state.view(gate.query, now)
        unit = "cores" if allocator.settings.rows_per_s is None else "rows/s"
        why = (
            f"query {gate.query} at SIC {view.sic:.3f} ({view.told_by}), level {allocator.level:.3f}, "
            f"{allocator.capacity(now):.2f} {unit} for rows"
        )
        sic = None if gate.derived else gate.sic
        return Budget(keep, "idle" if keep >= 1.0 else "shedding", why, sic=sic)

    def snapshot(self) -> dict[str, Any]:
        """The gate's name: what was learned is in the site's own snapshot."""
        return {"gate": self._config.gate}


def _alike(new: float | None, old: float | None, same: float) -> bool:
    if new is None or old is None:
        return new is old
    return abs(new - old) <= same * max(abs(new), abs(old), 1e-12)
