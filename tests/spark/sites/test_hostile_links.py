"""Records that another site did not write: a link makes rows of them that are worth nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import headgate as hg

SCHEMA = "at timestamp, id int, value double, _sic double"
LINES = [
    b'{"at":"2026-01-01T00:00:00Z","id":1,"value":1.5,"_sic":0.25}',
    b'{"at":"2026-01-01T00:00:00Z","id":2,"value":"NaN","_sic":"NaN"}',
    b'{"at":"2026-01-01T00:00:00Z","id":3,"value":1e999,"_sic":1e999}',
    b'{"at":"2026-01-01T00:00:00Z","id":4,"value":0,"_sic":-5.0}',
    b'{"at":"yesterday","id":"five","value":{},"_sic":[]}',
    b"[" * 3000,
    b"\xff\xfe\xc3\x28",
    b"null",
    b"",
    b'{"id":6,"_sic":0.5,"row":{"id":7},"$(rm -rf /)":"`x`"}',
    b'{"id":8,"id":9,"_sic":0.125}',
]


def test_only_what_is_a_row_is_worth_something(spark: Any, tmp_path: Path, run_all: Any) -> None:
    folder = tmp_path / "link"
    folder.mkdir()
    (folder / "part-0.txt").write_bytes(b"\n".join(LINES) + b"\n")
    rows = hg.FileLink(folder, SCHEMA).read(spark)
    assert rows.columns == ["at", "id", "value", "_sic"], "whatever a record has besides"
    came = run_all(rows)
    assert len(came) == len(LINES), "each is counted"
    assert {r.id for r in came} <= {None, 1, 2, 3, 4, 6, 8, 9}
    found = spark.createDataFrame(came, rows.schema).agg(hg.sic.total(), F.count("id")).first()
    assert found[0] == 0.25 + 0.5 + 0.125
