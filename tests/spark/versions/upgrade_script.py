"""One run of a query with two gates; prints the Spark and the audits (test_upgrade.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, run: str) -> None:
    from pyspark.sql import SparkSession

    import headgate as hg
    from headgate.demo.session import LOCAL_CHECKPOINTS
    from headgate.spark.loop.loop import ControlLoop
    from headgate.store.ledger.audit import audit

    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config(map={**here, **LOCAL_CHECKPOINTS})
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    session = builder.getOrCreate()
    stream = session.readStream.schema("id bigint, route string").option("maxFilesPerTrigger", 1)
    rows = stream.json(str(folder / "in"))
    control = folder / "control"
    rows = rows.transform(hg.gate("even", rate=0.5, control=control))
    rows = rows.transform(hg.gate("drawn", rate=0.5, policy=hg.ConceptDriven("route"), control=control))
    kept = folder / run
    kept.mkdir()

    def keep(batch: Any, number: int) -> None:
        found = [[row["id"], row["_weight"]] for row in batch.collect()]
        (kept / f"{number}.json").write_text(json.dumps(sorted(found)))

    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(session).drain()
    print(json.dumps({"spark": session.version, "audits": [a.to_json() for a in audit(control)]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
