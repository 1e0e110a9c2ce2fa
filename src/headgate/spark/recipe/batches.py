"""Which recipe a batch was made by: a query may have been redeployed with another one since."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument
from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.recipe.reader import Prepare, reader_of
from headgate.spark.recipe.recipe import SETTINGS, Recipe
from headgate.store.gate_files.recipes import Followed, followed_in
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.places.place import Place

__all__ = ["recipe_of_batch", "rows_by_recipe", "settings_of"]

_OTHERWISE = "call hg.repay with rows=, a reader of its batches (hg.kafka_rows, hg.file_rows, ...)"


def recipe_of_batch(followed: list[Followed], batch: int) -> Followed | None:
    """What the query followed when it ran this batch."""
    return next((one for one in reversed(followed) if one.after < batch), None)


def rows_by_recipe(
    spark: SparkSession,
    control: Place,
    gate: str,
    query: str,
    *,
    prepare: Prepare | None = None,
    options: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    source: int | None = None,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of batches by the recipes that the gate noted; what is missing is said now, or at a
    batch.
    """
    followed = followed_in(control, gate, query)
    if not followed and Ledger(control, gate, query).last() is None:
        raise BadArgument(
            f"gate {gate!r} of query {query} has no record of a batch yet, so nothing can be repaid: "
            "let one end first"
        )
    if not any(one.recipe for one in followed):
        raise BadArgument(
            f"gate {gate!r} of query {query} has not noted where its rows come from (an earlier version "
            f"ran it, it was built over Connect or in foreachBatch, or its source is unknown): "
            f"{_OTHERWISE}"
        )
    readers: dict[tuple[str, str | None], Callable[[BatchOffsets], DataFrame]] = {}

    def reader(of: Followed | None, batch: int) -> Callable[[BatchOffsets], DataFrame]:
        if of is None or not of.recipe:
            raise BadArgument(f"gate {gate!r}: batch {batch} has no recipe: {_OTHERWISE}")
        where = checkpoint or of.checkpoint
        key = of.recipe, where
        if key not in readers:
            recipe = Recipe.load(control, gate, of.recipe)
            if recipe is None:
                raise BadArgument(f"gate {gate!r}: its recipe {of.recipe} is gone: {_OTHERWISE}")
            readers[key] = reader_of(
                spark, gate, recipe, prepare=prepare, options=options, checkpoint=where,
                source=source or 0,
            )  # fmt: skip
        return readers[key]

    latest = followed[-1]
    if latest.recipe:
        reader(latest, -1)  # what the call must give is said before any work

    def rows(batch: BatchOffsets) -> DataFrame:
        if source is None and len(batch.ends) > 1:
            raise BadArgument(
                f"gate {gate!r}: its query has {len(batch.ends)} sources, and which of them is the "
                "gate's is not noted: give source=, counted from 0 in the order in which the query "
                "reads them"
            )
        return reader(recipe_of_batch(followed, batch.batch), batch.batch)(batch)

    return rows


def settings_of(control: Place, gate: str, query: str | None) -> dict[str, str]:
    """The settings that a session needs to follow the latest recipe; none where nothing is noted."""
    for name in queries_of(control, gate) if query is None else [query]:
        for one in reversed(followed_in(control, gate, name)):
            recipe = Recipe.load(control, gate, one.recipe) if one.recipe else None
            if recipe is not None:
                return {key: value for key in SETTINGS if (value := recipe.settings.get(key))}
    return {}
