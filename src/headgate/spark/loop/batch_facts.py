"""What Spark can be asked of a batch besides its progress: task time, trigger, passes over the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.run.report import Report
from headgate.run.spec import Spec
from headgate.spark.loop.passes import Passes
from headgate.spark.loop.task_times import TaskTimes

__all__ = ["BatchFacts"]


class BatchFacts:
    """Asked once for each batch of a query's run; only for what somebody wants to know."""

    def __init__(self, spark: SparkSession) -> None:
        self._times = TaskTimes(spark)
        self._passes = Passes(spark)

    def added(
        self, reports: Mapping[str, Report], specs: Mapping[str, Spec | None], run: str,
        query: StreamingQuery | None,
    ) -> dict[str, Report]:  # fmt: skip
        """The reports of one batch, by name, with the facts that `specs` or a witness asks for."""
        found = dict(reports)
        self._measure(found, specs, run, query)
        self._ask_passes(found, run, query)
        return found

    def _measure(
        self, reports: dict[str, Report], specs: Mapping[str, Spec | None], run: str,
        query: StreamingQuery | None,
    ) -> None:  # fmt: skip
        """The trigger's interval, and the batch's task time for whoever wants to know."""
        interval = self._times.interval_s(run, query)
        asked = [name for name, spec in specs.items() if spec is not None and spec.measures_work]
        work = self._times.of_batch(run, reports[asked[0]].sample.batch_id) if asked else None
        for name, report in list(reports.items()):
            sample = replace(report.sample, interval_s=interval)
            if name in asked:
                sample = replace(sample, work_s=work)
            reports[name] = replace(report, sample=sample)

    def _ask_passes(self, reports: dict[str, Report], run: str, query: StreamingQuery | None) -> None:
        """Whether the batch was read to its end when it was read last."""
        for name, report in list(reports.items()):
            witness = report.witness
            if witness is None:
                continue
            if witness.rereads:
                whole = self._passes.whole(run, report.sample.batch_id, witness.handed_out)
                witness = replace(witness, whole=whole, added_up=self._passes.added_up)
            if witness.limits:
                cut = self._passes.cut_short(run, query, report.metric)
                witness = replace(witness, cut_short=cut)
            reports[name] = replace(report, witness=witness)

    def forget(self, run: str) -> None:
        """The run is over."""
        self._times.forget(run)
        self._passes.forget(run)
