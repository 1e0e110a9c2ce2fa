"""Hold a batch duration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control.arrivals import ArrivalRate
from headgate.control.batch_cost import BatchCost
from headgate.control.contract import Controller
from headgate.control.fixed import check_rate
from headgate.control.futility import FutilityCheck
from headgate.control.margin import Margin
from headgate.control.start_up import StartUp
from headgate.control.tuning import HoldTuning
from headgate.control.what_fits import WhatFits
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.core.row_budget import RowBudget
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument

__all__ = ["FIRST_ROWS", "HoldDuration", "HoldDurationController", "check_first_rows", "check_inside"]

#: Rows that a first batch of which nothing is known keeps at most, for each second of the target: rows
#: of 10 microseconds (a native aggregation) fill it.
FIRST_ROWS = 100_000.0

#: Where a batch takes this share of the target before its first row, a longer target keeps far more.
_MOSTLY_FIXED = 0.5

#: A dear row costs so many times one of those that fill a first batch: 140 microseconds by default.
_DEAR = 14.0

#: Targets for which a query is down that is only started again; what came in a longer outage is cut to
#: what surely fits.
_SHORT_DOWN = 4.0

_SNAPSHOT = 2


def require_finite(snapshot: Any) -> None:
    """Refuse what was learned where a number in it is none: every budget after it would be none, too."""
    if isinstance(snapshot, Mapping):
        snapshot = list(snapshot.values())
    if isinstance(snapshot, list | tuple):
        for value in snapshot:
            require_finite(value)
    elif isinstance(snapshot, float) and not math.isfinite(snapshot):
        raise ValueError(f"{snapshot} was learned, which is no number")


def check_inside(inside: float) -> float:
    """The share, if so many batches can be wanted inside a target."""
    if isinstance(inside, bool) or not isinstance(inside, int | float) or not 0.5 <= inside <= 0.999:
        raise BadArgument(
            f"inside={inside!r} is outside [0.5, 0.999]: it is the share of batches that should end "
            "within the target, for instance inside=0.95"
        )
    return float(inside)


def check_first_rows(first_rows: float) -> float:
    """The number, if a first batch can be bounded by it."""
    number = isinstance(first_rows, int | float) and not isinstance(first_rows, bool)
    if not number or not first_rows > 0:
        raise BadArgument(
            f"first_rows={first_rows!r}: give the rows that a first batch keeps at most for each second "
            "of the target, above 0; math.inf for no bound"
        )
    return float(first_rows)


@dataclass(frozen=True)
class HoldDuration:
    """Keep batches within `target`, and of those that must be cut the share `inside`.

    `min_keep` is the least share of a batch that is ever kept. A first batch of which nothing is known,
    not even what a row costs, keeps at most `first_rows` rows for each second of the target. The default
    lets rows of 10 microseconds (a native aggregation) fill the target; rows that cost a millisecond
    then take a hundred times the target, and not an hour, as ten minutes of a topic's backlog would.

    >>> controller = HoldDuration("1 second").build()
    >>> for batch in range(5):  # rows of 0.1 ms each, twice as many as fit
    ...     budget = controller.decide(LoadSample(batch, 2.0 * batch, 2.0, 20_000, 20_000))
    >>> budget.state, budget.at(20_000).keep < 0.5 < budget.at(2_000).keep
    ('shedding', True)
    """

    target: Duration
    min_keep: float = 0.01
    inside: float = 0.95
    first_rows: float = FIRST_ROWS
    tuning: HoldTuning = field(default_factory=HoldTuning, repr=False)

    def __post_init__(self) -> None:
        seconds(self.target, "hold")
        check_rate(self.min_keep, "min_keep")
        check_inside(self.inside)
        check_first_rows(self.first_rows)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, fresh or from a snapshot."""
        return HoldDurationController(self, snapshot)


class HoldDurationController(Controller):
    """Learns what a batch costs, and says how many rows of a batch of any size fit.

    It forecasts no arrivals: whoever pins a batch's plan knows the batch's size, and `RowBudget` gives
    the rate for it. What is left to chance is how long a batch takes given its rows, and from that
    (`BatchCost`, `Margin`) follows how far below the target to aim. While the stream brings no more
    than can be processed in the long run, batches that fit without any margin run whole too: a batch
    that ends late by chance does no harm then. For a batch whose size cannot be known, `Budget.keep`
    is the rate for the rows that the arrival rate brings until it begins.

    There is no integral of anything that shedding should have changed, so nothing winds up in monitor
    mode, where its advice is not followed.
    """

    def __init__(self, config: HoldDuration, snapshot: Mapping[str, Any] | None = None) -> None:
        self._config, self._tuning = config, config.tuning
        #: What the coming batch may take, and what batches may take in the long run: the same here,
        #: but `HoldDelay` moves both.
        self.target_s = self.lasting_s = self._base = seconds(config.target)
        self._cost = BatchCost(self._tuning.cost, self._base)
        self.arrivals = ArrivalRate(self._tuning.arrivals)
        self._margin = Margin(config.inside, self._tuning.margin)
        self._futility = FutilityCheck(self._tuning.futility)
        self._start_up = StartUp(self._tuning.start_up)
        #: Whether no price was known when the run began.
        self._fresh = True
        #: What a row takes at least, while a run has shown nothing but that; infinite where it has.
        self._least_row_s = 0.0
        #: Whether the last batch had to be cut, and the budget that held for it.
        self._cutting = False
        self._given: RowBudget | None = None
        #: How long the last two batches took, without starting up; and all that the last one took.
        self._durations, self._last_s = [0.0, 0.0], 0.0
        #: A keep rate that was held before there was anything to know.
        self._held = 1.0
        if snapshot:
            self._restore(snapshot)

    def _parts(self) -> dict[str, Any]:
        return {
            "cost": self._cost,
            "arrivals": self.arrivals,
            "margin": self._margin,
            "guard": self._futility,
        }

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        parts = {name: part.snapshot() for name, part in self._parts().items()}
        given = None if self._given is None else self._given.to_json()
        return {
            "v": _SNAPSHOT,
            **parts,
            "start_up": self._start_up.snapshot(),
            "fresh": self._fresh,
            "least_row_s": self._least_row_s if math.isfinite(self._least_row_s) else None,
            "last_s": self._last_s,
            "cutting": self._cutting,
            "given": given,
            "durations": list(self._durations),
            "held": self._held,
        }

    def _restore(self, snapshot: Mapping[str, Any]) -> None:
        require_finite(snapshot)
        if "v" not in snapshot:
            self._restore_0_1_0(snapshot)
            return
        for name, part in self._parts().items():
            part.restore(snapshot[name])
        if "start_up" in snapshot:
            self._start_up.restore(snapshot["start_up"])
            self._last_s, self._fresh = float(snapshot["last_s"]), bool(snapshot["fresh"])
        least = snapshot.get("least_row_s")
        self._least_row_s = math.inf if least is None else float(least)
        self._cutting = bool(snapshot["cutting"])
        self._held = float(snapshot["held"])
        self._durations = [float(v) for v in snapshot["durations"]]
        given = snapshot["given"]
        self._given = None if given is None else RowBudget.from_json(given)

    def _restore_0_1_0(self, snapshot: Mapping[str, Any]) -> None:
        """What 0.1.0 learned that still means something: its line, its rate, its futility."""
        fit, arrivals = snapshot["fit"], snapshot["arrivals"]
        self.arrivals.restore(arrivals)
        self._futility.restore(snapshot["guard"])
        weight, rows = float(fit["sums"][0]), float(fit["sums"][1])
        if int(fit["samples"]) > 0 and weight > 0.0:
            self._cost.believe(float(fit["fixed"]), float(fit["per_row"]), rows / weight)
        self._cutting = float(snapshot["release"]["rate"]) < 1.0

    def take_over(self, keep: float) -> None:
        """Keep no more than this share until a batch has shown what rows cost."""
        self._held = max(self._config.min_keep, keep)
        self._cutting = self._held < 1.0

    def capped(self, limit: ReadLimit) -> None:
        """A batch cannot be larger than what its source hands out."""
        self.arrivals.limit = limit

    def opening(self, now: float) -> Budget:
        """The first batch after a start: what came while the query was down comes too."""
        waiting = self.arrivals.since(now)
        self.arrivals.restarted()
        self._start_up.begin()
        self._durations, self._last_s = [0.0, 0.0], 0.0
        if self._cost.known:
            self._fresh = False
            self._cost.restarted()
        return self._for_waiting(waiting)

    def resumed(self, now: float) -> Budget:
        """The same without a start: no seconds of the batches to come are those of starting up."""
        return self._for_waiting(self.arrivals.since(now))

    def _for_waiting(self, rows: float) -> Budget:
        if not self._cost.known:
            return self._unknown()
        waiting = min(rows, self.arrivals.most)
        self._cost.brace(waiting)
        fits = self._given = self._fits(waiting)
        keep = fits.keep(waiting)
        why = f"about {waiting:.0f} rows are waiting; {fits.rows(waiting):.0f} of them fit"
        return Budget(keep, self._state(keep), why, rows=keep * waiting, fits=fits)

    def _unknown(self) -> Budget:
        most = self._config.first_rows * self._base
        fits = RowBudget(
            self.target_s,
            most=most,
            min_keep=min(self._config.min_keep, self._held),
            max_keep=self._held,
        )
        why = f"nothing measured yet: a first batch keeps at most {most:.0f} rows"
        # A first batch of unknown size is kept: nothing says that it is large.
        return Budget(self._held, "idle" if self._held >= 1.0 else "shedding", why, fits=fits)

    def decide(self, sample: LoadSample) -> Budget:
        """What fits of the batches to come, now that this one is over."""
        self.learn(sample)
        return self.answer(sample)

    def learn(self, sample: LoadSample) -> None:
        """Take a batch into every estimate."""
        self.arrivals.add(sample)
        if sample.arrived > 0:
            self._learn_cost(sample)
        if self._futility.add(sample.kept, sample.duration_s, self._base):
            self._give_up(sample)
        elif self._futility.futile and self._can_hold(sample.arrived):
            self._futility.try_again()

    def _learn_cost(self, sample: LoadSample) -> None:
        """What rows cost, from a batch that had some; what starting up took is no part of it."""
        first, cold, noise = not self._cost.known, self._start_up.cold, self._cost.noise
        expected = 0.0 if self._fresh else self._cost.predict(sample.kept, sample.arrived)
        work_s = self._start_up.work_s(sample.duration_s, expected, sample.arrived)
        if self._fresh:
            # Nothing else is known: the whole batch is the most that its rows can have cost.
            self._least_row_s = self._least_of(sample, work_s, first) if cold else math.inf
            seconds = sample.duration_s
            work_s = work_s if math.isfinite(self._least_row_s) else seconds
        else:
            seconds = work_s
        started = cold and not self._fresh and work_s < sample.duration_s and work_s <= expected
        miss = None if started else self._cost.add(sample.kept, sample.arrived, seconds, cold=cold)
        if miss is not None:
            self._margin.add(miss, noise)
        # Behind a batch that was planned before a restart comes what came while the query was down.
        self._last_s = 0.0 if sample.planned_before else sample.duration_s
        self._durations = [self._durations[1], work_s]
        self._compare(sample, cold)

    def _least_of(self, sample: LoadSample, work_s: float, first: bool) -> float:
        """What a row of a batch that started up took at least; infinite if rows explain its seconds.

        They do where a row of the first batch took no more than a dear one costs: starting up and rows
        cannot be told apart then, and a batch that is cut too much does less harm than one of a minute.
        """
        known = math.isinf(self._least_row_s)
        if known or (first and sample.duration_s * self._config.first_rows <= _DEAR * sample.kept):
            return math.inf
        return max(0.0, work_s - self._cost.fixed_s) / max(1, sample.kept)

    def _compare(self, sample: LoadSample, cold: bool) -> None:
        """What the budget said for this batch's size, and what was kept of it."""
        if self._given is None or self._given.per_kept_s <= 0.0:
            return
        budget = self._given.rows(sample.arrived)
        self._cutting = budget < sample.arrived
        # In monitor mode all is kept, and says nothing of how well sizes are known; nor do the first
        # batches after a start, which bring what came while the query was down.
        if self._cutting and not cold and sample.kept < sample.arrived:
            self._margin.missed_rows(sample.kept, budget)

    def _give_up(self, sample: LoadSample) -> None:
        """Rows were blamed for time that went elsewhere: begin again with the check's own line."""
        per_row = self._futility.per_row_s(sample.kept, sample.duration_s)
        most = self._futility.before[0] if self._futility.before is not None else sample.kept
        self._cost = BatchCost(self._tuning.cost, self._base)
        self._cost.believe(max(0.0, sample.duration_s - per_row * sample.kept), per_row, most)
        self._cutting = False

    def _can_hold(self, arrived: float) -> bool:
        """Whether a batch of so many rows at the least share would surely be inside the target."""
        least, cost = self._config.min_keep * arrived, self._cost
        late = self._margin.aim(cost.noise, cost.doubt(least, arrived), 0.0)
        return cost.predict(least, arrived) <= late * self._base

    @property
    def _relaxed(self) -> float:
        """What is allowed while shedding is futile; within the trigger's interval nothing grows."""
        return max(self._futility.relaxed_s, self.arrivals.interval_s) if self._futility.futile else 0.0

    def answer(self, sample: LoadSample) -> Budget:
        """The budget for the batch that follows, from what was learned."""
        if not self._cost.known:
            return self._unknown()
        expected = self.arrivals.expected(sample.duration_s, sample.backlog)
        fits = self._given = self._fits(max(expected, sample.arrived))
        keep = fits.keep(expected)
        why = (
            f"{fits.rows(expected):.0f} of about {expected:.0f} rows are kept; batches of up to "
            f"{fits.whole:.0f} run whole, larger ones are cut to {fits.aim_s:.2f} s"
        )
        if keep < 1.0 and fits.fixed_s > _MOSTLY_FIXED * self.target_s:
            why += f", {fits.fixed_s:.2f} s of it before the first row: a longer hold keeps far more"
        state = self._state(keep)
        if self._futility.futile:
            state, why = "futile", self._why_futile(sample)
        return Budget(keep, state, why, rows=keep * expected, fits=fits)

    def _fits(self, arrived: float) -> RowBudget:
        """What fits, from what was learned; `arrived` is the size at which the aim is worked out."""
        target, lasting = max(self.target_s, self._relaxed), max(self.lasting_s, self._relaxed)
        late = self._after_outage or max(self._durations) > self._tuning.whole.longest * target
        fits = WhatFits(self._cost, self._margin, self._tuning.whole, self._cutting, late)
        (aim, kept), whole = fits.cut(target, arrived), fits.whole(target)
        late_s = max(self._durations)  # of two: a plan may be pinned before the last batch is over
        whole = max(whole, fits.whole_while_sustained(lasting, self.arrivals, late_s))
        if self._start_up.behind and not self._cutting:
            whole = max(whole, self._presumed(fits))
        cost = self._cost
        return RowBudget(
            aim,
            cost.fixed_s,
            cost.per_kept_s,
            cost.per_arrived_unseen_s if self._after_outage else cost.per_arrived_s,
            whole=whole,
            # By a price that may be next to nothing any number of rows would fit.
            most=max(whole, kept),
            min_keep=self._config.min_keep,
        )

    @property
    def _after_outage(self) -> bool:
        """Whether the coming batch brings what came while a query was down whose prices are known."""
        return not self._fresh and self._start_up.behind and self._last_s <= 0.0

    def _presumed(self, fits: WhatFits) -> float:
        """Rows that run whole because nothing says yet that they would not fit.

        The first batches bring what came while a run started up, and of a stream that is no load that
        is the most that ever comes at once. They are cut if they do not fit by the lowest price that
        can be: what rows took beyond the longest start-up, or what is known from the run before.
        """
        most = self._config.first_rows * max(self._base, self._last_s)
        if self._held < 1.0:
            return 0.0
        if not self._fresh:
            if self._after_outage:
                most = min(most, self.arrivals.rows(_SHORT_DOWN * self._base))
            return min(most, fits.surely_too_long(self._base))
        if self._least_row_s <= 0.0:
            return most
        return min(most, max(0.0, self._base - self._cost.fixed_s) / self._least_row_s)

    def _why_futile(self, sample: LoadSample) -> str:
        return (
            f"shedding did not shorten the batch ({sample.duration_s:.2f} s against "
            f"{self.target_s:.2f} s): the time goes elsewhere, look at the sink and the stages"
        )

    def _state(self, keep: float) -> str:
        if keep >= 1.0:
            return "idle"
        return "min_keep" if keep <= self._config.min_keep else "shedding"
