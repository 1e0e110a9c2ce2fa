"""The strata of a concept-driven gate as Spark sees them: which one a row is in, and how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType, StructType

from headgate.errors import BadArgument
from headgate.policies.by_group.accuracy import Accuracy
from headgate.policies.by_group.allocation import OVERFLOWS
from headgate.policies.by_group.concept_driven import DRAWS
from headgate.policies.by_group.key_filter import BITS
from headgate.policies.by_group.level import LEVEL_RULES
from headgate.policies.drawing import Drawing
from headgate.spark.gate.identity import group_key, require_columns, require_timestamp, row_hash
from headgate.spark.groups.task import RETURNS, Known, Pinned, Sampling, weigher
from headgate.spark.versions.arrow import arrow_function

if TYPE_CHECKING:
    from headgate.policies.drawing import Quotas

__all__ = ["STRATUM", "DRAWN", "StrataShape"]

#: Scratch columns: a row's stratum, and its weight with what its task reports.
STRATUM = "_headgate_stratum"
DRAWN = "_headgate_drawn"
_STRATUM_SEED = 0x63656C6C
#: Characters of a group's name that reports and the ledger show.
_LABEL = 200


@dataclass(frozen=True)
class StrataShape:
    """What decides a row's fate besides its plan and its batch; kept with the gate's shape."""

    by: tuple[str, ...]
    rule: str
    least: int
    overflow: str
    draw: str = "fixed"
    time: str | None = None
    pane_us: int = 0
    window_us: int = 0
    value: str | None = None
    #: of, within, confidence, least_rows
    accuracy: tuple[str, float, float, int] | None = None
    #: Whether groups that the other stream of a join does not have keep the least.
    meeting: bool = False
    #: Partitions over which groups are brought together; 0: rows are counted where they are.
    partitions: int = 0
    #: Whether a batch frame was drawn from in two passes (`headgate.spark.groups.two_passes`).
    passes: bool = False
    #: Whether there is no control folder, and so no level: each task finds one for its own rows.
    alone: bool = False

    #: A rule of one's own (`Drawing.quotas`); code, so it is in no file.
    quotas: Quotas | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, drawing: Drawing, partitions: int, passes: bool, alone: bool) -> StrataShape:
        """The shape that a policy asks for, if it can be had."""
        _check(drawing)
        return cls(
            by=drawing.by,
            rule=drawing.rule,
            least=drawing.least,
            overflow=drawing.overflow,
            draw=drawing.draw,
            time=drawing.time,
            pane_us=drawing.pane_us,
            window_us=drawing.window_us,
            value=drawing.value,
            accuracy=drawing.accuracy,
            meeting=drawing.meeting,
            partitions=partitions if drawing.whole and not (passes or alone) else 0,
            passes=passes,
            alone=alone,
            quotas=drawing.quotas,
        )

    def to_json(self) -> dict[str, Any]:
        """All of it but code."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "quotas"}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StrataShape:
        """The shape that `to_json` wrote; code is not in it."""
        if "quotas" in value:
            raise ValueError("a rule of one's own is code, and in no file")
        wish = value["accuracy"]
        fixed = {"by": tuple(value["by"]), "accuracy": None if wish is None else tuple(wish)}
        return cls(**{**value, **fixed})

    def check(self, frame: DataFrame) -> None:
        """Refuse columns that are not there or cannot serve."""
        group_key(frame, self.by)
        if self.time is not None:
            require_timestamp(frame, self.time, "time")
        if self.value is not None:
            argument = "value" if self.accuracy is None else "accuracy.of"
            (kind,) = require_columns(frame, [self.value], argument)
            if not isinstance(kind, NumericType):
                raise BadArgument(
                    f"{argument}={self.value!r} is a {kind.simpleString()}, not a number: a mean and "
                    "its error need a numeric column"
                )

    def key(self, frame: DataFrame) -> Column:
        """The key of a row's stratum: its group and its pane.

        Spark's hash passes over nulls, so with several columns it also gets which of them are null.
        """
        kinds = require_columns(frame, self.by, "by")
        if any(isinstance(kind, ArrayType | StructType) for kind in kinds):
            whole = F.struct(*[F.col(name).alias(f"c{i}") for i, name in enumerate(self.by)])
            parts = [F.to_json(whole, {"ignoreNullFields": "false"})]
        else:
            parts = [F.col(name) for name in self.by]
            parts += [F.col(name).isNull() for name in self.by] if len(self.by) > 1 else []
        if self.pane_us:
            parts.append(self.pane())
        return F.xxhash64(F.lit(_STRATUM_SEED), *parts)

    def pane(self) -> Column:
        """The start of a row's pane; a row without a time is in one of its own."""
        return self.micros() - F.pmod(self.micros(), F.lit(self.pane_us))

    def label(self) -> Column:
        """A row's group as people read it: its first characters, as a value may be a megabyte long."""
        parts = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in self.by]
        return F.substring(F.concat_ws(" | ", *parts), 1, _LABEL)

    def bit(self) -> Column:
        """The number of a row's group in a `KeyFilter`; of equal values in both streams' types."""
        known = F.lit(True)
        for name in self.by:
            known &= F.col(name).isNotNull()
        texts = [F.col(name).cast("string") for name in self.by]
        bit = F.pmod(F.xxhash64(F.lit(_STRATUM_SEED), *texts), F.lit(BITS))
        return F.when(known, bit).otherwise(F.lit(-1))

    def seen(self) -> list[Column]:
        """What must be known of a batch: how far its time is, and in front of a join its groups."""
        if not self.meeting:
            return [F.max(self.micros()).alias("latest")] if self.accuracy and self.pane_us else []
        return [
            F.call_function("bitmap_construct_agg", F.nullif(self.bit(), F.lit(-1))).alias("present"),
            F.max(self.micros()).alias("latest"),
        ]

    def micros(self) -> Column:
        """A row's event time in microseconds."""
        assert self.time is not None
        return F.unix_micros(F.col(self.time))

    def sampling(self, seed: int) -> Sampling:
        """What the workers need to know."""
        return Sampling(
            rule=self.rule,
            least=self.least,
            overflow=self.overflow,
            draw=self.draw,
            seed=seed,
            valued=self.value is not None,
            accuracy=None if self.accuracy is None else Accuracy(*self.accuracy),
            pane_us=self.pane_us,
            window_us=self.window_us,
            meeting=self.meeting,
            alone=self.alone,
            quotas=self.quotas,
        )

    def drawn(
        self, frame: DataFrame, identity: tuple[str, ...], seed: int, plans: Known | Pinned
    ) -> DataFrame:
        """The frame with `DRAWN`: each row's weight (0: shed) and, on some rows, a task's report."""
        sampling = self.sampling(seed)
        hashed = row_hash(frame, identity, seed)
        frame = frame.withColumn(STRATUM, self.key(frame))
        if self.partitions:
            frame = frame.repartition(self.partitions, STRATUM)
        inputs = [F.col(STRATUM), hashed]
        if sampling.valued:
            assert self.value is not None
            inputs.append(F.col(self.value).cast("double"))
        if sampling.meeting:
            inputs.append(self.bit())
        weigh = arrow_function(frame.sparkSession, weigher(sampling, plans), RETURNS)
        return frame.withColumn(DRAWN, weigh(*inputs)).drop(STRATUM)


def _check(drawing: Drawing) -> None:
    """Refuse at the call what would fail in a worker, or mean something else there."""
    own, name = drawing.quotas is not None, drawing.rule
    if own == (name in LEVEL_RULES):
        wrong = "is the name of a rule that is there already" if own else "needs quotas=, its function"
        raise BadArgument(
            f"drawing.rule={name!r} {wrong}: give one of {', '.join(LEVEL_RULES)} alone, or a name and "
            "quotas= of your own"
        )
    for what, given, legal in (
        ("draw", drawing.draw, DRAWS), ("overflow", drawing.overflow, OVERFLOWS),
    ):  # fmt: skip
        if given not in legal:
            raise BadArgument(f"drawing.{what}={given!r} is not one of {', '.join(map(repr, legal))}")
    if drawing.pane_us and drawing.time is None:
        raise BadArgument("drawing.pane_us= needs time=, the timestamp column that panes are cut by")
    if own and (drawing.overflow != "exceed" or drawing.accuracy is not None or drawing.meeting):
        raise BadArgument(
            "drawing.quotas= says how many rows of each group to keep: leave overflow=, accuracy= and "
            "meeting= out"
        )
