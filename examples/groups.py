"""Median fares by route over a sliding window, shed by group: rare routes keep their rows.

    python examples/groups.py                          # with a broker and rows of its own
    python examples/groups.py --servers broker:9092    # on yours: reads the topic rides

Every route keeps about as many rows in each window, busy or not, so the median of a rare route is as
good as that of a busy one; and each comes with its error.
"""

from __future__ import annotations

from on_kafka import Stage, main
from pyspark.sql import functions as F

import headgate as hg

READS, WRITES = ("rides",), ("medians",)


def job(stage: Stage):
    """A concept-driven gate in front of exact medians, which are what costs."""
    rides = stage.rides("rides").withWatermark("timestamp", "10 seconds")
    by_route = hg.ConceptDriven(by="route", window="10 seconds", slide="5 seconds", time="timestamp")
    calm = rides.transform(
        hg.gate(
            "medians",
            policy=by_route,
            hold="3 seconds",
            identity=["partition", "offset"],
            control=stage.control,
        )
    )
    medians = calm.groupBy(F.window("timestamp", "10 seconds", "5 seconds"), "route").agg(
        hg.median("fare").alias("fare"), hg.count().alias("rides")
    )
    return [stage.to_topic(medians, "medians", mode="update", every="2 seconds")]


if __name__ == "__main__":
    main(job, reads=READS, writes=WRITES)
