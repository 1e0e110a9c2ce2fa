"""`dropped`: exactly the rows that a guard or a join dropped, read from where it set them aside."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from headgate.errors import BadArgument, ControlFolderError
from headgate.spark.calls import explained
from headgate.spark.session import check_session  # first: it says which extra is missing
from headgate.store.folder import check_gate_name, folders_in
from headgate.store.places.place import control_place

# isort: split
from pyspark.sql import DataFrame, SparkSession

from headgate.spark.dropped.lists import DroppedLists
from headgate.spark.dropped.writing import BATCH, QUERY, REASON

__all__ = ["dropped", "dropped_folder"]

log = logging.getLogger("headgate")

_SIDES = {None: "row", "left": "left", "right": "right"}


def dropped_folder(folder: str | os.PathLike[str], name: str) -> str:
    """Where the rows of a guard or join of this name go: a folder with the name, in the one given."""
    given = os.fspath(folder)
    try:
        place = control_place(given)
    except ControlFolderError:
        place = None
    if not isinstance(place, Path):
        raise BadArgument(
            f"dropped={given!r}: give a folder that the driver and all executors share (NFS, a mounted "
            "volume); what hg.dropped reads there can be written to an object store or a topic "
            "(docs/guard.md)"
        )
    return str(place / check_gate_name(name))


@explained('hg.dropped(spark, "/shared/dropped", "enrich")')
def dropped(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    name: str,
    *,
    side: str | None = None,
    query: str | None = None,
    first: int | None = None,
    last: int | None = None,
) -> DataFrame:
    """Rows that the guard or join `name` dropped into `folder` (``dropped=`` of its call), each once.

    side: of a join, ``"left"`` or ``"right"``.
    query: the id of one query; by default of all that ran with it.
    first, last: from this batch to that one.

    Each row has its own columns, ``_reason`` (why it was dropped, as the ledger counts it), ``_batch``
    and ``_query``. Where nothing was dropped, the frame is empty and has these three columns alone.
    Batches that run now are not in it.
    """
    check_session(spark)
    if side not in _SIDES:
        raise BadArgument(f"side={side!r}: of a join 'left' or 'right', of a guard None")
    for given, value in (("first", first), ("last", last)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise BadArgument(f"{given}={value!r}: give the number of a batch, 0 or more")
    place = Path(dropped_folder(folder, name))
    known = folders_in(place)
    if not place.is_dir() or (query is not None and query not in known):
        raise BadArgument(
            f"{name!r} has dropped nothing into {os.fspath(folder)!r}"
            + (f" in query {query!r}; queries there: {', '.join(known) or 'none'}" if query else "")
            + ": give the folder that its call was given as dropped="
        )
    paths = [
        path
        for one in ([query] if query else known)
        for path in _paths(str(place), one, _SIDES[side], first, last)
    ]
    if not paths:
        return spark.createDataFrame([], f"{REASON} string, {BATCH} bigint, {QUERY} string")
    return spark.read.option("mergeSchema", "true").parquet(*paths)


def _paths(folder: str, query: str, side: str, first: int | None, last: int | None) -> Iterator[str]:
    lists = DroppedLists(folder, query)
    lost = lists.unlisted()
    if lost:
        log.warning(
            "%s: which rows batches %s of query %s dropped is not known: their report was lost in a "
            "kill; headgate ledger verify says so, too",
            folder, ", ".join(map(str, lost[:10])), query,
        )  # fmt: skip
    for one in lists.read(first, last):
        for name in one.of_side(side):
            yield (Path(lists.rows_of(one.batch)) / name).as_uri()  # type: ignore[arg-type]
