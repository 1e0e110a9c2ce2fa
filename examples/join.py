"""Two topics joined by what their rows have in common, with a CPU budget: the best comparisons are made.

    python examples/join.py                          # with a broker and rows of its own
    python examples/join.py --servers broker:9092    # on yours: reads the topics rides and requests

A ride and a request match if they are of one route and within ten seconds. When all comparisons would
take longer than the target, those are made that yield most; the ledger says how complete the result is.
"""

from __future__ import annotations

from on_kafka import Stage, main

import headgate as hg

READS, WRITES = ("rides", "requests"), ("pairs",)


def job(stage: Stage):
    """A windowed equality join; hg.overlap, hg.subset and others take sets and weights."""
    stage.spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    columns = ("id", "route", "timestamp")
    rides, requests = (
        stage.rides(topic).select(*columns).withWatermark("timestamp", "10 seconds")
        for topic in ("rides", "requests")
    )
    pairs = hg.join(
        rides,
        requests,
        on=hg.equal("route"),
        within="10 seconds",
        time="timestamp",
        hold="3 seconds",
        budget="2 cores",
        name="pairs",
        control=stage.control,
    )
    return [stage.to_topic(pairs, "pairs", every="2 seconds")]


if __name__ == "__main__":
    main(job, reads=READS, writes=WRITES, rate=100)
