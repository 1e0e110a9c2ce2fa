"""Gates, a guard, a join, a rescue and a backfill with the control store on S3; prints what it found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner


def told(*command: str) -> Any:
    """What a command of `headgate` prints with --json."""
    from headgate.cli import main as headgate

    done = CliRunner().invoke(headgate, [*command, "--json"])
    assert done.exit_code == 0, (command, done.output)
    return json.loads(done.stdout)


def main(folder: Path, control: str) -> None:
    """Run everything once, some of it twice."""
    import headgate as hg
    from headgate.demo.session import quiet_session
    from headgate.spark.join.call import ROCKSDB
    from headgate.spark.loop.loop import ControlLoop
    from headgate.store.ledger.audit import audit
    from headgate.store.places.place import control_place
    from tests.harness.late_worker import run_stateful
    from tests.harness.session_settings import FEW_ROWS
    from tests.harness.warm.python_daemon import WARM_WORKERS
    from tests.spark.rescued_query import rescued

    settings = {**WARM_WORKERS, **FEW_ROWS}
    with quiet_session(folder / "scratch", more=settings) as spark:
        found: dict[str, Any] = {}
        read = spark.readStream.schema("id bigint, route string, at timestamp")
        frame = read.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
        frame = frame.transform(
            hg.gate("first", rate=0.5, identity="id", control=control, checkpoint=folder / "checkpoint")
        )
        drawn = hg.ConceptDriven("route", overflow="smallest")
        frame = frame.transform(hg.gate("second", hold="1 hour", policy=drawn, control=control))
        frame = hg.guard(
            frame, lambda row: (row.id, row.route), schema="id bigint, route string", key="route",
            arrival="at", target=hg.average("1 hour"), name="third", control=control,
        )  # fmt: skip

        def run() -> float:
            # A file sink would pass over a batch that it has: this one writes it again.
            def write(rows: Any, batch: int) -> None:
                rows.write.mode("overwrite").parquet(str(folder / "out" / f"batch={batch}"))

            writer = frame.writeStream.foreachBatch(write)
            writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
            began = time.monotonic()
            writer.trigger(availableNow=True).start().awaitTermination()
            ControlLoop.of(spark).drain()
            return time.monotonic() - began

        found["seconds"] = run()
        [last] = sorted((folder / "checkpoint" / "commits").glob("[0-9]*"))[-1:]
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        run()  # the last batch runs again, and meets its pins
        place = control_place(control)
        found["twice"] = len(list(_lines(place, "first"))) - len(list((folder / "in").iterdir()))
        left, right = (read.json(str(folder / "in")).withWatermark("at", "1 hour") for _ in range(2))
        spark.conf.set(*ROCKSDB)
        pairs = hg.join(left, right, on=hg.equal("id"), within="1 hour", time="at", name="fourth",
                        hold="1 hour", control=control)  # fmt: skip
        writer = pairs.writeStream.format("parquet").option("path", str(folder / "pairs"))
        writer = writer.option("checkpointLocation", str(folder / "pairs-checkpoint"))
        run_stateful(writer.trigger(availableNow=True).start, folder / "pairs-checkpoint")
        ControlLoop.of(spark).drain()
        with_site(hg, spark, folder, control, read)
        found["site"] = told("federation", "status", control)["sites"][0]
        found["joined"] = spark.read.parquet(str(folder / "pairs")).count()
        source = spark.read.schema("id bigint, route string, at timestamp").json(str(folder / "in"))
        rows = hg.file_rows(
            lambda paths: spark.read.schema(source.schema).json(paths), folder / "checkpoint"
        )
        shed = hg.backfill(spark, "first", control, rows)
        kept = {r.id for r in spark.read.parquet(str(folder / "out")).select("id").collect()}
        missed = {r.id for r in shed.select("id").collect()}
        found |= {"missed": len(missed), "both": len(kept & missed), "rows": source.count()}
        found["set"] = told("set", control, "first", "--rate", "0.25")
        found["audits"] = {a.gate: a.to_json() for a in audit(place)}
        found["status"] = {g["gate"]: g for g in told("status", control)["gates"]}
        found["verify"] = told("ledger", "verify", control)
        found["shown"] = told("ledger", "show", control, "--gate", "first")["ledgers"]
        found["rescued"] = rescued(spark, folder, control)
        found["pruned"] = told("ledger", "prune", control)
    print(json.dumps(found))


def with_site(hg: Any, spark: Any, folder: Path, control: str, read: Any) -> None:
    """A site that keeps its status, its claim and its history there."""
    site = hg.Site(spark, "here", control=control, hold="30 seconds", stw="5 minutes")
    frame = read.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    frame = frame.transform(site.gate("fifth", query="top", source="in", identity="id"))
    writer = frame.writeStream.format("parquet").option("path", str(folder / "at-site"))
    writer = writer.option("checkpointLocation", str(folder / "site-checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    site.stop()


def _lines(place: Any, gate: str) -> Any:
    from headgate.store.ledger.records import Ledger, queries_of

    for query in queries_of(place, gate):
        yield from Ledger(place, gate, query).lines()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
