"""The queries that a soak of kills runs: a gate, a filter by hand, a guard, a join and a site's gate.

Each takes one file a batch; after a kill Spark may hand out two in one, as the source's own log can be
ahead of the query's. A gate and a site's gate promise most: the same rows again, and the others later.
A guard follows the clock, and promises that its books balance. A join promises the same comparisons
again.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.guards.targets import average
from headgate.joins.conditions import overlap
from headgate.spark.backfill.offsets import file_rows
from headgate.spark.gate.call import gate
from headgate.spark.guard.call import guard
from headgate.spark.join.call import join
from headgate.spark.sites.site import Site

__all__ = ["JOBS", "PAIR", "ROWS", "add_input", "left_out_reader", "matching_pairs", "stream"]

#: Rows of a file, and of a file of either side of the join.
ROWS, _PAIR_ROWS = 400, 60
#: What makes a pair: items that both have, and seconds between them at most.
_SHARED, _WITHIN_S = 2, 30
#: A pair of ids as one number.
PAIR = 10**9
_SCHEMA = "id bigint, kind bigint, at timestamp"
_PAIR_SCHEMA = "id bigint, at timestamp, items array<bigint>"
_EPOCH_S = 1_900_000_000


def stream(spark: SparkSession, folder: Path, files: int, side: str = "in") -> DataFrame:
    """So many files a batch."""
    schema = _SCHEMA if side == "in" else _PAIR_SCHEMA
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.json(str(folder / side))


def left_out_reader(spark: SparkSession, folder: Path, checkpoint: Path) -> Any:
    """The files of a batch again, for a recount."""
    return file_rows(lambda paths: spark.read.schema(_SCHEMA).json(paths), checkpoint)


def _gate(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    return stream(spark, folder, files).transform(
        gate("gate", rate=0.5, identity="id", control=folder / "control")
    )


def _by_hand(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    return stream(spark, folder, files).where(F.rand(7) < 0.5)


def _guard(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    return guard(
        stream(spark, folder, files), lambda row: {"id": row.id}, schema="id bigint", key="kind",
        arrival="at", target=average("1000000 hours"), policy=0.2, name="guard",
        control=folder / "control",
    )  # fmt: skip


def _join(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    sides = (stream(spark, folder, files, side) for side in ("left", "right"))
    left, right = (side.withWatermark("at", "1 minute") for side in sides)
    pairs = join(
        left, right, on=overlap("items", at_least=_SHARED), within=f"{_WITHIN_S} seconds", time="at",
        budget="50 %", name="join", seed=5, control=folder / "control",
    )  # fmt: skip
    return pairs.select((F.col("id_left") * PAIR + F.col("id_right")).alias("id"))


def _site(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    here = Site(spark, "here", control=folder / "control", hold="2 seconds", rows_per_s=300.0)
    return stream(spark, folder, files).transform(
        here.gate("site", query="all", source="in", identity="id", start=0.5)
    )


#: By name: a query with a column ``id``, of so many files a batch.
JOBS: Mapping[str, Callable[[SparkSession, Path, int], DataFrame]] = {
    "gate": _gate,
    "rand": _by_hand,
    "guard": _guard,
    "join": _join,
    "site": _site,
}


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def matching_pairs(folder: Path) -> list[int]:
    """Every pair that the full join of all files has, the slow and obvious way."""
    sides = [
        [json.loads(line) for path in sorted((folder / side).glob("*.json")) for line in _lines(path)]
        for side in ("left", "right")
    ]
    left, right = ([(r["id"], r["at"], frozenset(r["items"])) for r in rows] for rows in sides)
    found, first = [], 0
    for one, at, items in left:  # both in the order of time
        while first < len(right) and right[first][1] < at - _WITHIN_S:
            first += 1
        for other, when, others in right[first:]:
            if when > at + _WITHIN_S:
                break
            if len(items & others) >= _SHARED:
                found.append(one * PAIR + other)
    return found


def add_input(folder: Path, number: int, seed: int) -> None:
    """File `number` of every source, with a time of its own: Spark takes older files first."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    _write(folder / "in", number, [{"id": i, "kind": i % 7, "at": _EPOCH_S + number} for i in ids])
    luck = random.Random(f"{seed}/{number}")
    for side in ("left", "right"):
        rows = [
            {
                "id": number * _PAIR_ROWS + i,
                "at": _EPOCH_S + 10 * number + 10 * i // _PAIR_ROWS,
                "items": luck.sample(range(40), 6),
            }
            for i in range(_PAIR_ROWS)
        ]
        _write(folder / side, number, rows)


def _write(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:06d}.json"
    part = folder / f".{path.name}.part"
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(part, (_EPOCH_S / 2 + number, _EPOCH_S / 2 + number))
    part.rename(path)
