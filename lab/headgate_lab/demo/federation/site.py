"""One site of the demo: a process of its own with a Spark of its own, which runs its fragments.

The parent writes a *turn* (which shedding, how long, where); the site runs it and writes that it is
done. All turns run in one Spark, so that only the first pays for its start.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.demo.session import quiet_session
from headgate.store.folder import read_json, write_json
from headgate_lab.demo.federation.plan import LINKS, Federation, Fragment
from headgate_lab.demo.table1 import aggregate, avg_all, cov, top5
from headgate_lab.demo.table1_sources import Readings

# isort: split
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["run"]


class SiteOfDemo:
    """Runs a turn's streams."""

    def __init__(self, spark: SparkSession, name: str, plan: Federation, turn: dict[str, Any]) -> None:
        self._spark, self._name, self._plan = spark, name, plan
        self._turn, self._folder = turn, Path(turn["folder"])
        self._site = hg.Site(
            spark,
            name,
            control=self._folder / name,
            coordinator=turn["coordinator"],
            hold=plan.trigger_s,
            rows_per_s=plan.capacity[name],
            stw=plan.stw_s,
            delay=1.5 * plan.trigger_s,
            shedding=turn["shedding"],
            seed=plan.seed,
        )

    def run(self) -> None:
        """Start, wait until the turn is over, stop."""
        streams = [self._start(f) for f in self._plan.fragments if f.site == self._name]
        write_json(Path(self._turn["started"]) / f"{self._name}.json", {})
        over = Path(self._turn["over"])
        while not over.exists():
            time.sleep(0.5)
            for stream in streams:
                if not stream.isActive:
                    raise RuntimeError(f"a stream ended: {stream.exception()}")
        for stream in streams:
            stream.stop()
        self._site.stop()

    def _start(self, fragment: Fragment) -> StreamingQuery:
        plan = self._plan
        self._site.query(fragment.query, sources=[f.source for f in plan.of_query(fragment.query)])
        own = self._readings(fragment)
        gate = self._site.gate(
            fragment.name, query=fragment.query, source=fragment.source,
            identity=["at", "source"], start=0.1,
        )  # fmt: skip
        own = self._costly(own.transform(gate))
        derived = [self._derived(fragment, site) for site in fragment.takes]
        rows = _BUILD[fragment.kind](own, derived, fragment.gives is None, self._watermark(fragment))
        if fragment.gives is None:
            rows = rows.transform(self._site.result(fragment.query))
            writer = rows.writeStream.format("noop").outputMode("append")
        else:
            writer = self._link(fragment.query, self._name, fragment.gives).write(rows)
        checkpoint = self._folder / self._name / "checkpoints" / fragment.name
        return (
            writer.queryName(f"{fragment.name}-{self._turn['number']}")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=f"{plan.trigger_s} seconds")
            .start()
        )

    def _watermark(self, fragment: Fragment) -> float:
        """A fragment waits a few triggers longer for each link on the way to it."""
        return 0.5 + 2.5 * self._plan.trigger_s * self._plan.depth(fragment)

    def _readings(self, fragment: Fragment) -> DataFrame:
        plan = self._plan
        number = plan.fragments.index(fragment)
        nodes = {"cov": 2, "top5": 5}.get(fragment.kind, 10)
        # Two nodes read as often as ten: every source sends alike. TOP-5 reads CPU and memory.
        rate = plan.rows_per_s // (2 * nodes if fragment.kind == "top5" else nodes)
        made = Readings(
            kind="mixed", sources=nodes, rate=rate, seed=plan.seed + number,
            first_id=100 * number, burst_factor=plan.burst_factor, burst_share=plan.burst_share,
            burst_s=plan.trigger_s,
        )  # fmt: skip
        if fragment.kind == "top5":
            return made.both(self._spark)
        return made.pairs(self._spark) if fragment.kind == "cov" else made.cpu(self._spark)

    def _costly(self, rows: DataFrame) -> DataFrame:
        """Arithmetic that stands for whatever is done to a reading; its condition always holds."""
        spent = F.expr(
            f"aggregate(sequence(1, {self._plan.rounds}), double(source), (s, i) -> sin(s) + i)"
        )
        return rows.where(spent > F.lit(-1e300))

    def _link(self, query: str, giver: str, taker: str) -> hg.FileLink | hg.KafkaLink:
        kind = next(f.kind for f in self._plan.of_query(query))
        name = f"{query}-{giver}-{taker}"
        if self._turn["kafka"]:
            topic = f"{name}-{self._turn['number']}"
            return hg.KafkaLink(self._turn["kafka"], topic, LINKS[kind])
        return hg.FileLink(self._folder / "links" / name, LINKS[kind])

    def _derived(self, fragment: Fragment, giver: str) -> DataFrame:
        rows = self._link(fragment.query, giver, self._name).read(self._spark)
        name = f"{fragment.name}-from-{giver}"
        return rows.transform(self._site.gate(name, query=fragment.query, start=1.0))


_Build = Callable[[DataFrame, list[DataFrame], bool, float], DataFrame]


def _single(function: str) -> _Build:
    return lambda own, derived, root, mark: aggregate(own, function, watermark=mark)


_BUILD: dict[str, _Build] = {
    "avg": _single("avg"),
    "max": _single("max"),
    "count": _single("count"),
    "avg-all": lambda own, derived, root, mark: avg_all(own, derived, root=root, watermark=mark),
    "top5": lambda own, derived, root, mark: top5(own, None, derived, watermark=mark),
    "cov": lambda own, derived, root, mark: cov(own, None, derived, root=root, watermark=mark),
}


def run(folder: Path, name: str) -> None:
    """Take turns until there is none."""
    given = read_json(folder / "plan.json")
    plan = Federation.from_json(given["plan"])
    with quiet_session(
        folder / "spark" / name, given["memory"], master="local[2]", name=f"headgate-{name}",
        more=given["settings"],
    ) as spark:  # fmt: skip
        write_json(folder / "ready" / f"{name}.json", {})
        number = 0
        while True:
            turn = read_json(folder / "turns" / f"{number}.json")
            if turn is None:
                time.sleep(0.1)
                continue
            if turn.get("last"):
                return
            SiteOfDemo(spark, name, plan, turn).run()
            write_json(folder / "done" / f"{number}-{name}.json", {})
            number += 1


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]), sys.argv[2])
    except Exception as error:
        said = f"{type(error).__name__}: {error}".partition("=== Streaming Query")[0][:500].strip()
        write_json(Path(sys.argv[1]) / "failed" / f"{sys.argv[2]}.json", {"said": said})
        print(json.dumps({"failed": said}), file=sys.stderr)
        raise
