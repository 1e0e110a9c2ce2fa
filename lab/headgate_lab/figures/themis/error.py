"""How wrong a result is whose sources were shed at random (themis-2016, section 7.1).

A node runs ever more copies of one query and discards tuples at random every 250 ms, by the shipped
random shedder; windows are 1 s. So all copies lose the same share on average, and each window its own.
Shed are single tuples, as section 7.1 says, not batches of 80: of a second's five batches often none
would be left.

Data. Made values have mean 50: normal (spread 15), uniform from 0 to 100, exponential, or for each
tuple any of these. Real ones are CPU readings of PlanetLab VMs, of two days in March 2011. AVG, MAX and
COUNT read them across the VMs (400 of one moment are one second). COV takes a day of two VMs (288 pairs)
for a second, TOP-5 20 readings in a row of each of 10 VMs. The traces have no memory, so free memory is
made up for all data: uniform from 50 to 350 MB.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headgate.fairness.random_shedding import RandomShedding
from headgate_lab.figures.data_folder import found_data_file

__all__ = ["MADE", "REAL", "kendall", "kept_tuples", "real_file", "series", "snapshots"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MADE, REAL = ("gaussian", "uniform", "exponential", "mixed"), "PlanetLab"
_FILE = "planetlab_cpu_2011.parquet"
#: Readings of a VM and day.
DAY = 288


def real_file() -> str | None:
    """Where the traces are, if they are here."""
    found = found_data_file(_FILE)
    return None if found is None else str(found.resolve())


def kept_tuples(
    queries: int, per_interval: int, capacity: int, intervals: int, random: np.random.Generator
) -> Flags:
    """Which tuples of `queries` copies a node keeps: (interval, copy, tuple)."""
    shedder, ones = RandomShedding(), np.ones(queries * per_interval, np.int64)
    kept = [shedder.keep(ones, capacity, random) for _ in range(intervals)]
    return np.array(kept).reshape(intervals, queries, per_interval)


def snapshots(
    data: str, file: str | None, windows: int, size: int, random: np.random.Generator
) -> Floats:
    """Windows of readings of one moment: (window, reading)."""
    if data != REAL:
        return _made(data, (windows, size), random)
    assert file is not None
    readings = _days(file)
    chosen = []
    for _ in range(windows):
        day = readings[int(random.integers(len(readings)))]
        moment = day[:, int(random.integers(DAY))]
        chosen.append(random.permutation(moment)[:size])
    return np.array(chosen)


def series(
    data: str, file: str | None, windows: int, sources: int, size: int, random: np.random.Generator
) -> Floats:
    """Windows of readings in a row of each of some sources: (window, source, reading)."""
    if data != REAL:
        return _made(data, (windows, sources, size), random)
    assert file is not None
    readings = _days(file)
    chosen = []
    for _ in range(windows):
        day = readings[int(random.integers(len(readings)))]
        begin = int(random.integers(DAY - size + 1))
        vms = random.choice(len(day), size=sources, replace=False)
        chosen.append(day[vms, begin : begin + size])
    return np.array(chosen)


def _made(data: str, shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    if data == "gaussian":
        return random.normal(50.0, 15.0, shape)
    if data == "uniform":
        return random.uniform(0.0, 100.0, shape)
    if data == "exponential":
        return random.exponential(50.0, shape)
    kinds = [_made(kind, shape, random) for kind in MADE[:3]]
    return np.asarray(np.choose(random.integers(3, size=shape), kinds))


@lru_cache(maxsize=2)
def _days(file: str) -> tuple[Floats, ...]:
    """CPU by VM and moment, a table for each day."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(Path(file))
    days = pc.day(table["ts"]).to_numpy()
    names = table["vm"].combine_chunks().dictionary_encode().indices.to_numpy()
    values, found = table["cpu_pct"].to_numpy().astype(np.float64), []
    for day in np.unique(days):
        mine = np.flatnonzero(days == day)  # sorted by time; a stable sort by VM leaves it so
        mine = mine[np.argsort(names[mine], kind="stable")]
        found.append(values[mine].reshape(-1, DAY))
    return tuple(found)


def kendall(perfect: list[int], degraded: list[int]) -> float:
    """Kendall's distance of two top-k lists, of at most 1: Fagin's K with penalty 0, over k squared.

    Counted are pairs in opposite order and pairs of which each list has one. Ranks that a short list
    leaves empty are strangers to the other.

    >>> kendall([1, 2, 3], [1, 2, 3]), kendall([1, 2, 3], [4, 5, 6]), kendall([1, 2], [])
    (0.0, 1.0, 1.0)
    >>> round(kendall([1, 2, 3], [2, 1, 3]), 4)
    0.1111
    """
    k = len(perfect)
    second = degraded + [-1 - rank for rank in range(k - len(degraded))]
    first_at = {item: rank for rank, item in enumerate(perfect)}
    second_at = {item: rank for rank, item in enumerate(second)}
    items = list(dict.fromkeys(perfect + second))
    apart = 0
    for i, one in enumerate(items):
        for other in items[i + 1 :]:
            # Items that a list does not have come after all that it has.
            before = first_at.get(one, k) - first_at.get(other, k)
            after = second_at.get(one, k) - second_at.get(other, k)
            apart += before * after < 0
    return apart / k**2 if k else 0.0
