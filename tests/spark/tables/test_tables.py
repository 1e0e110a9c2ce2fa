"""Delta and Iceberg tables as source and sink of a gated query, with replay and backfill.

In a process of its own, whose session has the connector. docs/sources.md names these tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headgate.testing.broker import ArtifactsUnavailable
from headgate.testing.table_formats import table_format
from tests.spark.tables.tables_script import ROOM, ROWS

#: The first test of each kind runs seven queries in a session of its own, for all others: minutes on a
#: busy machine.
_LIMIT_S = 600
pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(_LIMIT_S)]
#: How each source is told to take a part of a commit.
LIMITS = {"delta": "maxFilesPerTrigger=3", "iceberg": "streaming-max-files-per-micro-batch=3"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, Any]]:
    @cache
    def once(kind: str, limit: str) -> dict[str, Any] | str:
        script = Path(__file__).with_name("tables_script.py")
        folder = tmp_path_factory.mktemp(kind)
        command = [sys.executable, str(script), kind, str(folder), limit]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LIMIT_S - 20, check=False
            )
        except subprocess.TimeoutExpired as error:
            return str(error)
        if done.returncode:
            return done.stderr[-3000:]
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found

    def run(kind: str, limit: str) -> dict[str, Any]:
        try:
            table_format(kind)
        except ArtifactsUnavailable as error:
            pytest.skip(error.reason)
        found = once(kind, limit)  # what failed fails in every test, and does not run for each again
        assert isinstance(found, dict), found
        return found

    return run


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_gate_between_two_tables_keeps_its_books(kind: str, ran: Any) -> None:
    found = ran(kind, "whole")
    in_front = sum(1 for id in range(4 * ROWS) if id % 7 < 6)
    assert found["arrived"] == in_front
    assert sum(arrived for arrived, _, _ in found["batches"].values()) == in_front
    assert all(arrived == kept + shed for arrived, kept, shed in found["batches"].values())
    assert sum(kept for _, kept, _ in found["batches"].values()) == found["kept"], "what the sink has"
    assert set(found["witnesses"]) <= {"bound", "passes"}, "a filter stands between source and gate"
    assert found["complete"]
    assert not found["doubtful"]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_that_runs_again_keeps_the_same_rows_and_none_twice(kind: str, ran: Any) -> None:
    found = ran(kind, "whole")
    assert found["again"] == [True, True], "there are rows, and they are the same"
    assert found["fingerprints"] == 1
    assert found["doubled"] == 0, "a table as a sink knows the batches that it has"


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_shed_rows_are_read_again_each_once(kind: str, ran: Any) -> None:
    found = ran(kind, "whole")
    assert found["exact"], found.get("refused")
    assert found["backfilled"] == sum(shed for _, _, shed in found["batches"].values()) > 0


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_operation_follows_what_the_gate_noted_and_merges_once(kind: str, ran: Any) -> None:
    found = ran(kind, "whole")["repaid"]
    assert found["left_open"] == {}
    assert found["exact"], "kept and repaid are what arrived"
    assert found["merged"] == found["rows"] > 0, "each slice was merged twice"
    if kind == "delta":
        assert found["late_table"] == found["late"] + 5, "of two equal transactions a table has one"


def test_a_batch_that_dies_at_every_restart_is_rescued_into_a_delta_table(ran: Any) -> None:
    found = ran("delta", "whole")["rescued"]
    assert [("out of room" in said, said == "finished") for said in found["starts"]] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert 0 < found["kept"] <= ROOM
    assert found["record"] == ["rescued", 3, 4 * ROWS, found["kept"]]
    assert found["complete"]
    assert found["exact"], "what was left out is read again, each row once"


def test_a_rescue_in_front_of_an_iceberg_table_is_refused(ran: Any) -> None:
    """It runs a batch again that it has, and drops the result: the ledger would tell of other rows."""
    found = ran("iceberg", "whole")["rescued"]
    assert "sink='iceberg'" in found["at the call"]
    assert "RescueRefused" in found["starts"][0]
    assert "leave rescue= out" in found["starts"][0]
    assert found["kept"] == 0


def test_a_part_of_a_delta_commit_is_read_again_to_the_row(ran: Any) -> None:
    """All but what the table had when the stream began: which files of that come first is not told."""
    found = ran("delta", LIMITS["delta"])
    partial = [b for b, (source,) in found["offsets"].items() if source["endOffset"]["index"] >= 0]
    assert partial, "commits of four files were taken three files at a time"
    assert found["exact"]
    assert "took a part of what the table had when the stream began" in found["refused"]
    later = [b for b, (source,) in found["offsets"].items() if not _initial(source)]
    assert found["backfilled"] == sum(found["batches"][b][2] for b in later) > 0


def _initial(source: dict[str, Any]) -> bool:
    start, end = source["startOffset"], source["endOffset"]
    return bool(end["isStartingVersion"] or (start is not None and start["isStartingVersion"]))


def test_a_part_of_an_iceberg_snapshot_is_refused_by_name(ran: Any) -> None:
    found = ran("iceberg", LIMITS["iceberg"])
    assert "took a part of snapshot" in found["refused"]
    assert "streaming-max-files-per-micro-batch" in found["refused"]
    assert found["exact"], "what is not refused is right"


def test_a_delta_commit_says_how_many_rows_come(ran: Any) -> None:
    found = ran("delta", "whole")
    assert len(found["sizes"]) >= 2
    for known_by, expected, arrived in found["sizes"]:
        assert (known_by, expected) == ("records", arrived)


def test_what_cannot_be_read_again_is_refused(ran: Any) -> None:
    delta = ran("delta", "whole")["tried"]
    assert "is no offset of a Delta table: give source=" in delta["another source"]
    assert "does not have the commits 900 to 900 of batch 9 any more" in delta["commits that are gone"]
    assert "changed rows, and no stream without" in delta["rows that were changed"]
    assert delta["skipped"] == "read"


def test_what_cannot_be_read_again_of_iceberg_is_refused(ran: Any) -> None:
    said = ran("iceberg", "whole")["tried"]
    assert "is no offset of an Iceberg table: give source=" in said["another source"]
    assert "has expired or is not in the table's line any more" in said["snapshots that are gone"]
    assert "give checkpoint=" in said["no checkpoint"]
