"""What a batch costs: a fixed price, one for each kept row and one for each that arrived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BatchCost", "CostFit"]

_LEAST_SECONDS = 1e-3  # Spark's clock ticks in milliseconds
_LEAST_PRICE = 1e-12


@dataclass(frozen=True)
class CostFit:
    """The numbers of the fit. Shares are of what recent batches took.

    `headgate bench hold-sweep` shows what less and more of each does.
    """

    #: Batches over which prices may wander by the noise of one batch. Fifty leave an error of a tenth of
    #: that noise, small enough to tell 90 % of the capacity from all of it; jumps do not wait for it.
    memory: float = 50.0
    #: How far all prices together may move from one batch to the next when a run begins, and after how
    #: many batches that is halved: a JVM compiles for tens of seconds, in which rows become two to four
    #: times cheaper, that is by 5 to 15 % a batch.
    warming: float = 0.15
    warming_half: float = 8.0
    #: Where misses go to one side, prices may move by this share of their running mean besides, as far
    #: as that is more than chance: in standard deviations of a miss, one and a half of the mean's own.
    follow: float = 1.0
    by_chance: float = 0.6
    #: What is believed of a first batch: the share of it that is the fixed price, but no more than that
    #: share of the target (a target is chosen above it); and the share of the rows which arrive.
    first_fixed: float = 0.97
    first_fixed_of_target: float = 0.3
    first_arrived: float = 0.03
    #: As how many batches the first one counts in that a batch of just its rows takes no longer: which
    #: price is which is not known then, and yet their sum is, but for starting up.
    first_trust: float = 0.3
    #: A first batch shows what a row costs at most, because it starts workers and compiles. Where that
    #: is more than a dear row costs (in seconds: seven times one of a native aggregation), halfway from
    #: there to that price is believed (of the logarithm), but no less than what so many seconds of
    #: starting up leave for the rows.
    dear_row_s: float = 7e-5
    start_up_s: float = 5.0
    #: How far the three prices can be off, at first and after long times in which no batch told them
    #: apart; shares of what a batch takes, and of the target at most for the fixed price. A row that is
    #: shed costs a few per cent of a kept one.
    unknown_fixed: float = 0.3
    unknown_kept: float = 0.4
    unknown_arrived: float = 0.05
    #: Standard deviations at which one miss is cut off: a stall moves the prices no further than that.
    cut: float = 3.0
    #: The weight of the latest miss in their running mean, and how many standard deviations that mean
    #: must be off before the cost has changed: twice a stall does it, or four batches that are 25 % off
    #: at 10 % noise; by chance it happens once in some hundred thousand batches.
    latest: float = 0.3
    changed: float = 1.9
    #: A batch that is shorter by so much (of the logarithm: 40 %) is believed at once. A longer one may
    #: be an accident, a shorter one is proof that the prices were too high.
    shorter: float = 0.35
    #: The first batches of a run start workers and compile; they count as so many batches each.
    cold_trust: float = 0.1
    #: Noise (of the logarithm) that is assumed at first, and the least that is ever assumed.
    first_noise: float = 0.1
    least_noise: float = 0.02
    #: The noise is that of about so many batches.
    noise_memory: float = 30.0


class BatchCost:
    """A Kalman filter over three prices, robust to stalls and quick to follow a change.

    A batch has a fixed price (planning, commits, the slowest empty task), a price for each row kept, and
    one for each row that arrived, which is paid for shed rows too: at ten times the capacity a few per
    cent of a kept row's price are half of the batch. Time per row alone would mistake all that for work.

    Batches miss in proportion to their length, so a miss is measured by the logarithm. Prices wander
    (Kalman 1960, with a random walk as the process); what recent batches do not tell apart (rows that
    do not vary, whole batches in which kept and arrived are one) keeps its last value while its
    variance grows to a bound, so `doubt` is honest about sizes that were never seen. Departures from the
    textbook: a miss is cut off at `CostFit.cut` standard deviations, as in Huber's M-estimate. While a
    run is young, all prices may move together by much more than later, because a JVM that warms up makes
    everything cheaper. The misses of a filter that is tuned well are white (Mehra 1970): where their
    running mean is off, all prices may move by as much, and where it says that the cost itself has
    changed, the variance is opened by as much as was missed. A price that would be negative is set to 0
    and the others take its part.

    >>> cost = BatchCost(target_s=4.0)
    >>> for kept in (100, 200, 300, 400) * 5:
    ...     _ = cost.add(kept, 500, 0.5 + 0.01 * kept)
    >>> round(cost.predict(200, 500), 1), round(cost.rows_within(3.5, arrived=500), -1)
    (2.5, 300.0)
    """

    def __init__(self, config: CostFit | None = None, target_s: float = math.inf) -> None:
        self._config = config or CostFit()
        self._target = target_s
        self._prices = [0.0, 0.0, 0.0]
        self._cov = [[0.0] * 3 for _ in range(3)]
        self._square = self._config.first_noise**2
        self._drift = 0.0
        #: Running means: seconds, kept, arrived.
        self._usual = [0.0, 0.0, 0.0]
        self.samples = 0
        #: Batches since the run began.
        self._age = 0

    def restarted(self) -> None:
        """A run begins: its first batches compile again."""
        self._age = 0

    @property
    def known(self) -> bool:
        """Whether any batch with rows was seen."""
        return self.samples > 0

    @property
    def fixed_s(self) -> float:
        """Seconds that a batch takes before its first row."""
        return self._prices[0]

    @property
    def per_kept_s(self) -> float:
        """Seconds for each row kept."""
        return self._prices[1]

    @property
    def per_arrived_s(self) -> float:
        """Seconds for each row that arrived, kept or not."""
        return self._prices[2]

    @property
    def per_arrived_unseen_s(self) -> float:
        """The same for a batch far larger than any that was seen: no less than the first guess.

        Batches of the usual size tell this price to within their noise, and by that a batch with fifty
        times their rows may be off by more than the target.
        """
        return max(self.per_arrived_s, self._config.first_arrived * self.per_kept_s)

    @property
    def noise(self) -> float:
        """How far batches miss by chance: the standard deviation of log seconds given rows."""
        return max(self._config.least_noise, math.sqrt(self._square))

    def predict(self, kept: float, arrived: float) -> float:
        """How long such a batch takes."""
        fixed, per_kept, per_arrived = self._prices
        return fixed + per_kept * kept + per_arrived * arrived

    def doubt(self, kept: float, arrived: float) -> float:
        """How far `predict` itself may be off: its standard deviation, as a share of it."""
        (ff, fk, fa), (_, kk, ka), (_, _, aa) = self._cov
        variance = ff + 2.0 * (fk * kept + fa * arrived + ka * kept * arrived)
        variance += kk * kept * kept + aa * arrived * arrived
        return math.sqrt(max(0.0, variance)) / max(_LEAST_SECONDS, self.predict(kept, arrived))

    def rows_within(self, seconds: float, arrived: float | None = None) -> float:
        """How many rows can be kept in that time: of so many that arrived, or of a batch kept whole."""
        if not self.known:
            return math.inf
        if arrived is None:
            return max(0.0, (seconds - self.fixed_s) / (self.per_kept_s + self.per_arrived_s))
        return max(0.0, (seconds - self.fixed_s - self.per_arrived_s * arrived) / self.per_kept_s)

    def add(self, kept: float, arrived: float, seconds: float, *, cold: bool = False) -> float | None:
        """Learn from a batch; by how much it missed (log), None where that says nothing about noise."""
        if arrived <= 0 or kept < 0:
            return None  # an empty batch skips an unknown part of the work
        seconds = max(_LEAST_SECONDS, seconds)
        self.samples += 1
        if self.samples == 1:
            self._begin(kept, arrived, seconds)
            return None
        config = self._config
        trust = config.cold_trust if cold else 1.0
        self._age += 1
        self._remember(kept, arrived, seconds, trust)
        self.brace(arrived)
        expected = max(_LEAST_SECONDS, self.predict(kept, arrived))
        miss = math.log(seconds / expected)
        doubt = self.doubt(kept, arrived)
        spread = math.sqrt(self.noise**2 / trust + doubt**2)
        before = self._drift
        if self._has_changed(miss, spread, cold):
            self._open(abs(miss))
            if miss < 0.0:  # starting up makes no batch shorter, and it misses by shares of what it took
                self._update(kept, arrived, seconds, 1.0, seconds)
            else:
                self._update(kept, arrived, seconds, trust)
            return None
        most = config.cut * spread
        cut = min(most, max(-most, miss))
        self._update(kept, arrived, expected * math.exp(cut), trust)
        if cold:
            return None
        self._hear_noise(cut / spread, before)
        return miss

    def _hear_noise(self, miss: float, mean: float) -> None:
        """One miss in standard deviations, and the mean of those before it.

        What all misses have in common is an error of the prices and no noise; taken for noise it would
        widen what is forgiven, and the prices would never be mended.
        """
        c = self._config
        weight = max(1.0 / c.noise_memory, 1.0 / (self.samples + 4.0))
        own = (miss - mean) ** 2 * (2.0 - c.latest) / 2.0  # the mean has a variance of its own
        self._square += weight * (self.noise**2 * own - self._square)

    def _begin(self, kept: float, arrived: float, seconds: float) -> None:
        c = self._config
        self._usual = [seconds, max(1.0, kept), arrived]
        fixed = min(c.first_fixed * seconds, c.first_fixed_of_target * self._target)
        share = c.first_arrived
        most = (seconds - fixed) / (max(1.0, kept) + share * arrived)
        least = max(0.0, 1.0 - c.start_up_s / (seconds - fixed)) * most
        price = max(least, math.sqrt(most * min(most, c.dear_row_s)))
        self._prices = [fixed, price, share * price]
        bounds = self._bounds(arrived)
        self._cov = [[0.0] * 3 for _ in range(3)]
        for i, bound in enumerate(bounds):
            self._cov[i][i] = bound * bound
        self._cov[1][2] = self._cov[2][1] = share * bounds[1] ** 2
        self._cov[2][2] += (share * bounds[1]) ** 2
        self._update(kept, arrived, self.predict(kept, arrived), c.first_trust)

    def _bounds(self, arrived: float) -> tuple[float, float, float]:
        """The largest standard deviations of the prices, in front of a batch of so many rows."""
        c, (seconds, kept, usual) = self._config, self._usual
        return (
            c.unknown_fixed * min(seconds, self._target),
            c.unknown_kept * seconds / max(1.0, kept),
            c.unknown_arrived * max(self._prices[1], seconds / max(1.0, arrived, usual)),
        )

    def _remember(self, kept: float, arrived: float, seconds: float, trust: float) -> None:
        weight = trust * max(0.1, 1.0 / self.samples)
        for i, value in enumerate((seconds, kept, arrived)):
            self._usual[i] += weight * (value - self._usual[i])

    def brace(self, arrived: float) -> None:
        """Prices may have moved since the last batch; but nobody is ever less sure than at first.

        What a row costs that is not kept is guessed from a first batch; in front of one that is many
        times larger the guess would be most of the batch. While no batch has told, it is cut down.
        """
        c, bounds = self._config, self._bounds(arrived)
        step = self.noise / c.memory / c.unknown_kept
        self._wander()
        for i, most in enumerate(bounds):
            variance = self._cov[i][i] + (step * most) ** 2
            if variance > most * most:
                if i == 2:
                    self._cut_arrived((c.first_arrived / c.unknown_arrived + 2.0) * most, variance)
                self._cov[i][i] = variance
                self._be_surer(i, most * most)
            else:
                self._cov[i][i] = variance

    def _be_surer(self, i: int, variance: float) -> None:
        """Bound what is not known of one price, as if somebody had told it.

        Only so do the others stay what they were beside it: a sum of two that is well known while
        neither is must not seem to be unknown because one of them was bounded.
        """
        own = list(self._cov[i])
        share = (own[i] - variance) / own[i] ** 2
        for j in range(3):
            for k in range(3):
                self._cov[j][k] -= own[j] * own[k] * share

    def _wander(self) -> None:
        """All prices move together: while a run is young, and where batches miss to one side."""
        c = self._config
        young = c.warming * 0.5 ** (self._age / c.warming_half)
        one_sided = max(0.0, abs(self._drift) - c.by_chance)
        by = young**2 + (c.follow * self.noise * one_sided) ** 2
        for i in range(3):
            for j in range(3):
                self._cov[i][j] += by * self._prices[i] * self._prices[j]

    def _cut_arrived(self, most: float, variance: float) -> None:
        """An arrived row costs at most so much; the others take its part, as batches have told."""
        shift = min(0.0, most - self._prices[2]) / variance
        self._prices = [p + self._cov[j][2] * shift for j, p in enumerate(self._prices[:2])] + [
            min(most, self._prices[2])
        ]
        self._no_negative_price()

    def _has_changed(self, miss: float, spread: float, cold: bool) -> bool:
        c = self._config
        if miss < -max(c.cut * spread, c.shorter):
            self._drift = 0.0
            return True
        if cold:
            return False
        most = c.cut + 1.0
        self._drift += c.latest * (min(most, max(-most, miss / spread)) - self._drift)
        if abs(self._drift) <= c.changed or miss * self._drift <= 0.0:
            return False
        self._drift = 0.0
        return True

    def _open(self, by: float) -> None:
        """The cost is another one: by so much (log) the prices may be off now, all or each."""
        share = min(1.0, math.expm1(min(by, 1.0)))
        for i in range(3):
            for j in range(3):
                self._cov[i][j] += 0.5 * share * share * self._prices[i] * self._prices[j]
            self._cov[i][i] += 0.5 * (share * self._prices[i]) ** 2

    def _update(
        self, kept: float, arrived: float, seconds: float, trust: float, usual_s: float = math.inf
    ) -> None:
        """Move the prices towards what a batch took; it may be off by the noise of what is expected.

        Or of `usual_s`, where that is less: what is expected may be far too long.
        """
        x = (1.0, kept, arrived)
        expected = sum(p * v for p, v in zip(self._prices, x, strict=True))
        away = [sum(row[j] * x[j] for j in range(3)) for row in self._cov]
        error = (self.noise * max(_LEAST_SECONDS, min(expected, usual_s))) ** 2 / trust
        total = error + sum(x[i] * away[i] for i in range(3))
        for i in range(3):
            self._prices[i] += away[i] * (seconds - expected) / total
        self._cov = [[self._cov[i][j] - away[i] * away[j] / total for j in range(3)] for i in range(3)]
        self._no_negative_price()

    def _no_negative_price(self) -> None:
        """Condition on a price of 0 where one is below; the others take what it had."""
        free = [0, 1, 2]
        while free and self._prices[i := min(free, key=self._prices.__getitem__)] < 0.0:
            free.remove(i)
            variance = self._cov[i][i]
            shift = self._prices[i] / variance if variance > 0.0 else 0.0
            for j in free:
                self._prices[j] -= self._cov[j][i] * shift
            self._prices[i] = 0.0
        fixed_s, per_kept, per_arrived = self._prices
        self._prices = [max(0.0, fixed_s), max(_LEAST_PRICE, per_kept), max(0.0, per_arrived)]

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "prices": list(self._prices),
            "cov": [list(row) for row in self._cov],
            "square": self._square,
            "drift": self._drift,
            "usual": list(self._usual),
            "samples": self.samples,
            "age": self._age,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._prices = [float(v) for v in value["prices"]]
        self._cov = [[float(v) for v in row] for row in value["cov"]]
        self._square, self._drift = float(value["square"]), float(value["drift"])
        self._usual = [float(v) for v in value["usual"]]
        self.samples = int(value["samples"])
        self._age = int(value.get("age", self.samples))

    def believe(self, fixed_s: float, per_row_s: float, rows: float) -> None:
        """Begin from a line that somebody else fitted: a batch of so many rows took what it says."""
        seconds = fixed_s + per_row_s * rows
        self.samples = 1
        rows = max(1.0, rows)
        self._begin(rows, rows, max(_LEAST_SECONDS, seconds))
        arrived = self._config.first_arrived * per_row_s
        self._prices = [fixed_s, max(_LEAST_PRICE, per_row_s - arrived), arrived]
        self._update(rows, rows, seconds, 1.0)
