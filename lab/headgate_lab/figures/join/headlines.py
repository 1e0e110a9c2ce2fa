"""Join-2007 on real headlines and a real Spark stream: BBC against Fox, at least three common keywords.

The paper's news example (section 1), with the headlines of news_headlines_2020_2022, replayed at speed
from files, four weeks a batch, pairs at most 24 hours apart. Every way of shedding gets the same share
of the full join's comparisons; random drop sheds rows with the square root of that share on each side.
The full join is run too, and its result must be the brute-force one.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from headgate_lab.figures.data_folder import data_file
from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples

__all__ = ["COMPARED", "FOUND", "build"]

FOUND, COMPARED, ERROR = "output_share", "compared_share", "estimate_error"
FULL, CONTENT, CELLS, DROP = "full join", "content", "cells", "random drop"
_SHARES = (0.02, 0.05, 0.1, 0.25, 0.5)
_SCHEMA = "published timestamp, category string, keywords array<string>"
#: Pairs of the whole file, found by comparing all of them (its provenance says the same).
PAIRS = 11_054


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Run the joins on this machine's Spark, and draw what came out."""
    from headgate.demo.session import quiet_session
    from headgate_lab.figures.measured_spark import conf, heard

    shares = (0.05, 0.25) if quick else _SHARES
    count = runs or 1
    jobs = [(1.0, FULL)] + [(s, how) for s in shares for how in (CONTENT, CELLS, DROP)]
    samples = Samples()
    with (
        tempfile.TemporaryDirectory(prefix="headgate-headlines-", ignore_cleanup_errors=True) as scratch,
        quiet_session(Path(scratch) / "spark") as spark,
        conf(spark, {"spark.sql.shuffle.partitions": "2"}),
        heard(),
    ):
        files = Path(scratch) / "files"
        _write(files, weeks=12 if quick else 4, most=26 if quick else None)
        whole = None
        for run in range(count):
            for number, (share, how) in enumerate(jobs):
                if run and how == FULL:
                    continue
                found = _joined(spark, files, share, how, run, Path(scratch) / f"{run}-{number}")
                whole = found["pairs"] if how == FULL else whole
                assert whole is not None
                metrics = {FOUND: found["pairs"] / whole}
                if how in (CONTENT, CELLS):
                    metrics[COMPARED] = found["made"] / found["wanted"]
                    metrics[ERROR] = (found["pairs"] + found["missed"]) / whole - 1.0
                samples.add(share, how, metrics)
                progress(run * len(jobs) + number + 1, count * len(jobs))
    return Drawn(
        "join_headlines",
        "BBC and Fox headlines, three common keywords within 24 hours, on Spark",
        "share of the comparisons",
        count,
        samples.rows(),
        _claims(samples, shares, None if quick else whole),
        (Axis(FOUND, "share of all pairs found"), Axis(ERROR, "error of the estimate of all pairs")),
        x_log=True,
    )


def _write(folder: Path, weeks: int, most: int | None) -> None:
    """One file a side and stretch of weeks, named so that Spark reads them in order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    news = pq.read_table(data_file("news_headlines_2020_2022.parquet")).sort_by("ts")
    start, end = pc.min(news["ts"]).as_py(), pc.max(news["ts"]).as_py()
    until = end if most is None else start + timedelta(weeks=most)
    for side in ("bbc", "fox"):
        (folder / side).mkdir(parents=True)
        rows = news.filter(pc.equal(news["publisher"], side))
        rows = rows.select(["ts", "category", "keywords"]).rename_columns(
            ["published", "category", "keywords"]
        )
        since, number = start, 0
        while since <= until:
            after = since + timedelta(weeks=weeks)
            kind = rows["published"].type
            inside = pc.and_(
                pc.greater_equal(rows["published"], pa.scalar(since, kind)),
                pc.less(rows["published"], pa.scalar(after, kind)),
            )
            pq.write_table(rows.filter(inside), folder / side / f"{number:04d}.parquet")
            since, number = after, number + 1


def _joined(
    spark: Any, files: Path, share: float, how: str, seed: int, folder: Path
) -> dict[str, float]:
    """One replay; what the join's ledger says of it."""
    from headgate.joins.conditions import overlap
    from headgate.spark.gate.call import gate
    from headgate.spark.join.call import ROCKSDB, join
    from headgate.spark.loop.loop import ControlLoop
    from headgate.store.ledger.records import Ledger, queries_of

    spark.conf.set(*ROCKSDB)
    control = folder / "control"
    sides: list[Any] = []
    for side in ("bbc", "fox"):
        reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(files / side)).withWatermark("published", "1 hour")
        if how == DROP:
            rows = rows.transform(
                gate(f"drop-{side}", rate=math.sqrt(share), seed=2 * seed + len(sides))
            )
        sides.append(rows)
    joined = join(
        *sides,
        on=overlap("keywords", at_least=3),
        within="24 hours",
        time="published",
        budget=f"{100 * share:g} %" if how in (CONTENT, CELLS) else None,
        rank="pay-off" if how == CELLS else "content",
        control=control,
        seed=seed,
    )
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    (query,) = queries_of(control, "join")
    records = list(Ledger(control, "join", query).records().values())
    return {
        "pairs": sum(r.found.measures["pairs"] for r in records),
        "missed": sum(r.found.measures["pairs_missed"] for r in records),
        "made": float(sum(r.kept for r in records)),
        "wanted": float(max(1, sum(r.arrived for r in records))),
    }


def _claims(samples: Samples, shares: tuple[float, ...], whole: float | None) -> tuple[Claim, ...]:
    def ratio(share: float, ours: str, theirs: str) -> float:
        return samples.mean(share, ours, FOUND) / max(1e-9, samples.mean(share, theirs, FOUND))

    least = min(ratio(s, CONTENT, DROP) for s in shares)
    learnt = min(ratio(s, CELLS, DROP) for s in shares)
    worst = max(abs(samples.mean(s, CONTENT, ERROR)) for s in shares)
    found = [
        Claim(
            "selective processing finds more than random drop, by content (times, least)",
            least > 1,
            least,
        ),
        Claim("the same by learned pay-offs (times, least)", learnt > 1, learnt),
        Claim("the estimate of all pairs is within 20 % (worst, by content)", worst <= 0.2, worst),
    ]
    if whole is not None:
        found.insert(0, Claim("the full join is the brute-force one (pairs)", whole == PAIRS, whole))
    return tuple(found)
