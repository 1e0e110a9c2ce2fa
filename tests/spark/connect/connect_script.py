"""Gates, guard, join, rescue and estimates over Connect; prints what it found (test_connect.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = "id bigint, route string, at timestamp"


def estimate(spark: Any) -> list[Any]:
    """A name that Connect gave, and what the estimators say of known rows."""
    import headgate as hg

    weight = "IF(id % 2 = 0, 1.0D, 2.5D) _weight"
    frame = spark.range(1000).selectExpr("id % 2 g", "double(id) y", weight)
    made = [hg.mean("y"), hg.count(), hg.median("y")]
    result = frame.groupBy("g").agg(*made, hg.ratio("y", "g"), hg.sum("y"), hg.count("y"))
    rows = sorted(result.collect())
    found = [[r[0], r[1].estimate, round(r[1].stderr, 3), r[2].estimate, r[3].estimate] for r in rows]
    return [result.columns[1], *found]


def join(spark: Any, folder: Path) -> int | str:
    """The pairs of a stream joined with itself; or why there are none, where Connect has no join."""
    import headgate as hg
    from headgate.spark.join.call import ROCKSDB
    from tests.harness.late_worker import run_stateful

    stream = spark.readStream.schema(SCHEMA)
    left, right = (stream.json(str(folder / "in")).withWatermark("at", "1 hour") for _ in range(2))
    spark.conf.set(*ROCKSDB)
    try:
        pairs = hg.join(left, right, on=hg.equal("id"), within="1 hour", time="at", name="sixth",
                        hold="1 hour", control=folder / "control")  # fmt: skip
    except hg.UnsupportedSpark as error:
        return str(error)
    writer = pairs.writeStream.format("parquet").option("path", str(folder / "pairs"))
    writer = writer.option("checkpointLocation", str(folder / "pairs-checkpoint"))
    run_stateful(writer.trigger(availableNow=True).start, folder / "pairs-checkpoint")
    return int(spark.read.parquet(str(folder / "pairs")).where("id_left = id_right").count())


def rescue(spark: Any, folder: Path) -> dict[str, Any]:
    """A batch that is rescued; and what is said where nobody says where the checkpoint is."""
    import headgate as hg
    from tests.spark.rescued_query import rescued

    control = str(folder / "rescued-control")
    frame = spark.readStream.schema(SCHEMA).json(str(folder / "in"))
    try:
        frame.transform(hg.gate("rescued", rate=0.9, control=control, rescue=hg.Rescue("files")))
        refused = ""
    except hg.BadArgument as error:
        refused = str(error)
    found = rescued(spark, folder, control, checkpoint=folder / "rescued-checkpoint")
    return {"refused": refused, **found}


def port_of_its_own() -> dict[str, str]:
    """Settings of a server beside others here: each takes port 15002, and its client asks there."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    from headgate.testing.tied_server import free_ports

    [port] = free_ports(count=1)
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    return {"spark.connect.grpc.binding.port": str(port)}


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    import headgate as hg
    from headgate.demo.session import LOCAL_CHECKPOINTS
    from headgate.spark.loop.loop import ControlLoop
    from headgate.spark.versions.aggregates import has_heaviest
    from headgate.store.ledger.audit import audit
    from tests.harness.session_settings import FEW_ROWS
    from tests.harness.warm.python_daemon import WARM_WORKERS

    builder = SparkSession.builder.remote("local[2]").config(map=port_of_its_own())
    for name, value in {**LOCAL_CHECKPOINTS, **WARM_WORKERS, **FEW_ROWS}.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect."), type(spark)
    control = folder / "control"
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    refused = []
    changing = frame.selectExpr("*", "uuid() as odd", "concat(route, now()) as late").where("id >= 0")
    changing = changing.selectExpr("*", "odd as again", "late as later")
    for odd in ("again", "later"):
        try:
            changing.transform(hg.gate("odd", rate=0.5, identity=["id", odd], control=folder / "odd"))
        except hg.BadArgument as error:
            refused.append(str(error))
    changing.transform(hg.gate("odd", rate=0.5, identity="id", control=folder / "odd"))
    frame = frame.transform(hg.gate("first", rate=0.5, keep="route = 'r0'", control=control))
    policy = hg.GroupRates("route", {"r1": 0.5})
    frame = frame.transform(hg.gate("second", hold="1 hour", policy=policy, control=control))
    frame = hg.guard(
        frame, lambda row: (row.id, row.route), schema="id bigint, route string", key="route",
        arrival="at", target=hg.average("1 hour"), name="third", control=control,
    )  # fmt: skip
    other = "history" if has_heaviest(spark) else "partition"
    for name, counts, rate in (("fourth", "batch", 0.5), ("fifth", other, 0.9)):
        drawn = hg.ConceptDriven("route", counts=counts, overflow="smallest")
        frame = frame.transform(hg.gate(name, rate=rate, policy=drawn, control=control))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    joined = join(spark, folder)
    rescued = rescue(spark, folder)
    ControlLoop.of(spark).drain()
    batch = spark.read.schema("id bigint, route string").json(str(folder / "in"))
    drawn = batch.transform(hg.gate("first", rate=0.1, policy=hg.ConceptDriven("route")))
    (counted,) = drawn.agg(hg.count().alias("n"), hg.mean("id").alias("m")).collect()
    again = batch.transform(hg.gate("first", rate=0.5)).count()
    rows = spark.read.parquet(str(folder / "out")).count()
    estimates = estimate(spark)
    audits = [a.to_json() for a in audit(control)]
    found = {
        "rows": rows,
        "batch": again,
        "counted": counted.n.estimate,
        "joined": joined,
        "rescued": rescued,
        "estimates": estimates,
        "refused": refused,
    }
    print(json.dumps({"audits": audits, **found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
