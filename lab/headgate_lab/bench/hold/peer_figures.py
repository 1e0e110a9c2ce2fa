"""What a user would see of a run: how late its rows were handled, what it said, and what it left.

Answers are compared with the truth of all rows that arrived, window by window and group by group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headgate.demo.batches import Batch
from headgate_lab.bench.hold.arrivals import Schedule
from headgate_lab.bench.hold.figures import oldest

__all__ = ["Errors", "Said", "backlog", "errors", "read_said", "row_delays"]

Array = npt.NDArray[np.float64]
#: Instants of a batch's or a backlog's stretch of arrivals at which delays are taken.
_POINTS = 50

#: Mean and median by the begin of a window (seconds of event time) and group.
Said = Mapping[tuple[float, int], tuple[float, float]]


@dataclass(frozen=True)
class Errors:
    """Mean relative errors over the windows and groups that have an answer, and their share."""

    mean: float | None
    median: float | None
    answered: float


def row_delays(
    batches: Sequence[Batch], schedule: Schedule, began: float, ended_at: float
) -> tuple[Array, Array]:
    """Delays of all rows that arrived, and how many rows each stands for.

    From arrival to the end of the batch that handled the row, whether it was kept or not; a row that
    waits at the end counts with its delay so far. So nobody looks better by leaving rows unhandled.
    """
    delays, weights = [], []
    handled = began
    for batch in batches:
        if batch.running or not batch.arrived:
            continue
        came = np.linspace(oldest(batch), batch.until, _POINTS)
        delays.append(batch.ended_at - came)
        weights.append(np.full(_POINTS, batch.arrived / _POINTS))
        handled = max(handled, batch.until)
    edges = np.linspace(handled, max(handled, ended_at), _POINTS + 1)
    sums = np.array([schedule.until(t - began) for t in edges])
    delays.append(ended_at - 0.5 * (edges[1:] + edges[:-1]))
    weights.append(np.diff(sums))
    return np.concatenate(delays), np.concatenate(weights)


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed; 0 where there is none.

    >>> weighted_quantile(np.array([3.0, 1.0]), np.array([1.0, 3.0]), 0.7)
    1.0
    """
    some = weights > 0
    if not some.any():
        return 0.0
    order = np.argsort(values[some])
    sums = np.cumsum(weights[some][order])
    place = int(np.searchsorted(sums, share * sums[-1] * (1 - 1e-12)))
    return float(values[some][order][min(place, len(sums) - 1)])


def backlog(batches: Sequence[Batch], schedule: Schedule, began: float, ended_at: float) -> int:
    """Rows that had arrived and that no batch that ended had read."""
    read = sum(b.arrived for b in batches if not b.running)
    return max(0, round(schedule.until(ended_at - began)) - read)


def errors(said: Said, true: Said, last_begin: float, first_begin: float = -math.inf) -> Errors:
    """How far answers are off, of the windows that begin from `first_begin` up to `last_begin`.

    >>> errors({(0.0, 1): (11.0, 5.0)}, {(0.0, 1): (10.0, 5.0), (2.0, 1): (1.0, 1.0)}, 9.0)
    Errors(mean=0.1, median=0.0, answered=0.5)
    """
    wanted = {key: value for key, value in true.items() if first_begin <= key[0] <= last_begin}
    pairs = [(said[key], value) for key, value in wanted.items() if key in said]
    if not pairs:
        return Errors(None, None, 0.0)
    off = [float(np.mean([abs(a[i] - t[i]) / abs(t[i]) for a, t in pairs if t[i]])) for i in range(2)]
    return Errors(round(off[0], 5), round(off[1], 5), round(len(pairs) / len(wanted), 4))


def read_said(folder: str | Path) -> dict[tuple[float, int], tuple[float, float]]:
    """What a run, or the truth, left as Parquet."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder)
    columns = [table[name].to_pylist() for name in ("begin", "road", "mean", "median")]
    return {(begin, road): (mean, median) for begin, road, mean, median in zip(*columns, strict=True)}
