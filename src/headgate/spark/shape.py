"""`GateShape`: what decides a row's fate besides the plan; kept in the control folder for a backfill."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.plan import Plan, threshold
from headgate.spark.identity import group_key, row_hash
from headgate.store.folder import read_json, write_json

__all__ = ["THRESHOLD", "GateShape", "by_class", "quoted"]

#: Scratch column: the row's threshold if it is kept, null if it is shed.
THRESHOLD = "_headgate_threshold"
_KEY = "_headgate_key"
_LIMIT = "_headgate_limit"


def quoted(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")


def by_class(classes: list[Column], default: Column, limits: list[Column]) -> Column:
    """The limit of the first class that a row is in, else the default."""
    limit = default
    for matches, value in reversed(list(zip(classes, limits, strict=True))):
        limit = F.when(matches, value).otherwise(limit)
    return limit


@dataclass(frozen=True)
class GateShape:
    """The columns of a row's identity, the seed, and how rows fall into groups."""

    identity: tuple[str, ...]
    seed: int
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def save(self, control: Path, gate: str) -> None:
        """Keep it beside the gate's plans."""
        write_json(control / "gates" / gate / "shape.json", asdict(self))

    @classmethod
    def load(cls, control: Path, gate: str) -> GateShape:
        """What the gate's call kept."""
        value: dict[str, Any] | None = read_json(control / "gates" / gate / "shape.json")
        if value is None:
            raise BadArgument(
                f"no gate {gate!r} has used the control folder {str(control)!r}: give the folder "
                "and the name that the query ran with"
            )
        return cls(
            identity=tuple(value["identity"]),
            seed=int(value["seed"]),
            columns=tuple(value["columns"]),
            classes=tuple(value["classes"]),
        )

    def class_columns(self) -> list[Column]:
        """A row's membership in each class; unknown (null) is no."""
        return [F.coalesce(F.expr(predicate), F.lit(False)) for predicate in self.classes]

    def hashed(self, frame: DataFrame) -> Column:
        """The row's 62-bit hash."""
        return row_hash(frame, self.identity, self.seed)

    def decided(self, spark: SparkSession, frame: DataFrame, plan: Plan) -> DataFrame:
        """The frame with `THRESHOLD`, under one plan known now: null where the row is shed."""
        default, exceptions = plan.thresholds()
        limit = F.lit(default)
        hashed = self.hashed(frame)
        if self.classes:
            limits = [F.lit(threshold(plan.rate_of(i + 1))) for i in range(len(self.classes))]
            limit = by_class(self.class_columns(), limit, limits)
        elif self.columns and exceptions:
            rows = spark.createDataFrame(list(exceptions.items()), f"{_KEY} bigint, {_LIMIT} bigint")
            frame = frame.withColumn(_KEY, group_key(frame, self.columns))
            frame = frame.join(F.broadcast(rows), _KEY, "left").drop(_KEY)
            limit = F.coalesce(F.col(_LIMIT), limit)
        decided = frame.withColumn(THRESHOLD, F.when(hashed < limit, limit))
        return decided.drop(_LIMIT)
