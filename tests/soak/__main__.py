"""``python -m tests.soak``: thousands of short batches, and what grows meanwhile.

Exit code 1 if something still grows at the end. Writes readings as CSV, a picture, and a summary.
"""

from __future__ import annotations

import contextlib
import csv
import json
import sys
import tempfile
import time
from pathlib import Path

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from headgate import settings
from headgate.demo.session import quiet_session
from headgate.spark.join.call import ROCKSDB
from headgate.store.ledger import carried
from headgate.store.ledger import records as ledger
from tests.soak.gauges import Reading, read
from tests.soak.jobs import JOBS, RETENTION_S
from tests.soak.verdict import draw, verdicts

_ERR = Console(stderr=True)
#: Batches in a file of the ledger: as small as the retention is short.
_SEGMENT = 250


def _shorten() -> None:
    """What lasts days in use lasts minutes here, so that its bound is seen."""
    ledger.SEGMENT = carried.SEGMENT = _SEGMENT  # type: ignore[attr-defined]
    settings._LEAST_RETENTION_S = RETENTION_S


def _start(spark: SparkSession, folder: Path, names: list[str]) -> dict[str, StreamingQuery]:
    queries = {}
    for name in names:
        job, mode = JOBS[name]
        writer = job(spark, folder / "control" / name).writeStream.format("noop").outputMode(mode)
        writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name))
        queries[name] = writer.queryName(f"soak-{name}").start()
    return queries


def _batches(queries: dict[str, StreamingQuery]) -> dict[str, int]:
    found = {}
    for name, query in queries.items():
        failure = query.exception()
        if failure is not None:
            raise click.ClickException(f"{name} failed: {failure}")
        last = query.lastProgress
        found[name] = 0 if last is None else last.batchId + 1
    return found


@click.command()
@click.option("--batches", default=10_000, help="In all queries together.", show_default=True)
@click.option("--every", default=20.0, help="Seconds between two looks.", show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(JOBS)), help="One query, or some of them.")
@click.option("--out", default="out/soak", type=click.Path(path_type=Path), show_default=True)
def main(batches: int, every: float, only: tuple[str, ...], out: Path) -> None:
    """Run BATCHES short batches through a gate, a guard, a join and a site; see what grows.

    Ctrl-C ends it early, with a verdict on what was seen.

    \b
    Examples:
      python -m tests.soak --batches 1000 --every 5
      python -m tests.soak --only gate --only join
    """
    out.mkdir(parents=True, exist_ok=True)
    _shorten()
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory(prefix="headgate-soak-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        retained = {"spark.ui.retainedJobs": "50", "spark.ui.retainedStages": "50"}
        retained |= {"spark.sql.ui.retainedExecutions": "20", "spark.ui.retainedTasks": "1000"}
        retained |= dict([ROCKSDB])
        with quiet_session(folder, name="headgate-soak", more=dict(retained)) as spark:
            began = time.monotonic()
            queries = _start(spark, folder, list(only) or list(JOBS))
            with Progress(console=_ERR) as progress:
                task = progress.add_task("batches", total=batches)
                done = dict.fromkeys(queries, 0)
                with contextlib.suppress(KeyboardInterrupt):  # what was seen until then is told
                    while sum(done.values()) < batches:
                        time.sleep(every)
                        done = _batches(queries)
                        total = sum(done.values())
                        readings.append(read(spark, folder / "control", time.monotonic() - began, total))
                        progress.update(task, completed=min(total, batches))
            for query in queries.values():
                query.stop()
    if not readings:
        raise click.ClickException(f"ended before the first look, {every:g} s after the start")
    _report(readings, done, out)
    sys.exit(any(not v.flat for v in verdicts(readings)))


def _report(readings: list[Reading], done: dict[str, int], out: Path) -> None:
    with open(out / "soak.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(readings[0].row()))
        writer.writeheader()
        writer.writerows(r.row() for r in readings)
    told = ", ".join(f"{n:,} {name}" for name, n in done.items())
    draw(readings, out / "soak.png", f"{sum(done.values()):,} batches ({told})")
    table = Table("gauge", "first look", "middle", "end", "allowed", "flat", title=told)
    for v in verdicts(readings):
        numbers = (f"{x:,.1f}" for x in (v.first, v.middle, v.last, v.allowed))
        table.add_row(v.gauge, *numbers, "yes" if v.flat else "NO")
    _ERR.print(table)
    found = {v.gauge: {"middle": v.middle, "end": v.last, "flat": v.flat} for v in verdicts(readings)}
    summary = {"batches": done, "seconds": readings[-1].seconds, "gauges": found}
    (out / "soak.json").write_text(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
