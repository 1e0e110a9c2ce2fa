"""`SiteShare`: the controller of a gate at a site. How much is the site's answer, not the gate's own.

The answer is an amount: so many rows for each second that a batch covers (`TimeGrant`). Whoever pins a
batch's plan makes a keep rate of it, with the batch's own size. `Budget.keep` is for a batch whose size
cannot be known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from headgate.control import Controller
from headgate.control.duration import FIRST_ROWS
from headgate.core.load import Budget, LoadSample
from headgate.core.row_budget import RowBudget
from headgate.core.time_grant import TimeGrant
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
            if last is not None and all(map(partial(_alike, same=same), _told(found), _told(last))):
                return last
            self._given = found
            return found

    def opening(self, now: float) -> Budget:
        """The budget of the first batch of a query that has just begun."""
        with self._config.site as allocator:
            gate = allocator.state.gates.get(self._config.gate)
            if gate is None:
                return super().opening(now)
            clock = self._config.clock()
            keep = self._keep(allocator, clock)
            fits = self._fits(allocator, clock)
            row_sic = allocator.state.row_sic(gate)
            why = _why_first(fits)
            return Budget(keep, "idle", why, sic=gate.sic or None, fits=fits, row_sic=row_sic)

    def _fits(self, allocator: SiteAllocator, now_s: float) -> RowBudget:
        """How many rows a gate may keep of a batch of any size, by the time that the batch covers."""
        gate = allocator.state.gates[self._config.gate]
        stream = allocator.state.streams.get(gate.stream)
        if gate.rate is None or stream is None or not stream.known:
            return self._first(allocator, now_s)
        grant = None
        if gate.per_s is not None and math.isfinite(gate.per_s):
            # A stream that its rows made late collects for longer: no reason to be late again.
            usual_s = gate.offered.usual_s - stream.overran_s
            usual_s = longest_s = max(stream.interval_s, stream.hold_s, usual_s)
            if stream.overran_s <= 0.0:
                longest_s = max(
                    usual_s, min(stream.duration_s, allocator.settings.tuning.lumps * usual_s)
                )
            grant = TimeGrant(gate.per_s, min(stream.trigger_s, longest_s), longest_s)
        most = allocator.possible(gate, now_s, stream.batch_s, returning=True) * stream.batch_s
        return RowBudget(stream.hold_s, most=most, min_keep=self._config.min_keep, grant=grant)

    def _first(self, allocator: SiteAllocator, now_s: float) -> RowBudget:
        """The same for a stream that begins, or comes back: what was learned before it went still holds.

        What waited while it was down is no reason to take more than its part: of their usual rows, all
        get the same share of what the site can process. With nothing known, the rows are bounded.
        """
        name, state = self._config.gate, allocator.state
        gate = state.gates[name]
        hold_s, keep = gate.hold_s, max(self._config.min_keep, allocator.opening(gate))
        price, settings = state.price(name), allocator.settings
        bounded = RowBudget(hold_s, min_keep=self._config.min_keep, max_keep=keep)
        usual = state.usual(name, now_s)
        if price is None or name not in usual:
            said = gate.start is not None  # by a person, how much
            return bounded if said else replace(bounded, most=FIRST_ROWS * hold_s)
        if gate.derived:  # they come before a source's, and stand for work elsewhere
            in_rows = settings.rows_per_s is not None
            return replace(bounded, most=math.inf if in_rows else price.most_rows(settings.cores))
        room = allocator.room(usual, now_s)
        if math.isinf(room):
            return bounded
        longest_s = max(price.interval_s, hold_s)
        return replace(bounded, grant=TimeGrant(usual[name] * room, longest_s, longest_s))

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
        fits = self._fits(allocator, now)
        state = "idle" if keep >= 1.0 else "shedding"
        return Budget(keep, state, why, sic=sic, fits=fits, row_sic=allocator.state.row_sic(gate))

    def snapshot(self) -> dict[str, Any]:
        """The gate's name: what was learned is in the site's own snapshot."""
        return {"gate": self._config.gate}


def _told(budget: Budget) -> tuple[float | None, ...]:
    """What a budget says, number by number."""
    fits, row_sic = budget.fits, budget.row_sic
    grant = None if fits is None else fits.grant
    return (
        budget.keep,
        budget.sic,
        None if fits is None else fits.most,
        None if fits is None else fits.max_keep,
        None if grant is None else grant.rows_per_s,
        None if grant is None else grant.most_s,
        None if row_sic is None else row_sic.per_s,
        None if row_sic is None else row_sic.most,
    )


def _why_first(fits: RowBudget) -> str:
    if fits.grant is not None:
        rows = fits.grant.rows()
        return f"nothing measured since the start: at most {rows:.0f} rows, its part of the site"
    if math.isfinite(fits.most):
        return f"nothing measured yet: a first batch keeps at most {fits.most:.0f} rows"
    return "nothing measured yet"


def _alike(new: float | None, old: float | None, same: float) -> bool:
    if new is None or old is None:
        return new is old
    if math.isinf(new) or math.isinf(old):  # one that has no bound
        return new == old
    return abs(new - old) <= same * max(abs(new), abs(old), 1e-12)
