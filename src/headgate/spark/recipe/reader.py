"""A reader of a gate's batches, made of its recipe: no code of the query's is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument
from headgate.spark.backfill.offsets import BatchOffsets, file_rows, kafka_rows
from headgate.spark.recipe.options import FILES, only_known
from headgate.spark.recipe.rate_rows import micro_batch_rows, rate_rows
from headgate.spark.recipe.recipe import SETTINGS, Recipe, setting
from headgate.spark.recipe.steps import follow
from headgate.spark.tables.delta import delta_rows
from headgate.spark.tables.iceberg import iceberg_rows

__all__ = ["reader_of"]

Prepare = Callable[[DataFrame], DataFrame]
_SERVERS = "kafka.bootstrap.servers"


def reader_of(
    spark: SparkSession,
    gate: str,
    recipe: Recipe,
    *,
    prepare: Prepare | None = None,
    options: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader that follows the recipe; `prepare` goes before its steps, `options` before its own."""
    given = {name.lower(): str(value) for name, value in (options or {}).items()}
    _require_asked(gate, recipe, given)
    if prepare is None and recipe.unknown:
        raise BadArgument(
            f"gate {gate!r}: what its query does between the source and the gate could not be noted, "
            f"since {recipe.unknown}: give prepare=, a function that does the same to a DataFrame of "
            f"the source ({recipe.source})"
        )
    if prepare is None and recipe.steps:
        _require_settings(spark, gate, recipe)

    def made(frame: DataFrame) -> DataFrame:
        done = prepare(frame) if prepare is not None else follow(frame, recipe.steps, gate)
        _require_columns(gate, recipe, done)
        return done

    return _reader(spark, gate, recipe, {**recipe.options, **given}, made, checkpoint, source)


def _require_asked(gate: str, recipe: Recipe, given: Mapping[str, str]) -> None:
    missing = [name for name in recipe.asked if name not in given]
    # Who brings a password says whom it is for: a server's name in the store is anybody's who writes
    # there.
    secret = recipe.asked or only_known("kafka", given)
    if recipe.source == "kafka" and secret and _SERVERS not in given:
        missing.append(_SERVERS)
    if missing:
        raise BadArgument(
            f"gate {gate!r}: its stream had options that are not kept in the control store, as they may "
            f"be secrets: give options= with {', '.join(missing)}"
        )


def _require_settings(spark: SparkSession, gate: str, recipe: Recipe) -> None:
    for name in SETTINGS:
        then, now = recipe.settings.get(name, ""), setting(spark, name)
        if then != now:
            raise BadArgument(
                f"gate {gate!r}: its query ran with {name}={then!r}, and this session has {now!r}, with "
                f"which the same steps make other rows: spark.conf.set({name!r}, {then!r}) first"
            )


def _require_columns(gate: str, recipe: Recipe, frame: DataFrame) -> None:
    here = tuple((one.name, one.dataType.simpleString()) for one in frame.schema.fields)
    if recipe.columns and here != recipe.columns:
        raise BadArgument(
            f"gate {gate!r}: the rows that are read again have the columns {_said(here)}, and the gate "
            f"had {_said(recipe.columns)}: give prepare=, what your query does between the source and "
            "the gate"
        )


def _said(columns: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def _reader(
    spark: SparkSession,
    gate: str,
    recipe: Recipe,
    options: dict[str, str],
    made: Prepare,
    checkpoint: str | None,
    source: int,
) -> Callable[[BatchOffsets], DataFrame]:
    kind = recipe.source
    if kind == "kafka":
        return kafka_rows(spark, options, made, checkpoint=checkpoint, source=source)
    if kind == "delta":
        path = recipe.table or options.get("path", "")
        if "/" not in path:  # a name would go into a statement
            raise BadArgument(
                f"gate {gate!r}: its recipe has no path of a Delta table: give hg.repay rows="
            )
        return delta_rows(spark, path, options, made, source=source)
    if kind == "iceberg":
        table = recipe.table or options.get("path", "")
        return iceberg_rows(spark, table, made, checkpoint=checkpoint, source=source)
    if kind == "rate-micro-batch":
        return micro_batch_rows(spark, options, made, source=source)
    if checkpoint is None:
        raise BadArgument(
            f"gate {gate!r} reads {kind}: which rows a batch had is in the query's checkpoint, which is "
            "not known here: give checkpoint="
        )
    if kind in FILES:
        return file_rows(_loader(spark, recipe, options), checkpoint, made, source=source)
    return rate_rows(spark, options, checkpoint, made, source=source)


#: What chooses files, which a batch's log has done already.
_CHOOSING = ("path", "pathglobfilter", "recursivefilelookup")


def _loader(
    spark: SparkSession, recipe: Recipe, options: Mapping[str, str]
) -> Callable[[list[str]], DataFrame]:
    path: Any = options.get("path")
    own = {name: value for name, value in options.items() if name not in _CHOOSING}
    schema = recipe.read_schema()
    has_parts = path is not None and not set("*?{[") & set(path)

    def load(paths: list[str]) -> DataFrame:
        reader = spark.read.format(recipe.source).schema(schema).options(**own)
        if has_parts:  # columns that are in the names of folders
            reader = reader.option("basePath", path)
        return reader.load(paths)

    return load
