"""Which rows were kept, in two numbers: whatever their order, and without overflow."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.gate.fingerprint import fingerprint_columns, fingerprint_in
from headgate.spark.gate.identity import row_hash, seed_of
from tests.spark.conftest import records

SCHEMA = "id bigint, route string"


def _of(frame) -> str:
    return fingerprint_in(frame.agg(*fingerprint_columns(F.col("h"))).collect()[0].asDict())


def test_order_does_not_count_and_everything_else_does(spark) -> None:
    rows = spark.range(1000).select(F.shiftrightunsigned(F.xxhash64("id"), 2).alias("h"))
    whole = _of(rows)
    assert _of(rows.orderBy(F.desc("h")).repartition(3)) == whole
    assert _of(rows.where("h <> 0").limit(999)) != whole
    assert _of(rows.union(rows)) != _of(rows.limit(0)), "rows that come twice do not cancel out"
    assert _of(rows.limit(0)) == "0000000000000000-0"


def test_it_does_not_overflow(spark) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    highest = spark.range(100_000).select(F.lit((1 << 62) - 1).alias("h"))
    assert _of(highest).endswith(f"{100_000 * ((1 << 31) - 1):x}")


def test_the_ledger_has_the_fingerprint_of_the_kept_rows(
    spark, file_stream, run_all, control: Path
) -> None:
    stream = file_stream(SCHEMA)
    for start in (0, 1000):
        stream.add([{"id": i, "route": f"r{i % 3}"} for i in range(start, start + 1000)])
    gated = stream.frame().transform(hg.gate("f", rate=0.3, keep="route = 'r1'", control=control))
    assert gated.columns == ["id", "route", "_weight"]
    rows = run_all(gated)
    for record, start in zip(records(control, "f"), (0, 1000), strict=True):
        ids = [row.id for row in rows if start <= row.id < start + 1000]
        kept = stream.batch().where(F.col("id").isin(ids))
        hashed = kept.select(row_hash(kept, ("`id`", "`route`"), seed_of("f")).alias("h"))
        assert record.evidence.fingerprint == _of(hashed)
        assert record.kept == len(ids)
