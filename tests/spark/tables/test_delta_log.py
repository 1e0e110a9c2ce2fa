"""What a Delta table's log says of a stream's batches, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.core.batch_size import BatchSize
from headgate.spark.gate.pin.batch_size import sizes_of_batch
from headgate.spark.tables.delta_log import Commit, DeltaOffset, commit_name, size_between


def _offset(version: int, index: int = -1, initial: bool = False, source: int = 1) -> dict[str, Any]:
    return {
        "sourceVersion": source,
        "reservoirId": "0a1b",
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": initial,
    }


def _add(path: str, rows: int | None, size: int = 100, **more: Any) -> dict[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": path, "size": size, "dataChange": True, **stats, **more}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Commits 3 to 6: four files, one file and a compaction, none, one file without statistics."""
    folder = tmp_path / "table" / "_delta_log"
    folder.mkdir(parents=True)
    compacted = {"remove": {"path": "a0", "dataChange": False}}
    commits = {
        3: [{"commitInfo": {}}, *(_add(f"a{n}", 10 + n) for n in range(4))],
        4: [_add("b0", 7), _add("c0", 40, dataChange=False), compacted],
        5: [{"metaData": {"id": "0a1b"}}],
        6: [_add("d0", None, 1234)],
    }
    for version, actions in commits.items():
        text = "\n".join(json.dumps(action) for action in actions)
        (folder / commit_name(version)).write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("start", "end", "size"),
    [
        (_offset(3), _offset(4), BatchSize(46.0, "records")),
        (_offset(3, 1), _offset(4), BatchSize(25.0, "records")),
        (_offset(3), _offset(3, 0), BatchSize(10.0, "records")),
        (_offset(3, 0), _offset(3, 2), BatchSize(23.0, "records")),
        (_offset(3, 2), _offset(4, 0), BatchSize(20.0, "records")),
        (_offset(4, -100, source=3), _offset(6, -100, source=3), BatchSize(7.0, "records")),
        (_offset(5, -20, source=3), _offset(5, -19, source=3), BatchSize(0.0, "records")),
        (_offset(6), _offset(7), BatchSize(1234.0, "bytes")),
        (_offset(3), _offset(3), BatchSize(0.0, "records")),
        (_offset(6), _offset(8), None),
        (_offset(2, 5, initial=True), _offset(4), None),
        (None, _offset(4), None),
        (_offset(3), _offset(9000), None),
        ({"offset": 3}, _offset(4), None),
    ],
)
def test_a_batch_has_the_files_between_its_offsets(
    log: Path, start: Any, end: Any, size: BatchSize | None
) -> None:
    assert size_between(log, start, end) == size


def test_what_a_commit_only_rewrote_is_no_row_of_a_stream(log: Path) -> None:
    commit = Commit.read(4, (log / commit_name(4)).read_text())
    assert [file.name for file in commit.added] == ["b0"]
    assert (commit.removed, commit.removed_rows) == (("a0",), ())


def test_a_worker_reads_the_size_of_a_batch_off_checkpoint_and_log(log: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    for batch, offset in enumerate((_offset(3), _offset(3, 1), _offset(4))):
        lines = ["v1", json.dumps({"batchTimestampMs": 1}), json.dumps(offset)]
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    table = str(log.parent)
    assert sizes_of_batch(checkpoint, 1, table) == (BatchSize(21.0, "records"),)
    assert sizes_of_batch(checkpoint, 2, table) == (BatchSize(25.0, "records"),)
    assert sizes_of_batch(checkpoint, 0, table) is None, "what the table had then"
    assert sizes_of_batch(checkpoint, 1) is None, "nobody knows which table"
    assert sizes_of_batch(checkpoint, 1, "hdfs://node/table") is None, "nobody can look there"


def test_of_two_tables_nobody_knows_whose_offsets_are_whose(log: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    for batch, version in enumerate((3, 4)):
        lines = ["v1", "{}", *[json.dumps(_offset(version))] * 2]
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    assert sizes_of_batch(checkpoint, 1, str(log.parent)) is None


def test_an_offset_of_another_source_is_none_of_deltas() -> None:
    for value in (None, 7, "x", {"logOffset": 3}, {"t": {"0": 1}}, {"snapshot_id": 1, "position": 2}):
        assert DeltaOffset.read(value) is None


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85"])
def test_a_value_that_breaks_lines_elsewhere_breaks_no_commit(character: str) -> None:
    """Statistics have values of the data, and JSON lets these stand as they are."""
    stats = json.dumps({"numRecords": 4, "minValues": {"x": f"a{character}b"}}, ensure_ascii=False)
    action = {"add": {"path": "a", "size": 3, "dataChange": True, "stats": stats}}
    text = json.dumps({"commitInfo": {}}) + "\n" + json.dumps(action, ensure_ascii=False) + "\n"
    (file,) = Commit.read(3, text).added
    assert (file.path, file.rows) == ("a", 4)


def test_a_commit_that_changed_rows_does_not_tell_how_many_the_stream_takes(log: Path) -> None:
    """With skipChangeCommits it takes none of them: a plan for all would shed what fits."""
    changed = [{"remove": {"path": "a0", "dataChange": True}}, _add("a0-rewritten", 10_000_000)]
    text = "\n".join(json.dumps(action) for action in changed)
    (log / commit_name(5)).write_text(text)
    assert size_between(log, _offset(4), _offset(6)) is None
    assert size_between(log, _offset(4), _offset(5)) == BatchSize(7.0, "records"), "in front of it"


def test_rows_that_a_deletion_vector_hides_are_not_counted() -> None:
    hidden = _add("a", 10, deletionVector={"storageType": "u", "cardinality": 3})
    (file,) = Commit.read(3, json.dumps(hidden)).added
    assert file.rows == 7
