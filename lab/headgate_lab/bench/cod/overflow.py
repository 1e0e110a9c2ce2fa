"""More groups than budget: taxi routes behind the shipped gate, under each rule of who yields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate_lab.figures.cod.data import source_of, windows_of
from headgate_lab.papers.cod import OVERFLOWS, aggregate, relative_error

__all__ = ["Overflow", "overflows", "windowed"]


@dataclass(frozen=True)
class Overflow:
    """What became of the routes when only so many rows were asked for."""

    data: str
    overflow: str
    asked: float
    #: One row of each group: the least share without which groups go missing.
    floor: float
    kept: float
    groups: int
    #: Groups of a window without a row.
    yielded: int
    #: Average relative error of the groups' means; 1 for those that yielded.
    error: float


def windowed(spark: SparkSession, data: str) -> DataFrame:
    """All windows of a data set: `window, route, value, id`."""
    parts = [
        (np.full(rows.rows, number), rows.keys[rows.codes], rows.values)
        for number, rows in enumerate(windows_of(source_of(data)))
    ]
    window, route, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    columns = {"window": window, "route": route, "value": value, "id": np.arange(len(value))}
    return spark.createDataFrame(pa.table(columns))


def overflows(spark: SparkSession, data: str = "debs_real", asked: float = 0.02) -> list[Overflow]:
    """Each rule in turn, on the same rows."""
    frame, found = windowed(spark, data), []
    whole = frame.toArrow()
    strata, codes = _strata(whole)
    values = whole["value"].to_numpy()
    exact = aggregate("mean", codes, values, len(strata))
    for overflow in OVERFLOWS:
        policy = hg.ConceptDriven(by=("window", "route"), overflow=overflow)
        kept = frame.transform(hg.gate("routes", rate=asked, identity="id", policy=policy)).toArrow()
        rows = kept["id"].to_numpy()
        guess = aggregate("mean", codes[rows], values[rows], len(strata))
        found.append(
            Overflow(
                source_of(data).name,
                overflow,
                asked,
                floor=len(strata) / len(codes),
                kept=len(rows) / len(codes),
                groups=len(strata),
                yielded=int(np.isnan(guess).sum()),
                error=relative_error(exact, guess),
            )
        )
    return found


def _strata(whole: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The groups of every window, and the number of each row's."""
    window, route = whole["window"].to_numpy(), whole["route"].to_numpy()
    strata, codes = np.unique(window * (int(route.max()) + 1) + route, return_inverse=True)
    order = np.empty_like(codes)
    order[whole["id"].to_numpy()] = codes  # rows by their id, however Spark hands them out
    return strata, order
