"""The rows that intervals are tried on: every data set with a number in it, cut into windows and groups.

A *cell* is a group in a window: what one row of a query's result is about. Of each file so many whole
windows are taken, from its middle on, as hold about `ROWS` rows; more would only repeat them.

Constants were tuned on the data sets of `TUNED`, and are reported on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate_lab.figures.data_folder import found_data_file

__all__ = [
    "GROUPINGS",
    "ROWS",
    "SHARES_OF_ROWS",
    "TUNED",
    "Grouping",
    "Population",
    "population_of",
]

#: Rows of a population, about.
ROWS = 60_000
#: The data sets on which the estimators' constants were chosen.
TUNED = ("google tasks", "PlanetLab CPU", "tweets", "headlines")

_HOUR, _DAY = 3600.0, 86400.0

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grouping:
    """One query over a data set: the mean of a value, by group, in windows of so many seconds."""

    data: str
    value: str
    by: tuple[str, ...]
    window_s: float

    @property
    def name(self) -> str:
        """As the tables name it."""
        return f"{self.value} by {', '.join((*self.by, _span(self.window_s)))}"

    @property
    def tuned(self) -> bool:
        """Whether constants were chosen on this data set."""
        return self.data in TUNED


@dataclass(frozen=True)
class Population:
    """Rows as they arrived: the cell of each row and its value; cells in order of their windows."""

    cells: Whole
    values: Floats
    #: The window of each cell.
    windows: Whole
    #: The group of each cell, the same one in every window; None: every cell is a group of its own.
    groups: Whole | None = None
    #: What rows of one fate have in common; None: every row has its own.
    identities: Whole | None = None

    @property
    def sizes(self) -> Whole:
        """The rows of each cell."""
        return np.bincount(self.cells, minlength=len(self.windows))

    def mean(self, values: Floats | None = None) -> Floats:
        """Of each cell, the truth."""
        given = self.values if values is None else values
        return np.asarray(np.bincount(self.cells, given, len(self.windows)) / self.sizes)

    def variance(self) -> Floats:
        """Of each cell, with N - 1 below: what the true standard error is made of."""
        off = np.square(self.values - self.mean()[self.cells])
        squares = np.bincount(self.cells, off, len(self.windows))
        return np.asarray(squares / np.maximum(self.sizes - 1, 1))


def _span(seconds: float) -> str:
    unit, name = next((u, n) for u, n in ((_DAY, "days"), (60.0, "min"), (1.0, "s")) if seconds >= u)
    return f"{seconds / unit:g} {name}"


_FILES = {
    "google tasks": ("google_task_events_2011.parquet", "ts_us"),
    "PlanetLab CPU": ("planetlab_cpu_2011.parquet", "ts"),
    "tweets": ("tweets_congress_2020q1.parquet", "ts"),
    "headlines": ("news_headlines_2020_2022.parquet", "ts"),
    "green taxis": ("taxi_green_2023.parquet", "ts"),
    "DEBS taxis": ("taxi_debs2015_10k.parquet", "ts"),
    "packets": ("packets_bellcore_1989.parquet", "t_s"),
    "web requests": ("web_rates_per_second.parquet", "second"),
}
#: Every query that is tried, by data set.
GROUPINGS = (
    Grouping("google tasks", "cpu_req", ("user",), _HOUR / 3),
    Grouping("google tasks", "cpu_req", ("job",), _HOUR),
    Grouping("google tasks", "mem_req", ("sched_class",), _HOUR / 6),
    Grouping("google tasks", "failed", ("user",), _HOUR / 3),
    Grouping("PlanetLab CPU", "cpu_pct", ("vm",), _DAY / 2),
    Grouping("PlanetLab CPU", "cpu_pct", (), _HOUR / 2),
    Grouping("tweets", "text_len", ("account",), 14 * _DAY),
    Grouping("tweets", "text_len", ("client", "party"), 3 * _DAY),
    Grouping("tweets", "is_retweet", ("account",), 14 * _DAY),
    Grouping("tweets", "hashtags", ("client", "party"), 3 * _DAY),
    Grouping("headlines", "keywords", ("category",), 30 * _DAY),
    Grouping("headlines", "keywords", ("publisher",), 3 * _DAY),
    Grouping("green taxis", "fare_usd", ("pu_zone",), 5 * _DAY),
    Grouping("green taxis", "fare_usd", ("pu_zone", "do_zone"), 15 * _DAY),
    Grouping("green taxis", "distance_mi", ("pu_zone",), 5 * _DAY),
    Grouping("green taxis", "tip_usd", ("payment_type",), _DAY),
    Grouping("green taxis", "cash", ("do_zone",), 5 * _DAY),
    Grouping("DEBS taxis", "fare_usd", ("pickup_cell",), _HOUR),
    Grouping("DEBS taxis", "tip_usd", ("payment_type",), 300.0),
    Grouping("DEBS taxis", "distance_mi", (), 60.0),
    Grouping("packets", "size_bytes", (), 1.0),
    Grouping("packets", "size_bytes", (), 10.0),
    Grouping("packets", "large", (), 2.0),
    Grouping("web requests", "requests", ("trace",), 600.0),
    Grouping("web requests", "requests", ("trace",), 2 * _HOUR),
    Grouping("web requests", "idle", ("trace",), 600.0),
)
#: Values that are true or false, so that their mean is a share.
SHARES_OF_ROWS = ("failed", "is_retweet", "cash", "large", "idle")
_MADE: dict[str, Callable[[pa.Table], Any]] = {
    "failed": lambda t: pc.is_in(t["event"], pa.array(["FAIL", "EVICT", "KILL"])),
    "keywords": lambda t: pc.list_value_length(t["keywords"]),
    "hashtags": lambda t: pc.list_value_length(t["hashtags"]),
    "cash": lambda t: pc.equal(t["payment_type"], 2),
    "large": lambda t: pc.greater(t["size_bytes"], 1100),
    "idle": lambda t: pc.equal(t["requests"], 0),
}


@lru_cache(maxsize=1)
def _table(path: Path) -> pa.Table:
    return pq.read_table(path)


def population_of(
    grouping: Grouping, rows: int = ROWS, identity: tuple[str, ...] = ()
) -> Population | None:
    """The population of a query, with the identities of its rows; None where the file is not here."""
    file, time = _FILES[grouping.data]
    path = found_data_file(file)
    if path is None:
        return None
    table = _table(path.resolve())
    made = _MADE.get(grouping.value)
    column = table[grouping.value] if made is None else made(table)
    values = np.asarray(column.cast(pa.int64()).cast(pa.float64()) if _counted(column) else column)
    values = values.astype(np.float64)
    instants = np.asarray(table[time].cast(pa.int64()) if time != "t_s" else table[time], np.float64)
    seconds = instants * (1e-6 if time in ("ts", "ts_us") else 1.0)
    window = np.floor((seconds - seconds.min()) / grouping.window_s).astype(np.int64)
    there = np.isfinite(values)
    for name in grouping.by:
        there &= ~np.asarray(pc.is_null(table[name]))
    taken = np.flatnonzero(there & _from_the_middle(window, rows))
    group = _numbered(table, grouping.by, taken)
    codes = window[taken] * (int(group.max(initial=0)) + 1) + group
    _, first, cells = np.unique(codes, return_index=True, return_inverse=True)
    # windows keep their numbers, so that one that had no rows is a gap between its neighbours
    windows = window[taken][first] - window[taken].min(initial=0)
    identities = (
        np.unique(_numbered(table, identity, taken), return_inverse=True)[1] if identity else None
    )
    return Population(cells.astype(np.int64), values[taken], windows, group[first], identities)


def _numbered(table: pa.Table, names: tuple[str, ...], taken: Whole) -> Whole:
    """A number for what rows have in these columns."""
    found = np.zeros(len(taken), np.int64)
    for name in names:
        keys = pc.take(table[name].combine_chunks().cast(_plain(table[name].type)), taken)
        _, key = np.unique(keys.to_numpy(zero_copy_only=False), return_inverse=True)
        found = found * (int(key.max()) + 1) + key
    return found


def _counted(column: Any) -> bool:
    """Whether the values are whole, or true and false."""
    return bool(pa.types.is_boolean(column.type) or pa.types.is_integer(column.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _from_the_middle(window: Whole, rows: int) -> npt.NDArray[np.bool_]:
    """The rows of whole windows, from a third of the file on, until there are enough."""
    numbers, counts = np.unique(window, return_counts=True)
    first = len(numbers) // 3 if counts.sum() > 2 * rows else 0
    enough = int(np.searchsorted(np.cumsum(counts[first:]), rows)) + 1
    chosen = numbers[first : first + enough]
    return np.isin(window, chosen)
