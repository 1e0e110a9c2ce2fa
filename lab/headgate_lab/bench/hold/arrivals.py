"""When rows arrive: a step up and down again, steady between the two, in bursts, or as a real trace did.

A schedule is rows a second in short stretches, and nothing else: a producer sends it to Kafka, or writes
it as files, or Spark's rate source multiplies its rows by it. The same seed gives the same schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.whatif.arrivals import bursts
from headgate_lab.figures.data_folder import data_file

__all__ = ["ARRIVALS", "Array", "TICK_S", "TRACES", "Schedule", "Step", "factors", "stepped", "traced"]

#: The stretches of a schedule: shorter than the shortest batch, so that a step falls into one.
TICK_S = 0.5
#: Kinds of arrivals at the high load.
ARRIVALS = ("steady", "bursts", "trace")
#: Spread and length of bursts as the issue of held targets states them: a log-normal factor that changes
#: every six seconds, which is three targets.
_SPREAD, _EVERY_S = 0.7, 6.0

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Trace:
    """Where a trace is, and how it is played: so many times its speed, from an instant of its own."""

    file: str
    speed: float
    begin_s: float


#: Real arrivals. `web` are requests at a web server around its busiest second of two months; `packets`
#: are those of an Ethernet, as fast as they came; `tasks` are events of a cluster's scheduler, by far
#: the most bursty (half a second with more than ten times the mean).
TRACES = {
    "web": _Trace("web_rates_per_second.parquet", 5.0, 1_085_352.0),
    "packets": _Trace("packets_bellcore_1989.parquet", 1.0, 0.0),
    "tasks": _Trace("google_task_events_2011.parquet", 15.0, 600.0),
}


@dataclass(frozen=True)
class Step:
    """When the load rises and falls again, in seconds from the start."""

    up_s: float = 15.0
    down_s: float = 60.0
    end_s: float = 90.0

    @classmethod
    def lasting(cls, seconds: float) -> Step:
        """A sixth of the time at the low load, half of it at the high one, a third at the low one again.

        >>> Step.lasting(90.0) == Step()
        True
        """
        if not seconds >= 12.0:
            raise BadArgument(f"a run of {seconds:g} s is too short: give 12 s or more for each run")
        return cls(seconds / 6, 2 * seconds / 3, seconds)


@dataclass(frozen=True)
class Schedule:
    """Rows a second, in stretches of `tick_s` from the start."""

    rates: tuple[float, ...]
    tick_s: float = TICK_S

    def __post_init__(self) -> None:
        if not self.rates or not all(np.isfinite(self.rates)) or min(self.rates) < 0:
            raise BadArgument(f"{len(self.rates)} rates: give one or more, each 0 or more rows a second")

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.rates) * self.tick_s

    @property
    def rows(self) -> float:
        """All rows."""
        return float(sum(self.rates)) * self.tick_s

    def until(self, seconds: float) -> float:
        """Rows that have arrived by then.

        >>> Schedule((10.0, 30.0)).until(0.75)
        12.5
        """
        times, sums = self._sums()
        return float(np.interp(seconds, times, sums))

    def message_times(self, rows_each: int) -> Array:
        """When each message of so many rows is complete, and so due; rows left over are no message.

        >>> Schedule((4.0, 8.0)).message_times(2).tolist()
        [0.5, 0.75, 1.0]
        """
        times, sums = self._sums()
        wanted = rows_each * np.arange(1, int(sums[-1] / rows_each + 1e-9) + 1, dtype=np.float64)
        # The stretch in which each is reached, from the left: where no row comes the sum stands still.
        place = np.clip(np.searchsorted(sums, wanted), 1, len(sums) - 1)
        into = (wanted - sums[place - 1]) / (sums[place] - sums[place - 1])
        return np.asarray(times[place - 1] + self.tick_s * np.minimum(into, 1.0))

    def copies(self, unit: float) -> list[int]:
        """Each stretch's rate in whole multiples of a unit: what multiplies a constant source."""
        return [max(0, round(rate / unit)) for rate in self.rates]

    def _sums(self) -> tuple[Array, Array]:
        times: Array = self.tick_s * np.arange(len(self.rates) + 1, dtype=np.float64)
        return times, np.concatenate([[0.0], np.cumsum(self.rates) * self.tick_s])


def stepped(low: float, high: float, step: Step, shape: Array | None = None) -> Schedule:
    """The low rate, the high one times a shape whose mean is 1, and the low one again."""
    count, up, down = (round(s / TICK_S) for s in (step.end_s, step.up_s, step.down_s))
    rates = np.full(count, low)
    rates[up:down] = high if shape is None else high * shape[: down - up]
    return Schedule(tuple(rates.tolist()))


def factors(arrivals: str, seconds: float, *, seed: int = 0, trace: str = "web") -> Array:
    """The load in each stretch as a multiple of the mean over these seconds, which is 1.

    A run is too short for the mean of a few bursts to be near the one they were drawn around; without
    the division "5 times capacity" would be 3 with one seed and 8 with another.
    """
    ticks = max(1, round(seconds / TICK_S))
    if arrivals == "steady":
        return np.ones(ticks)
    if arrivals == "bursts":
        rate = bursts(1.0, spread=_SPREAD, every_s=_EVERY_S, seed=seed)
        found = np.array([rate((i + 0.5) * TICK_S) for i in range(ticks)])
    elif arrivals == "trace":
        found = traced(trace, ticks)
    else:
        raise BadArgument(f"arrivals={arrivals!r}: give one of {', '.join(ARRIVALS)}")
    return np.asarray(found / found.mean())


def traced(trace: str, ticks: int, file: Path | None = None) -> Array:
    """How many rows a real trace has in each stretch."""
    if trace not in TRACES:
        raise BadArgument(f"trace={trace!r}: give one of {', '.join(TRACES)}")
    import pyarrow.parquet as pq

    chosen = TRACES[trace]
    path = file or data_file(chosen.file)
    stretch = TICK_S * chosen.speed
    weight: Array | None = None
    if trace == "web":
        only = [("trace", "=", "nasa_http_1995")]
        table = pq.read_table(path, columns=["second", "requests"], filters=only)
        # Counted by the second; the rows of a second are spread over its middle.
        at = table["second"].to_numpy().astype(np.float64) + 0.5
        weight = table["requests"].to_numpy().astype(np.float64)
    elif trace == "packets":
        at = pq.read_table(path, columns=["t_s"])["t_s"].to_numpy()
    else:
        at = pq.read_table(path, columns=["ts_us"])["ts_us"].to_numpy() / 1e6
    place = np.floor((at - chosen.begin_s) / stretch).astype(np.int64)
    inside = (place >= 0) & (place < ticks)
    counts = np.bincount(
        place[inside], weights=None if weight is None else weight[inside], minlength=ticks
    ).astype(np.float64)
    last = (float(at[-1]) - chosen.begin_s) / stretch
    if last < ticks - 1 or not counts.sum():
        raise BadArgument(
            f"trace {trace!r} lasts {last * TICK_S:.0f} s at {chosen.speed:g} times its speed, and "
            f"{ticks * TICK_S:.0f} s are asked for: give fewer minutes, or another trace"
        )
    return counts
