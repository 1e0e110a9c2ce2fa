"""The synthetic streams of join-2007, section 6.1: sets whose popular items rotate, one stream later.

At time T the most popular item is ``floor(L * (T mod cycle) / cycle)``, the next one follows, and so on
around the circle; in the second stream the clock is `shift_s` late. So tuples match best at one lag.

Readings: set sizes are normal, rounded, at least 1; items of a set are distinct (drawn one by one, Zipf
by rank, a repeated item drawn again); arrivals are Poisson.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate_lab.sim.compiled import compiled

__all__ = ["JoinStream", "Workload", "stream"]

Floats = npt.NDArray[np.float64]
Steps = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Workload:
    """How a pair of streams is drawn; a seed gives one.

    `rates` are (until second, tuples a second) of each stream; `second_rates` of stream 2 when it
    differs. `shift_s` is tau, or steps (from second, tau). `types` are the frequencies of the types.
    With ``size=1, spread=0`` tuples are single values, of `items` possible ones; sets have at most 128.
    """

    rates: Steps = ((240.0, 500.0),)
    second_rates: Steps | None = None
    skew: float = 0.6
    shift_s: float | Steps = 25.0
    cycle_s: float = 40.0
    items: int = 100
    size: float = 5.0
    spread: float = 1.0
    types: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for steps in (self.rates, self.second_rates or self.rates):
            ends = [end for end, _ in steps]
            if not ends or ends != sorted(ends) or ends[0] <= 0 or any(rate < 0 for _, rate in steps):
                raise BadArgument(
                    f"rates={steps!r}: give (until second, tuples a second) in rising order, "
                    "such as ((60, 100), (75, 500))"
                )
        if not self.singles and not 1 <= self.items <= 128:
            raise BadArgument(
                f"items={self.items!r}: sets have 1 to 128 possible items (the paper: 100)"
            )
        if not self.types or min(self.types) < 0 or sum(self.types) <= 0:
            raise BadArgument(
                f"types={self.types!r}: give the frequency of each type, such as (1, 2, 3)"
            )

    @property
    def seconds(self) -> float:
        """When the streams end."""
        return self.rates[-1][0]

    @property
    def singles(self) -> bool:
        """Tuples are single values, for equality."""
        return self.size == 1 and self.spread == 0

    def rate(self, side: int, instants: Floats) -> Floats:
        """Tuples a second of a stream at given instants; 0 before its beginning and after its end."""
        steps = self.rates if side == 0 or self.second_rates is None else self.second_rates
        ends = np.array([end for end, _ in steps])
        values = np.array([rate for _, rate in steps] + [0.0])
        found = values[np.searchsorted(ends, instants, side="right")]
        return np.asarray(np.where(instants < 0, 0.0, found), np.float64)

    def shift(self, instants: Floats) -> Floats:
        """Tau at given instants."""
        if not isinstance(self.shift_s, tuple):
            return np.full(len(instants), float(self.shift_s))
        starts = np.array([start for start, _ in self.shift_s])
        values = np.array([tau for _, tau in self.shift_s])
        index = np.searchsorted(starts, instants, side="right") - 1
        return np.asarray(values[np.maximum(0, index)], np.float64)

    def shares(self) -> Floats:
        """How popular the item of each rank is."""
        weights = np.arange(1, self.items + 1, dtype=np.float64) ** -self.skew
        return np.asarray(weights / weights.sum(), np.float64)

    def sizes(self, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Numbers of items of so many sets."""
        drawn = np.rint(random.normal(self.size, self.spread, count)).astype(np.int64)
        return np.clip(drawn, 1, self.items)


@dataclass(frozen=True)
class JoinStream:
    """Both streams in order of arrival: `side` is 0 for S_1; a set is the bits of `lo` and `hi`.

    Single values stand in `value`, sets have -1 there.
    """

    workload: Workload
    time: Floats
    side: npt.NDArray[np.int64]
    lo: npt.NDArray[np.uint64]
    hi: npt.NDArray[np.uint64]
    value: npt.NDArray[np.int64]
    type: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time)

    def items(self, index: int) -> frozenset[int]:
        """The items of one tuple."""
        if self.value[index] >= 0:
            return frozenset([int(self.value[index])])
        bits = int(self.lo[index]) | int(self.hi[index]) << 64
        return frozenset(item for item in range(128) if bits >> item & 1)


def stream(workload: Workload, seed: int) -> JoinStream:
    """Draw the streams of a workload."""
    random = np.random.default_rng([seed, 3])
    times, sides = [], []
    for side in range(2):
        steps = workload.rates if side == 0 or workload.second_rates is None else workload.second_rates
        begin = 0.0
        for end, rate in steps:
            stop = min(end, workload.seconds)
            if stop > begin:
                count = int(random.poisson(rate * (stop - begin)))
                times.append(random.uniform(begin, stop, count))
                sides.append(np.full(count, side, np.int64))
            begin = end
    time, side_of = np.concatenate(times), np.concatenate(sides)
    order = np.argsort(time, kind="stable")
    time, side_of = time[order], side_of[order]
    late = np.where(side_of == 1, workload.shift(time), 0.0)
    top = np.floor(workload.items * (((time - late) % workload.cycle_s) / workload.cycle_s))
    offsets = np.minimum(top.astype(np.int64), workload.items - 1)
    sizes = workload.sizes(len(time), random)
    lo, hi = np.zeros(len(time), np.uint64), np.zeros(len(time), np.uint64)
    value = np.full(len(time), -1, np.int64)
    bounds = np.cumsum(workload.shares())
    if workload.singles:
        rank = np.searchsorted(bounds, random.random(len(time)) * bounds[-1], side="right")
        value = (np.minimum(rank, workload.items - 1) + offsets) % workload.items
    else:
        compiled("join.kernels").draw_sets(random, bounds, offsets, sizes, lo, hi)
    kinds = np.cumsum(workload.types)
    kind = np.searchsorted(kinds, random.random(len(time)) * kinds[-1], side="right")
    return JoinStream(workload, time, side_of, lo, hi, value, kind.astype(np.int64), sizes)
