"""Fares by route from topic to topic, behind a gate: batches end in time.

    python examples/gate.py                          # with a broker and rows of its own
    python examples/gate.py --servers broker:9092    # on yours: reads the topic rides

A kept ride stands for `_weight` rides, so sums are of weights. `headgate init --source kafka` writes
such a job without code.
"""

from __future__ import annotations

from on_kafka import Stage, main
from pyspark.sql import functions as F

import headgate as hg

READS, WRITES = ("rides",), ("fares",)


def job(stage: Stage):
    """Gate first, then what is expensive."""
    rides = stage.rides("rides")
    calm = rides.transform(
        hg.gate(
            "rides",
            hold="2 seconds",
            keep="priority = 'high'",
            arrival="timestamp",
            identity=["partition", "offset"],
            control=stage.control,
        )
    )
    fares = calm.groupBy("route").agg(
        F.sum("_weight").alias("rides"), F.sum(F.col("_weight") * F.col("fare")).alias("fares")
    )
    return [stage.to_topic(fares, "fares", mode="update")]


if __name__ == "__main__":
    main(job, reads=READS, writes=WRITES)
