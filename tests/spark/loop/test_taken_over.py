"""This version goes on with a control folder and a checkpoint that 0.1.0 left within a batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.settings_file import SettingsFile
from tests.spark.loop.from_0_1_0.made_by import FILES, ROWS, write_input

LEFT = Path(__file__).with_name("from_0_1_0")


def test_a_query_goes_on_from_what_0_1_0_left(spark: SparkSession, tmp_path: Path) -> None:
    before = json.loads((LEFT / "kept.json").read_text())
    for name in ("checkpoint", "control"):
        shutil.copytree(LEFT / name, tmp_path / name)
    for log in (tmp_path / "checkpoint" / "sources" / "0").iterdir():  # the files are elsewhere now
        log.write_text(log.read_text().replace(before["written_at"], str(tmp_path)))
    write_input(tmp_path / "in", 0, FILES + 1)
    control = tmp_path / "control"
    frame = spark.readStream.schema("id bigint, route string").option("maxFilesPerTrigger", 1)
    frame = frame.json(str(tmp_path / "in"))
    frame = frame.transform(hg.gate("half", rate=0.25, identity="id", min_keep=0.05, control=control))
    frame = frame.transform(hg.gate("held", hold="1 hour", control=control))
    kept: dict[int, list[int]] = {}

    def record(rows: Any, batch: int) -> None:
        kept[batch] = sorted(row.id for row in rows.select("id").collect())

    writer = frame.writeStream.foreachBatch(record)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()

    last = FILES - 1
    assert sorted(kept) == [last, FILES], "the batch that was cut off, and the one that is new"
    assert kept[last] == before["kept"][str(last)], "0.1.0's pin holds, whatever the rate is now"
    assert 0 < len(kept[FILES]) < 0.45 * ROWS, "the new batch meets the new rate"
    for name in ("half", "held"):
        (found,) = audit(control, name)
        assert found.complete, found.to_json()
        assert found.batches == FILES + 1
        (query,) = queries_of(control, name)
        assert sorted(Ledger(control, name, query).records()) == list(range(FILES + 1))
    assert SettingsFile(control, "half").effective().min_keep == 0.05


def test_the_folder_is_small() -> None:
    files = [path for path in LEFT.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 60_000
