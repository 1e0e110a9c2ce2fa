"""What batches cost, from a recording: the controller's own fit, and what that fit cannot tell."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.control.batch_cost import BatchCost
from headgate.core.cold_start import COLD_BATCHES
from headgate.errors import BadArgument
from headgate.whatif.microbatch import Cost, CostModel
from headgate.whatif.recording import RecordedBatch, Recording

__all__ = ["Costs", "fitted", "given"]

Prices = tuple[float, float, float]
#: Batches of nearly one size do not tell the fixed price from that of a row; nor do batches that kept
#: all tell a kept row from one that arrived.
_ONE_SIZE, _SHED_AT_ALL = 1.3, 0.005
_LEAST_MISSES = 15


@dataclass(frozen=True)
class Costs:
    """Prices over the time of a recording, how far they may be off, and how batches miss them."""

    #: From these instants of virtual time on, these prices: fixed, each kept row, each that arrived.
    since: tuple[float, ...]
    prices: tuple[Prices, ...]
    #: How far the prices may be off at the end, as the fit says; None where they were given.
    covariance: tuple[tuple[float, ...], ...] | None = None
    #: Misses of real batches, of the logarithm; empty where nobody knows.
    misses: tuple[float, ...] = ()
    noise: float = 0.0
    #: How many times as long the first batches took as such ones do later.
    cold: tuple[float, ...] = ()
    #: Sizes that were seen: the fewest and the most rows kept, the most that arrived.
    fewest_kept: int = 0
    most_kept: int = 0
    most_arrived: int = 0
    #: What the recorded batches do not tell, in words, by the name of the price.
    untold: tuple[tuple[str, str], ...] = ()

    @property
    def last(self) -> Prices:
        """The prices at the end."""
        return self.prices[-1]

    def at(self, now: float) -> Prices:
        """The prices that held at an instant."""
        return self.prices[max(0, bisect.bisect_right(self.since, now) - 1)]

    def usual(self) -> Prices:
        """The prices in the middle of all: what one number each says of the whole time."""
        middle = [sorted(p[i] for p in self.prices)[len(self.prices) // 2] for i in range(3)]
        return middle[0], middle[1], middle[2]

    def doubt(self, kept: float, arrived: float) -> float:
        """How far a batch of that size may be off in the mean, as a share of what it takes."""
        if self.covariance is None:
            return 0.0
        x = (1.0, kept, arrived)
        variance = sum(x[i] * x[j] * self.covariance[i][j] for i in range(3) for j in range(3))
        expected = sum(p * v for p, v in zip(self.last, x, strict=True))
        return math.sqrt(max(0.0, variance)) / max(1e-3, expected)

    def model(self, seed: int) -> CostModel:
        """What a virtual batch costs; each seed but 0 has its own prices, as far off as they may be."""
        shift = (0.0, 0.0, 0.0) if seed == 0 else self._shift(random.Random(f"prices {seed}"))

        def cost(number: int, start: float) -> Cost:
            fixed, kept, arrived = (
                max(0.0, price + by) for price, by in zip(self.at(start), shift, strict=True)
            )
            factor = self.cold[number] if number < len(self.cold) else 1.0
            return Cost(factor * fixed, factor * kept, factor * arrived, self.noise, misses=self.misses)

        return cost

    def _shift(self, rng: random.Random) -> Prices:
        if self.covariance is None:
            return 0.0, 0.0, 0.0
        root = _square_root(self.covariance)
        drawn = [rng.gauss(0.0, 1.0) for _ in range(3)]
        a, b, c = (sum(root[i][j] * drawn[j] for j in range(i + 1)) for i in range(3))
        return a, b, c


def _square_root(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Cholesky's; a direction without variance stays without."""
    root = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(root[i][k] * root[j][k] for k in range(j))
            if i == j:
                root[i][i] = math.sqrt(max(0.0, rest))
            else:
                root[i][j] = rest / root[j][j] if root[j][j] > 0.0 else 0.0
    return root


def given(fixed_s: float, per_kept_s: float, per_arrived_s: float, noise: float) -> Costs:
    """Prices that somebody states, where a recording has no durations."""
    if not (fixed_s >= 0 and per_kept_s > 0 and per_arrived_s >= 0 and 0 <= noise <= 1):
        raise BadArgument(
            f"fixed={fixed_s!r}, per kept row={per_kept_s!r}, per arrived row={per_arrived_s!r}, "
            f"noise={noise!r}: seconds, 0 or more, a kept row's above 0; noise is a share up to 1"
        )
    price = (fixed_s, per_kept_s, per_arrived_s)
    return Costs((0.0,), (price,), noise=noise, most_kept=1 << 62, most_arrived=1 << 62)


def fitted(recording: Recording, reference_s: float = math.inf) -> Costs:
    """The prices that the batches show, by the fit of the controllers (`BatchCost`).

    It goes over them twice: the second time it begins from what it learned, so that the first batches
    have prices as good as the last ones, and prices follow what changed in between. A batch's miss is
    against the prices before it. `reference_s` is the target that held, or one that is asked about: what
    is believed of the fixed price before any batch has told it.
    """
    seen = [b for b in recording.batches if b.arrived > 0 and b.duration_s is not None]
    if not seen:
        raise BadArgument(
            "nothing says how long batches took: give what they cost, such as --fixed '300 ms' "
            "--per-row '20 us'"
        )
    first = BatchCost(target_s=reference_s)
    _through(first, seen)
    second = BatchCost(target_s=reference_s)
    second.restore(first.snapshot())
    prices, misses = _through(second, seen)
    return Costs(
        since=tuple(b.started_at - recording.origin for b in seen),
        prices=tuple(prices),
        covariance=tuple(tuple(row) for row in second.snapshot()["cov"]),
        misses=tuple(misses) if len(misses) >= _LEAST_MISSES else (),
        noise=min(0.5, second.noise),
        fewest_kept=min(b.kept for b in seen),
        most_kept=max(b.kept for b in seen),
        most_arrived=max(b.arrived for b in seen),
        cold=_cold(recording, seen, prices),
        untold=_untold(seen),
    )


def _through(cost: BatchCost, batches: Sequence[RecordedBatch]) -> tuple[list[Prices], list[float]]:
    """Every batch into the fit: the prices after each, and the misses."""
    prices: list[Prices] = []
    misses: list[float] = []
    run, since = None, 0
    for batch in batches:
        if batch.run != run:
            run, since = batch.run, 0
            if batch.number == 0 or prices:
                cost.restarted()
        cold = since < COLD_BATCHES and (batch.number == 0 or (bool(prices) and bool(batch.run)))
        since += 1
        miss = cost.add(batch.kept, batch.arrived, batch.duration_s or 0.0, cold=cold)
        if miss is not None:
            misses.append(miss)
        prices.append((cost.fixed_s, cost.per_kept_s, cost.per_arrived_s))
    return prices, misses


def _cold(
    recording: Recording, seen: Sequence[RecordedBatch], prices: Sequence[Prices]
) -> tuple[float, ...]:
    """How much longer a query's first batches took than by the prices that followed them."""
    if not recording.begins_cold or len(seen) <= COLD_BATCHES:
        return ()
    fixed, kept, arrived = prices[COLD_BATCHES]
    factors = []
    for batch in seen[:COLD_BATCHES]:
        expected = max(1e-3, fixed + kept * batch.kept + arrived * batch.arrived)
        factors.append(max(1.0, (batch.duration_s or 0.0) / expected))
    return tuple(factors)


def _untold(seen: Sequence[RecordedBatch]) -> tuple[tuple[str, str], ...]:
    found = []
    sizes = sorted(b.kept for b in seen)
    low, high = sizes[len(sizes) // 20], sizes[-1 - len(sizes) // 20]
    if high <= _ONE_SIZE * max(1, low):
        found.append(
            (
                "fixed_s",
                f"nearly all batches kept {low:,} to {high:,} rows, so how much of their time is a "
                "batch's own and how much its rows' cannot be told apart",
            )
        )
    arrived = sum(b.arrived for b in seen)
    if sum(b.arrived - b.kept for b in seen) <= _SHED_AT_ALL * arrived:
        found.append(
            (
                "per_arrived_s",
                "hardly a row was shed, so what a shed row still costs is not known: 3 % of a kept one "
                "is assumed, as a new gate does",
            )
        )
    return tuple(found)
