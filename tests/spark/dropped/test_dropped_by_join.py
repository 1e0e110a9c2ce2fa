"""Rows that a join leaves out are set aside: exactly those, side by side, whatever Spark runs again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.core.row_budget import RowBudget
from tests.harness.late_worker import run_stateful
from tests.spark.conftest import records
from tests.spark.join.test_join import Streams, _pairs, state_store
from tests.spark.join.test_join_rows import _let_fit

__all__ = ["state_store"]  # the fixture: these joins need RocksDB, too


def test_rows_left_out_are_set_aside_once_also_where_a_batch_runs_again(
    file_stream, spark, control: Path, tmp_path: Path, monkeypatch
) -> None:
    streams = Streams(file_stream)
    for batch in range(3):
        streams.add(150, 10.0 * batch, 10.0 * (batch + 1))
    aside, checkpoint = tmp_path / "aside", tmp_path / "cp"
    found: dict[int, list[tuple[int, int]]] = {}

    def run() -> None:
        left, right = streams.frames()
        joined = hg.join(left, right, on=hg.equal("topic"), within="20 seconds", time="at",
                         hold="2 seconds", control=control, dropped=aside)  # fmt: skip

        def keep(frame: Any, number: int) -> None:
            found[number] = _pairs(frame.collect())
            if number == 2 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                raise RuntimeError("the sink is gone")

        writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
        run_stateful(writer.option("checkpointLocation", str(checkpoint)).start, checkpoint)

    _let_fit(monkeypatch, RowBudget(2.0, min_keep=0.4, max_keep=0.4))
    with pytest.raises(Exception, match="the sink is gone"):
        run()
    assert 2 not in {r._batch for r in hg.dropped(spark, aside, "join", side="left").collect()}
    run()
    sides = [hg.dropped(spark, aside, "join", side=side).collect() for side in ("left", "right")]
    for rows, given in zip(sides, streams.rows, strict=True):
        ids = Counter(r.id for r in rows)
        assert max(ids.values()) == 1
        kept = {row["id"] for row in given} - set(ids)
        assert len(kept) + len(rows) == len(given), "of this side's rows, and no others"
        assert {r._reason for r in rows} == {"left_out"}
        whole = {row["id"]: row for row in given}
        assert all((r.topic, sorted(r["items"])) == _of(whole[r.id]) for r in rows)
    matched = [pair for pairs in found.values() for pair in pairs]
    for side, rows in enumerate(sides):
        assert not {r.id for r in rows} & {pair[side] for pair in matched}, "no dropped row was joined"
    for record in records(control, "join"):
        counted = sum(r._batch == record.batch for rows in sides for r in rows)
        assert counted == record.found.measures["rows_shed"]
        assert record.found.measures["rows_kept"] == 300 - counted
    assert sum(map(len, sides)) > 300


def _of(row: dict[str, Any]) -> tuple[Any, list[Any]]:
    return row["topic"], sorted(row["items"])


def test_a_join_without_a_control_folder_sets_nothing_aside(file_stream, tmp_path: Path) -> None:
    left, right = Streams(file_stream).frames()
    with pytest.raises(hg.BadArgument, match="needs control="):
        hg.join(left, right, on=hg.equal("topic"), within="20 seconds", time="at", hold="2 seconds",
                dropped=tmp_path / "aside")  # fmt: skip
