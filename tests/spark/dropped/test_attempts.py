"""Attempts of one task, and lists of what counts: files alone, without Spark."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from headgate.errors import BadArgument, ControlFolderError, DamagedFile
from headgate.spark.dropped import writing
from headgate.spark.dropped.lists import DroppedList, DroppedLists, Lister
from headgate.spark.dropped.reading import dropped_folder
from headgate.spark.dropped.writing import DroppedRows, rows_place
from headgate.testing.faults.folders import full
from tests.hostile import mangled


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is task 3 of batch 7."""
    monkeypatch.setattr(writing, "_here", lambda: writing._Task("q", 7, 3))


def _rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


def _ids(folder: Path, files: tuple[str, ...] | list[str]) -> list[int]:
    at = Path(rows_place(str(folder), "q", 7))
    return sorted(n for name in files for n in pq.read_table(at / name)["id"].to_pylist())


def test_of_several_attempts_the_one_that_spark_took_counts(task: None, tmp_path: Path) -> None:
    lost, speculated, taken = (DroppedRows(str(tmp_path), "row") for _ in range(3))
    lost.add(_rows(1, 2, 3), ["price"] * 3)
    lost.close()  # its executor dies behind this
    speculated.add(_rows(4), ["price"])
    taken.add(_rows(2), ["price"])
    taken.add(_rows(5, 6), ["latency", "price"])
    names = taken.close()
    late = speculated.close()  # and is killed, too late
    lister = Lister(str(tmp_path), "q", "guard 'g'")
    lister.take(7, names, {"price": 2, "latency": 1})
    (found,) = DroppedLists(str(tmp_path), "q").read()
    assert found == DroppedList(7, tuple(names), {"price": 2, "latency": 1})
    assert _ids(tmp_path, found.of_side("row")) == [2, 5, 6]
    left = {path.name for path in Path(rows_place(str(tmp_path), "q", 7)).iterdir()}
    assert left == set(names), "what nobody listed is cleared away"
    assert not left & set(late)
    rows = pq.read_table(Path(rows_place(str(tmp_path), "q", 7)) / names[0]).to_pylist()
    assert rows[1] == {"id": 5, "_reason": "latency", "_batch": 7, "_query": "q"}


def test_many_rows_are_several_files_and_none_is_none(task: None, tmp_path: Path) -> None:
    many = DroppedRows(str(tmp_path), "left", most_bytes=500)
    for n in range(20):
        many.add(_rows(n, n + 100), ["left_out"] * 2)
    names = many.close()
    assert len(names) > 1
    assert _ids(tmp_path, names) == [*range(20), *range(100, 120)]
    none = DroppedRows(str(tmp_path), "left")
    none.add(_rows(), [])
    assert none.close() == []


def test_a_list_that_cannot_be_written_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "q").write_text("in the way")
    lister, name = Lister(str(tmp_path), "q", "guard 'g'"), f"row-0-{'a' * 32}.parquet"
    with caplog.at_level(logging.WARNING, "headgate"):
        lister.take(1, [name], {"price": 1})
    assert "batch 1 dropped cannot be listed now" in caplog.text
    (tmp_path / "q").unlink()
    lister.take(2, [], {})
    assert DroppedLists(str(tmp_path), "q").batches() == [1]


def test_a_batch_that_dropped_nothing_in_the_end_is_known_to_have_dropped_nothing(
    task: None, tmp_path: Path
) -> None:
    killed = DroppedRows(str(tmp_path), "row")
    killed.add(_rows(1, 2), ["price"] * 2)
    killed.close()
    lister, lists = Lister(str(tmp_path), "q", "guard 'g'"), DroppedLists(str(tmp_path), "q")
    lister.take(7, [], {})  # the attempt that counts
    lister.take(8, [f"row-0-{'a' * 32}.parquet"], {"price": 1})
    lister.take(9, [], {})
    assert lists.unlisted() == []
    assert lists.batches() == [7, 8], "where nobody left files, no list is needed"
    assert next(lists.read()) == DroppedList(7, (), {})
    assert not list(Path(rows_place(str(tmp_path), "q", 7)).iterdir())


def test_batches_whose_report_was_lost_are_told(task: None, tmp_path: Path) -> None:
    lost = DroppedRows(str(tmp_path), "row")
    lost.add(_rows(1), ["price"])
    lost.close()
    lists = DroppedLists(str(tmp_path), "q")
    assert lists.unlisted() == [], "it may be running"
    lists.write(DroppedList(8, (), {}))
    assert lists.unlisted() == [7]


_WRITTEN = {"v": 1, "files": [f"row-0-{'a' * 32}.parquet"], "rows": {"price": 1}}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=mangled(_WRITTEN))
def test_a_list_that_somebody_changed_names_no_other_file(tmp_path: Path, value: Any) -> None:
    at = tmp_path / "q" / "lists"
    at.mkdir(parents=True, exist_ok=True)
    (at / f"{3:012d}.json").write_text(json.dumps(value))
    try:
        (found,) = DroppedLists(str(tmp_path), "q").read()
    except DamagedFile:
        return
    assert all(name.endswith(".parquet") and "/" not in name for name in found.files)


@pytest.mark.parametrize("given", ["s3://bucket/a", "s3a://b/c", "abfss://c@a/x", "dbfs:/x", "ftp://x"])
def test_an_object_store_is_refused_with_what_to_do(given: str) -> None:
    said = r"give a folder .* what hg\.dropped reads there can be written to an object store"
    with pytest.raises(BadArgument, match=said):
        dropped_folder(given, "g")


@pytest.mark.parametrize("given", ["/shared/aside", "file:/shared/aside", "file:///shared/aside"])
def test_a_folder_is_one_however_spark_writes_it(given: str) -> None:
    assert dropped_folder(given, "g") == "/shared/aside/g"


def test_rows_that_cannot_be_set_aside_fail_their_task_in_words(task: None, tmp_path: Path) -> None:
    """And are there once where it is run again."""
    rows = DroppedRows(str(tmp_path / "aside"), "row")
    rows.add(_rows(1, 2), ["price"] * 2)
    said = r"2 dropped rows of batch 7 cannot be set aside in .*No space left.*leave dropped= out"
    with full(tmp_path), pytest.raises(ControlFolderError, match=said):
        rows.close()
    again = DroppedRows(str(tmp_path / "aside"), "row")
    again.add(_rows(1, 2), ["price"] * 2)
    assert _ids(tmp_path / "aside", again.close()) == [1, 2]
    assert len(list((tmp_path / "aside").rglob("*.parquet"))) == 1
