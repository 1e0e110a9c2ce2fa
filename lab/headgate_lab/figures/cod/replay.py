"""Real data through real Spark streams, as fast as they go, behind the shipped gates.

The pure figures shed complete windows; a gate sheds micro-batches and does not know what comes. Here
every slide is one file and one batch, the gate's budget is a share of it, and the error of each window
is taken as in the pure ones (`headgate_lab.figures.cod.policies`), of the weighted mean of what passed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate_lab.figures.cod.data import Source, StreamRows, stream_of
from headgate_lab.figures.cod.policies import ERROR, ERROR_P95, KEPT, MISSING, OURS, UNIFORM
from headgate_lab.figures.sweep import Sample
from headgate_lab.papers.cod import aggregate, missing_share, relative_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ON_SPARK", "replay", "replayed_on_spark"]

#: What is added to the name of a policy that a stream was really put through.
ON_SPARK = " (Spark stream)"


def replayed_on_spark(points: Iterable[tuple[str, Source, float]]) -> list[Sample]:
    """Uniform and ours at every place whose data are real; nothing for made streams."""
    found: list[Sample] = []
    with (
        tempfile.TemporaryDirectory(prefix="headgate-replay-", ignore_cleanup_errors=True) as scratch,
        _session(scratch) as spark,
    ):
        for number, (x, source, keep) in enumerate(points):
            if source.made:
                continue
            rows = stream_of(source)
            for policy in (UNIFORM, OURS):
                folder = Path(scratch) / f"{number}-{policy}"
                found.append((x, policy + ON_SPARK, replay(spark, rows, policy, keep, folder)))
    return found


@contextmanager
def _session(scratch: str) -> Iterator[SparkSession]:
    """The session that is there, or one for as long as it takes."""
    from pyspark.sql import SparkSession

    from headgate.demo.session import quiet_session

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with quiet_session(Path(scratch) / "spark", master="local[2]", name="headgate-figures") as spark:
        yield spark


def replay(
    spark: SparkSession, rows: StreamRows, policy: str, keep: float, folder: Path
) -> dict[str, float]:
    """One stream through one gate, and the metrics of its windows."""
    _write(rows, folder / "in")
    schema = "id bigint, at timestamp, key bigint"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    gated = stream.transform(_gate(rows, policy, keep, folder / "control")).select("id", "_weight")
    writer = gated.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    kept = spark.read.parquet(str(folder / "out")).toArrow()
    return _metrics(rows, kept["id"].to_numpy(), kept["_weight"].to_numpy())


def _gate(rows: StreamRows, policy: str, keep: float, control: Path) -> Any:
    import headgate as hg

    which = None
    if policy == OURS:
        which = hg.ConceptDriven(by="key", window=rows.size, slide=rows.slide, time="at")
    return hg.gate("replay", rate=keep, policy=which, identity="id", control=control)


def _write(rows: StreamRows, folder: Path) -> None:
    """A file for each slide, in order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    slides = (rows.instants // rows.slide).astype(np.int64)
    for slide in np.unique(slides):
        ids = np.flatnonzero(slides == slide)
        times = pa.array((rows.instants[ids] * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
        table = pa.table({"id": ids, "at": times, "key": rows.keys[ids]})
        pq.write_table(table, folder / f"{slide:06d}.parquet")


def _metrics(rows: StreamRows, ids: Any, weights: Any) -> dict[str, float]:
    weight = np.zeros(len(rows.keys))
    weight[ids] = weights
    errors, missing = [], []
    for start in rows.starts:
        low, high = np.searchsorted(rows.instants, (start, start + rows.size))
        keys, values, w = rows.keys[low:high], rows.values[low:high], weight[low:high]
        _, codes = np.unique(keys, return_inverse=True)
        groups = int(codes.max()) + 1
        exact = aggregate("mean", codes, values, groups)
        with np.errstate(invalid="ignore"):
            found = np.bincount(codes, w * values, groups) / np.bincount(codes, w, groups)
        errors.append(relative_error(exact, found))
        missing.append(missing_share(exact, found))
    return {
        ERROR: float(np.mean(errors)),
        ERROR_P95: float(np.percentile(errors, 95)),
        KEPT: len(ids) / len(rows.keys),
        MISSING: float(np.mean(missing)),
    }
