"""Which snapshots of an Iceberg table a batch took, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import BadArgument, NotAsRecorded
from headgate.spark.tables.iceberg import IcebergOffset, _initial, _Snapshot, _Table


class _Frame:
    """A frame that remembers what it is of."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def where(self, condition: str) -> _Frame:
        assert condition == "false"
        return _Frame()

    def unionByName(self, other: _Frame, allowMissingColumns: bool) -> _Frame:
        assert allowMissingColumns
        return _Frame(*self.parts, *other.parts)


class _Played(_Table):
    """A table of two appends of two files each, and a compaction between."""

    def __init__(self) -> None:
        super().__init__(None, "lake.db.rides")  # type: ignore[arg-type]

    def _snapshots(self) -> list[_Snapshot]:
        return [
            _Snapshot(1, None, "append", 2),
            _Snapshot(2, 1, "replace", 1),
            _Snapshot(3, 2, "append", 2),
        ]

    def _load(self, what: str = "", snapshot: int | None = None) -> Any:
        return _Frame(f"all of {snapshot}")

    def _appended(self, snapshot: _Snapshot) -> Any:
        return _Frame(f"appended by {snapshot.id}")


def _taken(start: tuple[int, int], end: tuple[int, int]) -> tuple[str, ...]:
    found: Any = _Played().rows(7, IcebergOffset(*start), IcebergOffset(*end))
    return tuple(found.parts)


@pytest.mark.parametrize(
    ("start", "end", "taken"),
    [
        ((1, 0), (1, 2), ("appended by 1",)),
        ((1, 0), (3, 2), ("appended by 1", "appended by 3")),
        ((1, 2), (3, 2), ("appended by 3",)),
        ((1, 2), (1, 2), ()),
        ((1, 0), (1, 0), ()),
        ((3, 0), (3, 0), ()),
    ],
)
def test_whole_snapshots_are_taken_and_an_empty_batch_takes_none(
    start: tuple[int, int], end: tuple[int, int], taken: tuple[str, ...]
) -> None:
    """A query with state runs batches without rows: they begin and end at one place."""
    assert _taken(start, end) == taken


@pytest.mark.parametrize(("start", "end"), [((1, 1), (3, 2)), ((1, 0), (3, 1)), ((0, 0), (3, 2))])
def test_parts_and_what_has_expired_are_refused(start: tuple[int, int], end: tuple[int, int]) -> None:
    with pytest.raises(NotAsRecorded):
        _taken(start, end)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
def test_a_checkpoint_is_taken_as_spark_takes_it(tmp_path: Path, form: str) -> None:
    offsets = tmp_path / "sources" / "0" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('{"version": 1, "snapshot_id": 5, "position": 0}')
    found = IcebergOffset.read(_initial(form.format(tmp_path), 0))
    assert found == IcebergOffset(5, 0)
    assert _initial(form.format(tmp_path / "another"), 0) is None


def test_a_checkpoint_that_cannot_be_read_here_is_refused() -> None:
    with pytest.raises(BadArgument, match="cannot read"):
        _initial("hdfs://node/checkpoints/rides", 0)
