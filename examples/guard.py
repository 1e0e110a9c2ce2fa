"""An expensive function whose cost depends on the row, with a guard: rows wait about as long as allowed.

    python examples/guard.py                          # with a broker and rows of its own
    python examples/guard.py --servers broker:9092    # on yours: reads the topic rides

The guard learns what each route costs, and drops the rows that it has no time for, dear ones first.
"""

from __future__ import annotations

import time

from on_kafka import Stage, main

import headgate as hg

READS, WRITES = ("rides",), ("enriched",)


def enrich(ride):
    """Stands for a call to another service: 0.1 ms for most routes, 5 ms for ten of them."""
    time.sleep(0.005 if ride.route.startswith("route-4") else 0.0001)
    return {"id": ride.id, "route": ride.route, "grade": "dear" if ride.fare > 20 else "cheap"}


def job(stage: Stage):
    """The function's results, with how long each row waited and how many it stands for."""
    enriched = hg.guard(
        stage.rides("rides"),
        enrich,
        schema="id BIGINT, route STRING, grade STRING",
        key="route",
        arrival="timestamp",
        target=hg.average("5 seconds"),
        name="enrich",
        control=stage.control,
    )
    return [stage.to_topic(enriched, "enriched")]


if __name__ == "__main__":
    main(job, reads=READS, writes=WRITES)
