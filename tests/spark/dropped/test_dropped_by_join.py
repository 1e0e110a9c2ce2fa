"""Rows that a join leaves out are set aside: exactly those, side by side, whatever Spark runs again.

And what it runs again has the same rows left out: the plan was pinned, and coins are of the rows.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.core.row_budget import RowBudget
from headgate.spark.loop.loop import ControlLoop
from tests.harness.late_worker import run_stateful
from tests.spark.conftest import records
from tests.spark.join.test_join import Streams, _brute, _pairs, state_store
from tests.spark.join.test_join_rows import _let_fit

__all__ = ["state_store"]  # the fixture: these joins need RocksDB, too


def test_a_batch_that_runs_again_keeps_the_same_rows_and_the_others_are_set_aside_once(
    file_stream, spark, control: Path, tmp_path: Path, monkeypatch
) -> None:
    streams = Streams(file_stream)
    for batch in range(2):
        streams.add(200, 10.0 * batch, 10.0 * (batch + 1))
    aside, checkpoint = tmp_path / "aside", tmp_path / "cp"
    found: dict[int, list[list[tuple[int, int]]]] = {}

    def run() -> None:
        left, right = streams.frames()
        joined = hg.join(left, right, on=hg.equal("topic"), within="20 seconds", time="at",
                         hold="2 seconds", control=control, dropped=aside)  # fmt: skip

        def keep(frame: Any, number: int) -> None:
            found.setdefault(number, []).append(_pairs(frame.collect()))
            if number == 1 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                raise RuntimeError("the sink is gone")

        writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
        try:
            run_stateful(writer.option("checkpointLocation", str(checkpoint)).start, checkpoint)
        finally:
            ControlLoop.of(spark).drain()  # what is set aside counts once its batch is in the books

    _let_fit(monkeypatch, RowBudget(2.0, min_keep=0.4, max_keep=0.4))
    with pytest.raises(Exception, match="the sink is gone"):
        run()
    assert 1 not in {r._batch for r in hg.dropped(spark, aside, "join", side="left").collect()}
    _let_fit(monkeypatch, RowBudget(2.0, min_keep=0.1, max_keep=0.1))  # a new plan would keep others
    run()
    assert [len(found[number]) for number in (0, 1)] == [1, 2]
    first, again = found[1]
    assert first == again != []
    sides = [hg.dropped(spark, aside, "join", side=side).collect() for side in ("left", "right")]
    for rows, given in zip(sides, streams.rows, strict=True):
        ids = Counter(r.id for r in rows)
        assert max(ids.values()) == 1
        kept = {row["id"] for row in given} - set(ids)
        assert len(kept) + len(rows) == len(given), "of this side's rows, and no others"
        assert {r._reason for r in rows} == {"left_out"}
        whole = {row["id"]: row for row in given}
        assert all((r.topic, sorted(r["items"])) == _of(whole[r.id]) for r in rows)
    matched = [pair for pairs in found.values() for pair in pairs[-1]]
    everything = _brute(*streams.rows, lambda a, b: a["topic"] == b["topic"], (20.0, 20.0))
    assert len(matched) == pytest.approx(0.16 * len(everything), rel=0.35)
    for side, rows in enumerate(sides):
        assert not {r.id for r in rows} & {pair[side] for pair in matched}, "no dropped row was joined"
    for record in records(control, "join"):
        counted = sum(r._batch == record.batch for rows in sides for r in rows)
        assert counted == record.found.measures["rows_shed"]
        assert record.found.measures["rows_kept"] == 400 - counted
    assert sum(map(len, sides)) == pytest.approx(2 * 240, rel=0.2)


def _of(row: dict[str, Any]) -> tuple[Any, list[Any]]:
    return row["topic"], sorted(row["items"])


def test_a_join_without_a_control_folder_sets_nothing_aside(file_stream, tmp_path: Path) -> None:
    left, right = Streams(file_stream).frames()
    with pytest.raises(hg.BadArgument, match="needs control="):
        hg.join(left, right, on=hg.equal("topic"), within="20 seconds", time="at", hold="2 seconds",
                dropped=tmp_path / "aside")  # fmt: skip
