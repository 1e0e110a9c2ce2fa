"""Hold a batch duration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headgate.control.arrivals import ArrivalForecast
from headgate.control.capacity import CapacityFit
from headgate.control.contract import Controller
from headgate.control.fixed import check_rate
from headgate.control.futility import FutilityCheck
from headgate.control.lag import PlanLag
from headgate.control.margin import Margin
from headgate.control.onset import Onset
from headgate.control.release import Release
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument

__all__ = ["HoldDuration", "HoldDurationController"]

#: A run's first batches pay for compiling and starting workers: how far to believe them.
_COLD_TRUST = 0.1
_COLD_BATCHES = 2


@dataclass(frozen=True)
class HoldDuration:
    """Keep every batch within `target`.

    `floor` is the least share ever kept. While shedding, the controller aims below the target by
    the size of its own recent misses (`Margin`), at `high` of the target or lower; but however
    wrong it was, it keeps at least `low` of the rows that would fit exactly. It begins to shed once
    whole batches are proved to be above the target (`Onset`), and ends when they are forecast below
    `leave` of it (`Release`); what lies between changes nothing.
    """

    target: Duration
    floor: float = 0.01
    low: float = 0.55
    high: float = 0.9
    leave: float = 0.95

    def __post_init__(self) -> None:
        seconds(self.target, "hold")
        check_rate(self.floor, "floor")
        if not 0 < self.low <= self.high <= self.leave <= 1:
            raise BadArgument(
                f"low={self.low}, high={self.high}, leave={self.leave}: "
                "shares with 0 < low <= high <= leave <= 1"
            )

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, fresh or from a snapshot."""
        return HoldDurationController(self, snapshot)


class HoldDurationController(Controller):
    """Forecasts the batch that its answer will meet, and keeps what fits.

    One step, no search: rows that fit = (aim - a) / b from `CapacityFit`, divided by the rows that
    `ArrivalForecast` expects in that batch, which `PlanLag` tells. A forecast needs no integral
    term, so nothing winds up in monitor mode, where its advice is not followed.
    """

    def __init__(self, config: HoldDuration, snapshot: Mapping[str, Any] | None = None) -> None:
        self._config = config
        #: What the coming batch may take, and what batches may take in the long run: the same here,
        #: but `HoldDelay` moves both.
        self.target_s = self.lasting_s = self._base = seconds(config.target)
        self._fit = CapacityFit()
        self._arrivals = ArrivalForecast()
        self._lag = PlanLag()
        self._margin = Margin()
        self._onset = Onset()
        self._release = Release()
        self._guard = FutilityCheck()
        self._batches = 0
        #: What the last two answers expected: rows, and the line through rows and seconds.
        self._forecasts: list[tuple[float, float, float] | None] = [None, None]
        if snapshot:
            for name, part in self._parts().items():
                part.restore(snapshot[name])
            self._batches = int(snapshot["batches"])
            self._forecasts = [
                None if f is None else (float(f[0]), float(f[1]), float(f[2]))
                for f in snapshot["forecasts"]
            ]

    def _parts(self) -> dict[str, Any]:
        return {
            "fit": self._fit,
            "arrivals": self._arrivals,
            "lag": self._lag,
            "margin": self._margin,
            "onset": self._onset,
            "release": self._release,
            "guard": self._guard,
        }

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        parts = {name: part.snapshot() for name, part in self._parts().items()}
        return {**parts, "batches": self._batches, "forecasts": list(self._forecasts)}

    @property
    def _relaxed(self) -> float:
        """What is allowed while shedding is futile; within the trigger's interval nothing grows."""
        return max(self._guard.relaxed_s, self.interval_s) if self._guard.futile else 0.0

    @property
    def _target(self) -> float:
        return max(self.target_s, self._relaxed)

    @property
    def _lasting(self) -> float:
        return max(self.lasting_s, self._relaxed)

    def _rows_to_aim(self) -> float:
        share = min(self._config.high, self._margin.aim)
        least = self._config.low * self._fit.rows_within(self._target)
        return max(least, self._fit.rows_within(share * self._target))

    def take_over(self, keep: float) -> None:
        """Go on shedding at this rate until the load is known; then tighten, or let go slowly."""
        self._release.rate = max(self._config.floor, keep)

    def capped(self, limit: ReadLimit) -> None:
        """A batch cannot be larger than what its source hands out."""
        self._arrivals.limit = limit

    def opening(self, now: float) -> Budget:
        """After a restart: what came while the query was down comes too, as far as one batch takes it.

        That is for one batch only, so the rate that was held before is not touched.
        """
        waiting = min(self._arrivals.since(now), self._arrivals.most)
        self._arrivals.restarted()
        self._batches = 0
        self._forecasts = [None, None]
        rate = self._release.rate
        if not self._fit.known or waiting <= 0:
            return Budget(rate, "idle" if rate >= 1.0 else "shedding", "nothing measured yet")
        if rate >= 1.0 and self._fit.predict(waiting) <= self._target:
            return Budget(1.0, "idle", f"about {waiting:.0f} rows are waiting; they fit")
        keep = min(rate, self._keep(self._rows_to_aim(), waiting))
        return Budget(keep, "shedding", f"about {waiting:.0f} rows of the time down come at once")

    @property
    def interval_s(self) -> float:
        """The trigger's interval, as far as it shows in the pauses between batches."""
        return self._arrivals.interval_s

    def window(self, sample: LoadSample) -> float:
        """How long the batch that this answer meets collects its rows."""
        window = self._arrivals.window(sample.duration_s)
        if self._lag.behind:
            between = self._lag.last * self._arrivals.rows(window, sample.backlog)
            window = self._arrivals.window(self._fit.predict(between))
        return window

    def decide(self, sample: LoadSample) -> Budget:
        """The keep rate with which the coming batch is forecast to end at the aim."""
        self.learn(sample)
        return self.answer(sample)

    def learn(self, sample: LoadSample) -> None:
        """Take a batch into every estimate."""
        self._lag.observe(sample)
        self._arrivals.add(sample)
        cold = self._batches < _COLD_BATCHES
        surprise = self._fit.add(sample.kept, sample.duration_s, _COLD_TRUST if cold else 1.0)
        forecast = self._forecasts[0 if self._lag.behind else 1]
        if sample.arrived > 0:
            self._batches += 1
            if forecast is not None and not cold and not surprise:
                # Judged at the share that was really kept: in monitor mode that is all of it.
                rows, fixed, per_row = forecast
                share = sample.kept / sample.arrived
                self._margin.add(fixed + per_row * rows * share, sample.duration_s)
        if self._guard.add(sample.kept, sample.duration_s, self._base):
            self._give_up(sample)

    def _give_up(self, sample: LoadSample) -> None:
        """Rows were blamed for time that went elsewhere: begin again with the guard's two points."""
        self._release.open()
        self._fit = CapacityFit()
        if self._guard.before is not None:
            self._fit.add(*self._guard.before)
        self._fit.add(sample.kept, sample.duration_s)

    def answer(self, sample: LoadSample) -> Budget:
        """The budget for the batch that follows, from what was learned."""
        window = self.window(sample)
        expected = self._arrivals.rows(window, sample.backlog)
        forecast = (expected, self._fit.fixed_s, self._fit.per_row_s) if self._fit.known else None
        self._forecasts = [self._forecasts[1], forecast]
        if not self._fit.known:
            budget = Budget(self._release.rate, "idle", "no row has come yet")
        else:
            latest = self._arrivals.rows(window, sample.backlog, cautious=False)
            whole = self._fit.predict(latest)
            # A source with a backlog hands out its cap, however long it collects.
            sustained = whole if sample.backlog else self._sustained()
            budget = self._budget(expected, whole, sustained, sample.kept)
        if self._guard.futile:
            budget = replace(budget, state="futile", why=self._why_futile(sample))
        self._lag.ask(budget.keep)
        return budget

    def _sustained(self) -> float:
        """How long a whole batch takes that collects for as long as a batch may take.

        Above the target, whole batches would settle above it, or nowhere; below, below. The last
        batch's own length, and its noise, is not in it.
        """
        window = self._arrivals.window(self._lasting)
        return self._fit.predict(self._arrivals.rows(window, None, cautious=False))

    def _budget(self, expected: float, whole: float, sustained: float, kept: int) -> Budget:
        before = self._release.rate
        if before >= 1.0 and not self._onset.proved(
            whole / self._lasting - 1.0, sustained / self._lasting - 1.0, self._margin.noise
        ):
            self._release.step(1.0, fits=True)
            return Budget(1.0, "idle", f"a whole batch is forecast at {whole:.2f} s")
        self._onset.clear()
        leave = self._config.leave
        fits = whole <= leave * self._target and sustained <= leave * self._lasting
        wanted = 1.0 if fits else self._keep(self._rows_to_aim(), expected)
        reach = 2.0 * kept / expected if expected > 0 else 1.0
        keep = self._release.step(wanted, fits, reach)
        why = (
            f"{expected:.0f} rows expected, whole batch forecast at {whole:.2f} s against "
            f"{self._target:.2f} s"
        )
        return Budget(keep, self._state(keep, before), why, rows=keep * expected)

    def _why_futile(self, sample: LoadSample) -> str:
        return (
            f"shedding did not shorten the batch ({sample.duration_s:.2f} s against "
            f"{self.target_s:.2f} s): the time goes elsewhere, look at the sink and the stages"
        )

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
