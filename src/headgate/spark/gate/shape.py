"""`GateShape`: what decides a row's fate besides the plan; kept in the control folder for a backfill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.core.plan import Plan, threshold
from headgate.errors import BadArgument, SnapshotError
from headgate.policies import Policy
from headgate.spark.gate.identity import group_key, row_hash
from headgate.spark.gate.predicates import trusted
from headgate.spark.gate.weights import WEIGHT
from headgate.spark.groups.strata import DRAWN, StrataShape
from headgate.spark.groups.task import Known
from headgate.spark.groups.two_passes import SCRATCH_OF_PASSES, TwoPasses
from headgate.store.folder import read_json, write_json
from headgate.store.gate_files.shape_files import shape_path
from headgate.store.places.place import Place

__all__ = ["SCRATCH", "THRESHOLD", "WEIGHT", "GateShape", "Limits", "quoted", "quoted_name"]

#: Scratch column: the row is kept if its hash is below this.
THRESHOLD = "_headgate_threshold"
#: Columns that judging adds.
SCRATCH = (THRESHOLD, DRAWN, *SCRATCH_OF_PASSES)
_KEY = "_headgate_key"
_LIMIT = "_headgate_limit"


def quoted_name(name: str) -> str:
    """How SQL writes exactly this name, dots and all."""
    return f"`{name.replace('`', '``')}`"


def quoted(name: str) -> Column:
    """The column of exactly this name."""
    return F.col(quoted_name(name))


@dataclass(frozen=True)
class Limits:
    """A plan's thresholds as Spark sees them: known now (literals), or read by each batch."""

    default: Column
    #: One for each value class.
    classes: list[Column]
    #: `k, t`: the thresholds of groups by column; None where there are none.
    exceptions: DataFrame | None


@dataclass(frozen=True)
class GateShape:
    """The columns of a row's identity, the seed, and how rows fall into groups."""

    identity: tuple[str, ...]
    seed: int
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    #: How rows are drawn by their own batch's groups; None where a plan decides alone.
    strata: StrataShape | None = None

    def _json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"identity": self.identity, "seed": self.seed}
        value |= {"columns": self.columns, "classes": self.classes}
        # Files have called strata so from the first, and a shape's name is the digest of its file.
        return value if self.strata is None else value | {"cells": self.strata.to_json()}

    def drawn_by(self, policy: Policy | None) -> GateShape:
        """The shape with the rule of a policy that draws by its own: that is code, and in no file."""
        drawing = None if policy is None else policy.drawing
        if self.strata is None or drawing is None or drawing.rule != self.strata.rule:
            return self
        return replace(self, strata=replace(self.strata, quotas=drawing.quotas))

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name this shape."""
        text = json.dumps(self._json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def save(self, control: Place, gate: str) -> None:
        """Keep it beside the gate's plans, and beside the shapes that the gate had before."""
        write_json(shape_path(control, gate, self.digest), self._json())

    @classmethod
    def load(
        cls, control: Place, gate: str, digest: str, keep: Sequence[str] | None = None
    ) -> GateShape:
        """The shape that a batch met, if the file is what its name says and its predicates may be run.

        `keep` are the gate's predicates as the caller has them; without them only such are run as are
        harmless on their face.
        """
        value: Any = read_json(shape_path(control, gate, digest))
        if value is None:
            raise BadArgument(
                f"gate {gate!r} has no shape {digest!r} in the control folder {str(control)!r}: "
                "without it nobody can tell which rows were shed; restore the folder's "
                f"gates/{gate}/shapes"
            )
        try:
            shape = cls(
                identity=tuple(str(name) for name in value["identity"]),
                seed=int(value["seed"]),
                columns=tuple(str(name) for name in value["columns"]),
                classes=tuple(str(text) for text in value["classes"]),
                strata=None if value.get("cells") is None else StrataShape.from_json(value["cells"]),
            )
            found = shape.digest
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"gate {gate!r}: what is stored as the shape {digest!r} is no shape ({error!r}): "
                f"restore the folder's gates/{gate}/shapes"
            ) from error
        if found != digest:
            raise SnapshotError(
                f"gate {gate!r}: what is stored as the shape {digest!r} has the digest {found!r}: "
                f"somebody changed it; restore the folder's gates/{gate}/shapes"
            )
        trusted(gate, shape.classes, keep)
        return shape

    def class_columns(self) -> list[Column]:
        """A row's membership in each class; unknown (null) is no."""
        return [F.coalesce(F.expr(predicate), F.lit(False)) for predicate in self.classes]

    def limited(self, frame: DataFrame, limits: Limits) -> DataFrame:
        """The frame with each row's limit as `THRESHOLD`."""
        columns = [quoted(name) for name in frame.columns]
        limit = limits.default
        for matches, of_class in reversed(list(zip(self.class_columns(), limits.classes, strict=True))):
            limit = F.when(matches, of_class).otherwise(limit)
        if limits.exceptions is not None:
            groups = limits.exceptions.withColumnsRenamed({"k": _KEY, "t": _LIMIT})
            frame = frame.withColumn(_KEY, group_key(frame, self.columns))
            frame = frame.join(F.broadcast(groups), _KEY, "left").drop(_KEY)
            limit = F.coalesce(F.col(_LIMIT), limit)
        return frame.select(*columns, limit.alias(THRESHOLD))

    def limited_by(self, spark: SparkSession, frame: DataFrame, plan: Plan) -> DataFrame:
        """`limited`, under one plan that is known now."""
        default, exceptions = plan.thresholds()
        classes = [F.lit(threshold(plan.rate_of(i + 1))) for i in range(len(self.classes))]
        groups = None
        if self.columns and exceptions:
            groups = spark.createDataFrame(list(exceptions.items()), "k bigint, t bigint")
        return self.limited(frame, Limits(F.lit(default), classes, groups))

    def judged(
        self, spark: SparkSession, frame: DataFrame, plan: Plan, batch: int
    ) -> tuple[DataFrame, Column]:
        """The rows of one batch with what judges them beside them, and whether a row is kept.

        The scratch columns are `SCRATCH`; what they hold differs between kinds of gates.
        """
        if self.strata is not None and self.strata.passes:
            passes = TwoPasses(spark, self.strata, self.identity, self.seed, plan, batch)
            return passes.judged(frame)
        if self.strata is not None:
            drawn = self.strata.drawn(frame, self.identity, self.seed, Known(plan, batch))
            return drawn, F.col(DRAWN)["w"] > 0
        limited = self.limited_by(spark, frame, plan)
        return limited, self.passes(limited)

    def passes(self, limited: DataFrame) -> Column:
        """Whether a row of a limited frame is kept: true or false, never null."""
        return row_hash(limited, self.identity, self.seed) < F.col(THRESHOLD)
