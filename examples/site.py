"""Two queries of two teams on one Spark, at one site: both keep the same share of what they read.

    python examples/site.py                          # with a broker and rows of its own
    python examples/site.py --servers broker:9092    # on yours: reads the topics rides and requests

When one topic bursts, the other team's query does not starve. SIC is the share of a query's source data
that reaches its result: `headgate federation status` shows it for both.
"""

from __future__ import annotations

from on_kafka import Stage, main
from pyspark.sql import functions as F

import headgate as hg

READS, WRITES = ("rides", "requests"), ("rides-by-route", "requests-by-route")


def job(stage: Stage):
    """One site for all; each query has a gate in front of its source, and says where its result is."""
    site = stage.at_end.enter_context(
        hg.Site(stage.spark, "depot", control=stage.control, hold="2 seconds")
    )
    return [by_route(stage, site, "rides"), by_route(stage, site, "requests")]


def by_route(stage: Stage, site: hg.Site, topic: str):
    """Counts by route in windows of five seconds, with the SIC of each."""
    rows = stage.rides(topic).transform(
        site.gate(topic, query=f"{topic}-by-route", source=topic, identity=["partition", "offset"])
    )
    counts = (
        rows.withWatermark("timestamp", "5 seconds")
        .groupBy(F.window("timestamp", "5 seconds"), "route")
        .agg(F.sum("_weight").alias("rows"), hg.sic.total())
        .transform(site.result(f"{topic}-by-route"))
    )
    return stage.to_topic(counts, f"{topic}-by-route", every="2 seconds")


if __name__ == "__main__":
    main(job, reads=READS, writes=WRITES)
