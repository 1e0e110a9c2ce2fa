"""The rides that concept-driven shedding is measured on: made with a seed, written as Parquet."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate_lab.figures.cod.streams import GroupLaw

__all__ = ["BEGIN_S", "PANE_S", "SCHEMA", "SLIDE", "WINDOW", "Trips"]

#: The windows of the paper's taxi query, and the pane that both are made of.
WINDOW, SLIDE, PANE_S = "30 minutes", "10 minutes", 600
#: When the first ride ends, in seconds since 1970: at the beginning of a pane.
BEGIN_S = 1_700_000_400
#: As Spark writes it.
SCHEMA = "dropoff timestamp, route string, fare double, id bigint"
_ROW_GROUP = 100_000


@dataclass(frozen=True)
class Trips:
    """Rides of so many panes; the law says how many a window has, of which routes, with which fares."""

    law: GroupLaw
    panes: int
    seed: int = 1

    @property
    def rows(self) -> int:
        """The number of all rides."""
        return self.panes * (self.law.rows // self.law.panes)

    @property
    def complete(self) -> tuple[int, int]:
        """The first and the last start of a window whose panes are all there, in seconds since 1970."""
        last = BEGIN_S + (self.panes - self.law.panes) * PANE_S
        return BEGIN_S, last

    def table(self) -> pa.Table:
        """The rides, in the order in which they end."""
        rng = np.random.default_rng(self.seed)
        pane, parts = self.law.stream(rng), []
        names = pa.array([f"r{route}" for route in range(self.law.groups)])
        for number in range(self.panes):
            routes, fares = pane()
            micros = np.sort(rng.integers(0, PANE_S * 1_000_000, len(routes)))
            parts.append((micros + (BEGIN_S + number * PANE_S) * 1_000_000, routes, fares))
        instants, routes, fares = (np.concatenate(column) for column in zip(*parts, strict=True))
        return pa.table(
            {
                "dropoff": pa.array(instants, pa.timestamp("us", "UTC")),
                "route": names.take(pa.array(routes)),
                "fare": fares,
                "id": np.arange(len(routes)),
            }
        )

    def write(self, folder: Path, files: int = 1) -> Path:
        """Into so many files of equal length, in order; gives the folder back."""
        folder.mkdir(parents=True)
        table = self.table()
        edges = np.linspace(0, len(table), files + 1).astype(int).tolist()
        for number, (low, high) in enumerate(itertools.pairwise(edges)):
            part = folder / f"rides-{number:03d}.parquet"
            pq.write_table(table.slice(low, high - low), part, row_group_size=_ROW_GROUP)
        return folder
