"""Hold a batch duration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.arrivals import ArrivalForecast
from headgate.control.capacity import CapacityFit
from headgate.control.contract import Controller
from headgate.control.fixed import check_rate
from headgate.control.futility import FutilityGuard
from headgate.control.release import Release
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.load import Budget, LoadSample

__all__ = ["HoldDuration", "HoldDurationController"]

#: A run's first batches pay for compiling and starting workers: how far to believe them.
_COLD_TRUST = 0.1
_COLD_BATCHES = 2


@dataclass(frozen=True)
class HoldDuration:
    """Keep every batch within `target`.

    `floor` is the least share ever kept. While shedding, the controller aims below the target by
    twice the size of its own recent misses, between `low` and `high` of the target; without
    shedding it acts only when a whole batch is forecast above `enter` of the target.
    """

    target: Duration
    floor: float = 0.01
    low: float = 0.55
    high: float = 0.85
    enter: float = 0.95

    def __post_init__(self) -> None:
        seconds(self.target, "hold")
        check_rate(self.floor, "floor")
        if not 0 < self.low <= self.high <= self.enter <= 1:
            raise BadArgument(
                f"low={self.low}, high={self.high}, enter={self.enter}: "
                "shares of the target with 0 < low <= high <= enter <= 1"
            )

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, fresh or from a snapshot."""
        return HoldDurationController(self, snapshot)


class HoldDurationController(Controller):
    """Forecasts the next batch, and keeps what fits.

    One step, no search: rows that fit = (aim - a) / b from `CapacityFit`, divided by the rows that
    `ArrivalForecast` expects. `Release` limits how fast it lets go, `FutilityGuard` whether it may
    shed at all. A forecast needs no integral term, so nothing winds up in monitor mode, where its
    advice is not followed.
    """

    def __init__(self, config: HoldDuration, snapshot: Mapping[str, Any] | None = None) -> None:
        self._config = config
        self._target = seconds(config.target)
        self._fit = CapacityFit()
        self._arrivals = ArrivalForecast()
        self._release = Release()
        self._guard = FutilityGuard()
        self._batches = 0
        if snapshot:
            self._fit.restore(snapshot["fit"])
            self._arrivals.restore(snapshot["arrivals"])
            self._release.restore(snapshot["release"])
            self._guard.restore(snapshot["guard"])

    @property
    def target_s(self) -> float:
        """The batch duration to hold; `HoldDelay` moves it."""
        return self._target

    @target_s.setter
    def target_s(self, value: float) -> None:
        self._target = value

    @property
    def interval_s(self) -> float:
        """The trigger's interval as far as it shows in the pauses between batches."""
        return float(self._arrivals.snapshot()["pause"])

    def _aim(self) -> float:
        low, high = self._config.low * self._target, self._config.high * self._target
        return min(high, max(low, self._target - 2.0 * self._fit.spread_s))

    def opening(self, now: float) -> Budget:
        """After a restart: what came while the query was down must fit into one batch too."""
        waiting = self._arrivals.since(now)
        if not self._fit.known or waiting <= 0:
            return Budget(self._release.rate, "idle", "nothing measured yet")
        keep = self._keep(self._fit.rows_within(self._aim()), waiting)
        if keep >= 1.0 and self._release.rate >= 1.0:
            return Budget(1.0, "idle", f"about {waiting:.0f} rows are waiting; they fit")
        self._release.step(min(keep, self._release.rate), fits=False)
        why = f"about {waiting:.0f} rows came while the query was down"
        return Budget(self._release.rate, "shedding", why)

    def decide(self, sample: LoadSample) -> Budget:
        """The keep rate with which the next batch is forecast to end at the aim."""
        trust = _COLD_TRUST if self._batches < _COLD_BATCHES else 1.0
        self._arrivals.add(sample)
        if sample.arrived > 0:
            self._batches += 1
        self._fit.add(sample.kept, sample.duration_s, trust)
        over = sample.duration_s > self._target
        shedding = sample.kept < sample.arrived
        if self._guard.add(sample.kept, sample.duration_s, over, shedding):
            self._release.open()
        if self._guard.futile:
            why = (
                f"shedding did not shorten the batch ({sample.duration_s:.2f} s against "
                f"{self._target:.2f} s): the time goes elsewhere, look at the sink and the stages"
            )
            return Budget(1.0, "futile", why)
        expected = self._arrivals.next_batch(sample)
        whole = self._fit.predict(expected) if self._fit.known else 0.0
        fits = whole <= self._config.enter * self._target
        if self._release.rate >= 1.0 and fits:
            keep = self._release.step(1.0, fits=True)
            return Budget(keep, "idle", f"a whole batch is forecast at {whole:.2f} s")
        wanted = 1.0 if fits else self._keep(self._fit.rows_within(self._aim()), expected)
        before = self._release.rate
        keep = self._release.step(wanted, fits)
        return Budget(keep, self._state(keep, before), self._why(expected, whole))

    def _keep(self, rows: float, expected: float) -> float:
        if expected <= 0 or math.isinf(rows):
            return 1.0
        return min(1.0, max(self._config.floor, rows / expected))

    def _state(self, keep: float, before: float) -> str:
        if keep >= 1.0:
            return "idle"
        if keep <= self._config.floor:
            return "floor"
        return "releasing" if keep > 1.2 * before else "shedding"

    def _why(self, expected: float, whole: float) -> str:
        return (
            f"{expected:.0f} rows expected, whole batch forecast at {whole:.2f} s against "
            f"{self._target:.2f} s"
        )

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "fit": self._fit.snapshot(),
            "arrivals": self._arrivals.snapshot(),
            "release": self._release.snapshot(),
            "guard": self._guard.snapshot(),
        }
