"""Rows that hold anything: odd texts, a megabyte, no numbers. They are rows like others to a gate.

Each is kept or repaid, once; nothing in one becomes a path, a name of a file or a line of the log.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.store.ledger.audit import audit
from tests.hostile import TEXTS
from tests.spark.conftest import records

SCHEMA = "id bigint, route string, fare double"
#: Half of a pair is no text to a JSON file.
KEYS = (*(text for text in TEXTS if "\ud800" not in text), "y" * 1_000_000, None)
FARES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, None)
BATCHES = 2


def _rows(batch: int) -> list[dict[str, Any]]:
    pairs = [(key, fare) for key in KEYS for fare in FARES]
    return [
        {"id": batch * len(pairs) + n, "route": key, "fare": fare} for n, (key, fare) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"identity": ["route", "fare", "id"], "rate": 0.5}, id="as identity"),
        pytest.param({"policy": "groups", "identity": "id", "rate": 0.02}, id="as groups"),
        pytest.param({"keep": "fare > 0", "identity": "id", "rate": 0.5}, id="in a predicate"),
    ],
)
def test_each_is_kept_or_repaid_and_none_is_more_than_a_value(
    spark, file_stream, run_all, control: Path, tmp_path: Path, caplog: Any, how: dict[str, Any]
) -> None:
    stream = file_stream(SCHEMA)
    for batch in range(BATCHES):
        stream.add(_rows(batch))
    policy = {"policy": hg.ConceptDriven("route", overflow="smallest")} if "policy" in how else {}
    with caplog.at_level(logging.DEBUG, "headgate"):
        kept = run_all(stream.frame().transform(hg.gate("odd", control=control, **{**how, **policy})))
    written = records(control, "odd")
    assert [record.batch for record in written] == list(range(BATCHES))
    assert all(record.balanced for record in written)
    (books,) = audit(control, "odd")
    assert books.complete, books.to_json()
    assert (books.arrived, books.kept) == (BATCHES * len(KEYS) * len(FARES), len(kept))

    rows = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), tmp_path / "checkpoint")
    late = hg.backfill(spark, "odd", control, rows).select("id").collect()
    assert Counter(row.id for row in [*kept, *late]) == Counter(range(books.arrived))

    names = [str(path.relative_to(control)) for path in control.rglob("*")]
    assert all(name.isascii() and "passwd" not in name and "script" not in name for name in names)
    size = sum(path.stat().st_size for path in control.rglob("*") if path.is_file())
    assert size < 500_000, "no megabyte of a row is in the books"
    assert all("\n" not in r.getMessage() for r in caplog.records if r.name.startswith("headgate"))
