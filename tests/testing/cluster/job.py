"""A job that `spark-submit` runs on the cluster; everything that it reads and writes is on an S3 server.

Each task attempt behind a gate leaves what it sees as an object of its own, so that attempts at one
partition can be compared whoever made them: a task that was retried, one that was speculated, one of a
driver that was killed. Objects that the test puts under ``hold/`` make tasks or the driver wait, so that
a kill comes in the middle of a batch without anybody watching a clock.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = "id bigint, route string, at timestamp"


class Bucket:
    """The bucket, as plainly as possible: nothing of Headgate's."""

    def __init__(self, name: str) -> None:
        self._root = f"{os.environ['AWS_ENDPOINT_URL']}/{name}"

    def put(self, key: str, value: Any) -> None:
        data = json.dumps(value).encode()
        request = urllib.request.Request(f"{self._root}/{key}", data=data, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def there(self, key: str) -> bool:
        try:
            urllib.request.urlopen(f"{self._root}/{key}", timeout=30).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def wait_while(self, key: str) -> None:
        while self.there(key):
            time.sleep(0.05)


def watched(name: str, bucket: str) -> Any:
    """A function over the Arrow batches of a partition, which passes all on."""

    def watch(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        rows = list(batches)
        task: Any = TaskContext.get()
        batch, part = task.getLocalProperty("streaming.sql.batchId"), task.partitionId()
        ids = [row for some in rows for row in some.column("id").to_pylist()]
        if ids:
            there, attempt = Bucket(bucket), task.attemptNumber()
            there.put(f"seen/{name}/{batch}/{part}/{attempt}-{uuid.uuid4().hex}", ids)
            there.wait_while(f"hold/task/{name}/{batch}")
            # The first attempt at the first partition is slow until a second one has been seen.
            while not attempt and not part and there.there(f"hold/slow/{name}/{batch}"):
                time.sleep(0.05)
            if attempt and not part:
                there.put(f"second/{name}/{batch}/{attempt}", attempt)
        yield from rows

    return watch


def main(bucket: str, steps: list[str]) -> None:
    """Run the steps one after the other, and print what they found."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    found: dict[str, Any] = {}
    job = Job(spark, bucket)
    for step in steps:
        began = time.monotonic()
        found[step] = getattr(job, step)()
        print(f"step {step}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    print(json.dumps(found), flush=True)
    spark.stop()


class Job:
    """The steps, by name."""

    def __init__(self, spark: Any, bucket: str) -> None:
        self.spark, self.bucket = spark, bucket
        self.control, self.root = f"s3://{bucket}/control", f"s3a://{bucket}"

    def checkpoint(self, name: str) -> str:
        return f"{self.root}/checkpoints/{name}"

    def stream(self) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
        return reader.json(f"{self.root}/in")

    def start(self, name: str, writer: Any) -> Any:
        writer = writer.option("checkpointLocation", self.checkpoint(name)).queryName(name)
        return writer.trigger(availableNow=True).start()

    def plain(self) -> Any:
        """The rows behind a gate; each attempt at them leaves what it sees."""
        import headgate as hg

        plain = self.stream().transform(
            hg.gate(
                "plain",
                rate=0.5,
                identity="id",
                control=self.control,
                checkpoint=self.checkpoint("plain"),
            )
        )
        return plain.mapInArrow(watched("plain", self.bucket), plain.schema)

    def start_plain(self, plain: Any) -> Any:
        there, bucket = Bucket(self.bucket), self.bucket

        def record(rows: Any, batch: int) -> None:
            ids = [row.id for row in rows.select("id").collect()]
            there.put(f"sunk/plain/{batch}/{uuid.uuid4().hex}", ids)
            Bucket(bucket).wait_while(f"hold/driver/plain/{batch}")

        return self.start("plain", plain.writeStream.foreachBatch(record))

    def until_all_is_read(self, *queries: Any) -> dict[str, Any]:
        from headgate.spark.loop.loop import ControlLoop

        for query in queries:
            query.awaitTermination()
        ControlLoop.of(self.spark).drain()
        return {"batches": [len(query.recentProgress) for query in queries]}

    def gate(self) -> dict[str, Any]:
        """A gate by itself."""
        return self.until_all_is_read(self.start_plain(self.plain()))

    def gates(self) -> dict[str, Any]:
        """A gate with a guard behind it, and a gate by group."""
        import headgate as hg

        plain = hg.guard(
            self.plain(), lambda row: (row.id, row.route), schema="id bigint, route string", key="route",
            arrival="at", target=hg.average("1 hour"), name="guarded", control=self.control,
        )  # fmt: skip
        drawn = self.stream().transform(
            hg.gate(
                "drawn", rate=0.5, policy=hg.ConceptDriven("route"), identity="id", control=self.control
            )
        )
        drawn = drawn.mapInArrow(watched("drawn", self.bucket), drawn.schema)
        files = drawn.writeStream.format("parquet").option("path", f"{self.root}/drawn")
        return self.until_all_is_read(self.start_plain(plain), self.start("drawn", files))

    def join(self) -> int:
        """Two streams joined on their id; how many pairs were found."""
        import headgate as hg
        from headgate.spark.join.call import ROCKSDB
        from headgate.spark.loop.loop import ControlLoop

        self.spark.conf.set(*ROCKSDB)
        left, right = (self.stream().withWatermark("at", "1 hour") for _ in range(2))
        pairs = hg.join(
            left, right, on=hg.equal("id"), within="1 hour", time="at", name="joined", hold="1 hour",
            control=self.control,
        )  # fmt: skip
        writer = pairs.writeStream.format("parquet").option("path", f"{self.root}/pairs")
        self.start("joined", writer).awaitTermination()
        ControlLoop.of(self.spark).drain()
        return int(self.spark.read.parquet(f"{self.root}/pairs").count())

    def site(self) -> dict[str, Any]:
        """A site with one gate."""
        import headgate as hg

        site = hg.Site(self.spark, "here", control=self.control, hold="30 seconds", stw="5 minutes")
        frame = self.stream().transform(site.gate("at-site", query="top", source="in", identity="id"))
        writer = frame.writeStream.format("parquet").option("path", f"{self.root}/at-site")
        self.start("at-site", writer).awaitTermination()
        site.stop()
        return {"rows": self.spark.read.parquet(f"{self.root}/at-site").count()}

    def there(self) -> list[str]:
        """The gates that have a ledger."""
        from headgate.store.ledger.audit import audit
        from headgate.store.places.place import control_place

        found = {one.gate for one in audit(control_place(self.control))}
        return [name for name in ("plain", "drawn") if name in found]

    def settle(self) -> dict[str, Any]:
        """Count batches again whose reports a kill swallowed."""
        import headgate as hg
        from headgate.store.ledger.audit import audit
        from headgate.store.places.place import control_place

        settled = {}
        for name in self.there():
            (before,) = audit(control_place(self.control), name)
            lost = [*before.unsettled, *before.begun]
            if lost:
                hg.recount(
                    self.spark, name, self.control, self.rows(name), checkpoint=self.checkpoint(name)
                )
            settled[name] = lost
        return settled

    def backfilled(self) -> dict[str, list[int]]:
        """The shed rows of each gate."""
        import headgate as hg

        return {
            name: [row.id for row in self.shed(hg, name).select("id").collect()] for name in self.there()
        }

    def shed(self, hg: Any, name: str) -> Any:
        return hg.backfill(self.spark, name, self.control, self.rows(name))

    def rows(self, name: str) -> Any:
        import headgate as hg

        def read(paths: Any) -> Any:
            return self.spark.read.schema(SCHEMA).json(paths)

        return hg.file_rows(read, self.checkpoint(name))

    def sunk(self) -> list[int]:
        """What the gate by group has in its files."""
        return [row.id for row in self.spark.read.parquet(f"{self.root}/drawn").select("id").collect()]

    def origin(self) -> dict[str, Any]:
        """Where the driver and its executors have Headgate from."""
        import headgate

        def where(_: int) -> str:
            import headgate

            return f"{headgate.__file__}"

        files = self.spark.sparkContext.parallelize(range(4), 4).map(where).collect()
        return {"driver": headgate.__file__, "executors": sorted(set(files)), "cwd": str(Path.cwd())}

    def doctor(self) -> dict[str, Any]:
        import headgate as hg

        control = os.environ.get("DOCTOR_CONTROL", self.control)
        found: dict[str, Any] = hg.doctor(self.spark, control, within="40 seconds").to_json()
        return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
