"""A guard, a site's gate and a join on Spark, whose control folder misbehaves from batch to batch.

Read-only, full and slow are what the driver meets; the others are done to the files, so that Spark's
workers meet them, too. The same without Spark, and for the gate: `tests/run/test_folder_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from headgate.testing.faults.folders import FOLDER_FAULTS
from headgate_lab.bench.kills.jobs import JOBS, ROWS, add_input, matching_pairs, stream
from tests.harness.late_worker import run_stateful
from tests.harness.session_settings import with_settings
from tests.spark.conftest import forget_last_commit
from tests.spark.join.test_join import JOINS

#: What workers meet, too: a join takes a second of a core for each batch, and its driver does with the
#: others what a guard's and a site's do.
MET_BY_WORKERS = ("away", "gone", "torn")


class Misfortune:
    """A sink that takes a batch twice without harm, and does to the folder what is due before each."""

    def __init__(self, spark: SparkSession, folder: Path, faulty: Mapping[int, str]) -> None:
        self._spark, self._folder, self._faulty = spark, folder, faulty
        self.sunk: dict[int, list[int]] = {}
        self._struck: set[int] = set()
        self._now = ExitStack()

    def run(self, frame: DataFrame) -> None:
        checkpoint = self._folder / "checkpoint"
        writer = frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        try:
            run_stateful(writer.start, checkpoint)
        finally:
            self._end()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self._end()
        if batch in self._faulty and batch not in self._struck:
            self._struck.add(batch)
            self._now.enter_context(FOLDER_FAULTS[self._faulty[batch]](self._folder / "control"))
        self.sunk[batch] = [row.id for row in frame.select("id").collect()]

    def _end(self) -> None:
        """The batch before is in the books, as far as that can be; then its fault is over."""
        ControlLoop.of(self._spark).drain()
        self._now.close()


def _guard(spark: SparkSession, folder: Path, _: ExitStack) -> DataFrame:
    return JOBS["guard"](spark, folder, 1)


def _site(spark: SparkSession, folder: Path, block: ExitStack) -> DataFrame:
    given: dict[str, Any] = {"control": folder / "control", "hold": "2 seconds", "rows_per_s": 300.0}
    here = block.enter_context(hg.Site(spark, "here", **given))
    gate = here.gate("site", query="all", source="in", identity="id", start=0.5)
    return stream(spark, folder, 1).transform(gate)


def _join(spark: SparkSession, folder: Path, block: ExitStack) -> DataFrame:
    block.enter_context(with_settings(spark, JOINS))
    return JOBS["join"](spark, folder, 1)


@pytest.mark.parametrize(
    ("name", "job", "faults"),
    [
        pytest.param("guard", _guard, tuple(FOLDER_FAULTS), id="guard"),
        pytest.param("site", _site, tuple(FOLDER_FAULTS), id="site"),
        pytest.param("join", _join, MET_BY_WORKERS, id="join"),
        pytest.param(
            "join", _join, tuple(FOLDER_FAULTS), marks=pytest.mark.long, id="join, every fault"
        ),
    ],
)
def test_it_goes_on_and_its_books_say_what_they_do_not_know(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    job: Callable[..., DataFrame],
    faults: tuple[str, ...],
) -> None:
    """Two good batches, one of each fault, and two more."""
    faulty = {2 + n: fault for n, fault in enumerate(faults)}
    batches, gone = len(faulty) + 4, next(batch for batch, fault in faulty.items() if fault == "gone")
    for number in range(batches):
        add_input(tmp_path, number, seed=1)
    one, control = Misfortune(spark, tmp_path, faulty), tmp_path / "control"
    with ExitStack() as block:
        one.run(job(spark, tmp_path, block))
    assert sorted(one.sunk) == list(range(batches)), "every batch, and none of them failed"

    there = [row for rows in one.sunk.values() for row in rows]
    legal = set(matching_pairs(tmp_path) if name == "join" else range(batches * ROWS))
    assert len(there) == len(set(there)), "no row twice"
    assert set(there) <= legal, "and none that is wrong"
    assert 0 < len(there) < len(legal)

    (books,) = audit(control, name)
    assert books.consistent, books.to_json()
    written = Ledger(control, name, books.query).records()
    lost = set(range(batches)) - set(written)
    assert lost <= set(range(gone + 1)), "what was deleted is gone, and what came since is there"
    for batch, record in written.items():
        assert record.balanced
        kept = record.found.measures["pairs"] if name == "join" else record.kept
        assert kept == len(one.sunk[batch]), (batch, record)
    assert books.deleted == [(0, max(lost))], "and the audit says so"
    assert books.verdict == "missing"

    # A guard follows the clock; of a join, `tests/spark/join/test_join.py` runs a batch again, too.
    if name == "site" or (name == "join" and len(faults) == len(FOLDER_FAULTS)):
        batch = forget_last_commit(tmp_path / "checkpoint")
        before = one.sunk[batch]
        with ExitStack() as block:
            one.run(job(spark, tmp_path, block))
        assert sorted(one.sunk[batch]) == sorted(before) != [], "the same rows again"
