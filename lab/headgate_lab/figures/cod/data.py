"""The windows that the CoD figures are drawn from: real ones where the files are, made ones elsewhere.

The paper's taxis (DEBS 2015, 32 GB) are here by their first hour only, which makes two windows of its 30
minutes; so green taxis of 2023 stand beside them, in windows of 5 days, which are as dense in routes as
the paper's. Its task events (Google 2011) are here for 12.5 hours. Its packets (DEC) are not to be had;
Bellcore's of 1989 are here instead.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate_lab.figures.cod.streams import STREAMS, made_windows
from headgate_lab.figures.data_folder import found_data_file
from headgate_lab.papers.cod import WindowRows
from headgate_lab.papers.cod.windows import TimeWindows

__all__ = ["REAL", "Source", "StreamRows", "source_of", "stream_of", "windows_of"]

_DEBS, _GREEN = "taxi_debs2015_10k.parquet", "taxi_green_2023.parquet"
_GOOGLE, _BELLCORE = "google_task_events_2011.parquet", "packets_bellcore_1989.parquet"
#: Windows of a made stream; of one without groups, which are small.
_MADE, _MADE_SCALAR = 4, 24


@dataclass(frozen=True)
class Recipe:
    """How windows are cut from a file."""

    file: str
    time: str
    #: The columns that make up the group; none for a query without groups.
    keys: tuple[str, ...]
    value: str
    size: float
    slide: float
    #: Whether windows are aligned to the first row, or to the zero of the file's clock.
    from_first: bool
    #: How many complete windows are passed over, and how many are taken then.
    skip: int
    count: int
    #: Seconds in a unit of the time column.
    unit: float
    #: The made stream that takes its place where the file is not.
    stand_in: str


#: The real data sets by name.
REAL = {
    "debs_real": Recipe(
        _DEBS, "ts", ("pickup_cell", "dropoff_cell"), "fare_usd", 1800, 600, True, 1, 2, 1e-6, "debs10k"
    ),
    # The windows of the query in the paper's figure 1, for its figure 2.
    "debs_real_15min": Recipe(
        _DEBS, "ts", ("pickup_cell", "dropoff_cell"), "fare_usd", 900, 300, True, 1, 99, 1e-6, "debs10k"
    ),
    "green_real": Recipe(
        _GREEN, "ts", ("pu_zone", "do_zone"), "fare_usd", 432_000, 144_000, True, 0, 8, 1e-6, "debs100k"
    ),
    "green_pu": Recipe(
        _GREEN, "ts", ("pu_zone",), "fare_usd", 432_000, 144_000, True, 0, 8, 1e-6, "debs_few"
    ),
    "gcm_real": Recipe(
        _GOOGLE, "ts_us", ("sched_class",), "cpu_req", 3600, 1800, False, 0, 8, 1e-6, "gcm"
    ),
    "gcm_real_user": Recipe(
        _GOOGLE, "ts_us", ("user",), "cpu_req", 3600, 1800, False, 0, 8, 1e-6, "gcm_job"
    ),
    "gcm_real_job": Recipe(
        _GOOGLE, "ts_us", ("job",), "cpu_req", 3600, 1800, False, 0, 8, 1e-6, "gcm_job"
    ),
    "bellcore": Recipe(_BELLCORE, "t_s", (), "size_bytes", 45, 15, True, 0, 99, 1.0, "dec"),
}


@dataclass(frozen=True)
class Source:
    """Where windows come from: a made stream, or a file; it travels to other processes."""

    name: str
    file: str | None = None
    #: Whether all complete windows are taken, and not only as many as errors are measured on.
    every: bool = False

    @property
    def made(self) -> bool:
        """Whether the rows are made up."""
        return self.file is None


def source_of(name: str, every: bool = False) -> Source:
    """A data set, or the made stream in its place if its file is not here."""
    if name in STREAMS:
        return Source(name)
    if name not in REAL:
        raise BadArgument(f"no data set {name!r}: one of {', '.join([*REAL, *STREAMS])}")
    path = found_data_file(REAL[name].file)
    return Source(REAL[name].stand_in) if path is None else Source(name, str(path.resolve()), every)


@dataclass(frozen=True)
class StreamRows:
    """The rows of a real source as a stream has them, and the windows that are cut from it."""

    size: float
    slide: float
    #: Seconds since a multiple of the slide, ascending.
    instants: npt.NDArray[np.float64]
    keys: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    starts: tuple[float, ...]


def stream_of(source: Source) -> StreamRows:
    """The rows from the first to the last window of a real source, with time from 0."""
    assert source.file is not None, f"{source.name} is made up window by window"
    recipe = REAL[source.name]
    instants, keys, values = _read(recipe, Path(source.file))
    offset = float(instants[0]) if recipe.from_first else 0.0
    cuts = TimeWindows(recipe.size, recipe.slide, offset).slices(instants)
    spans = [span for span, _ in itertools.islice(cuts, recipe.skip, recipe.skip + recipe.count)]
    zero = spans[0].start
    low, high = np.searchsorted(instants, (zero, spans[-1].end))
    _, codes = np.unique(keys[low:high], return_inverse=True)
    return StreamRows(
        recipe.size, recipe.slide, instants[low:high] - zero, codes.astype(np.int64), values[low:high],
        tuple(span.start - zero for span in spans),
    )  # fmt: skip


@lru_cache(maxsize=4)
def windows_of(source: Source) -> tuple[WindowRows, ...]:
    """The windows of a source, in order."""
    if source.file is None:
        return made_windows(source.name, _MADE_SCALAR if source.name == "dec" else _MADE)
    recipe = REAL[source.name]
    instants, keys, values = _read(recipe, Path(source.file))
    offset = float(instants[0]) if recipe.from_first else 0.0
    cuts = TimeWindows(recipe.size, recipe.slide, offset).slices(instants)
    last = None if source.every else recipe.skip + recipe.count
    chosen = itertools.islice(cuts, recipe.skip, last)
    return tuple(WindowRows.of(keys[rows], values[rows]) for _, rows in chosen)


def _read(recipe: Recipe, path: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], Any]:
    """Instants in seconds, groups as codes, values: of rows that have a group and a value above 0."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=[recipe.time, *recipe.keys, recipe.value]).combine_chunks()
    times = table.column(recipe.time)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.int64())
    instants = times.to_numpy().astype(np.float64) * recipe.unit
    values = table.column(recipe.value).to_numpy().astype(np.float64)
    there = values > 0
    keys = np.zeros(len(values), np.int64)
    for name in recipe.keys:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
        there &= codes >= 0
        keys = keys * len(encoded.dictionary) + codes
    return instants[there], keys[there], values[there]
