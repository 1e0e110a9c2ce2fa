"""The SIC of a query's results: measured where they come out, and handed to the site (Eq. 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.core.load import SicFlow
from headgate.run.report import Report
from headgate.run.run import Run
from headgate.run.spec import Spec
from headgate.sites.shared import SharedSite
from headgate.spark.gate.meter import by_name, finite, sample_of
from headgate.spark.loop.kinds import kind_of_report
from headgate.spark.loop.numbered_metrics import metric_named, metrics_of
from headgate.spark.sic.column import row_sic
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.places.place import Place

__all__ = ["ResultReport", "ResultSpec", "metered", "result_reports_in"]

_SUFFIX = ".result"


def metered(frame: DataFrame, query: str, spec: int) -> DataFrame:
    """The results, counted on their way out; `spec` is the number of their meter's spec.

    The call has no number: no worker could refuse a second one in the same stream, but Spark does.
    """
    return frame.observe(metric_named(query, "result", GateCall(spec=spec)), *_behind_result(row_sic()))


def _behind_result(sic: Column) -> list[Column]:
    return [F.count(F.lit(1)).alias("arrived"), F.sum(sic).alias("sic")]


@dataclass(frozen=True, kw_only=True)
class ResultReport(Report):
    """What Spark reported of one batch of results."""


@kind_of_report
def result_reports_in(progress: Mapping[str, Any]) -> dict[str, ResultReport]:
    """The report of every query whose results come out in this stream, by the name of its meter."""
    found = {}
    for metric, values in metrics_of(progress, "result"):
        seen = by_name(values)
        sample, _, _ = sample_of(progress, seen, kept=int(seen["arrived"]))
        sample = replace(sample, sic=SicFlow(max(0.0, finite(seen, "sic"))))
        query, name = str(progress["id"]), f"{metric.name}{_SUFFIX}"
        found[name] = ResultReport(query=query, sample=sample, spec=metric.call.spec, metric=str(metric))
    return found


@dataclass(frozen=True)
class ResultSpec(Spec):
    """A meter of results; it steers nothing, so it has no plan and no heartbeat."""

    of: str
    site: SharedSite = field(compare=False, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)
    steers: bool = field(default=False, kw_only=True)
    measures_work: bool = field(default=True, kw_only=True)

    @classmethod
    def named(cls, of: str, control: Place, site: SharedSite) -> ResultSpec:
        """The meter of a query's results; one in a session."""
        return cls(f"{of}{_SUFFIX}", control, of, site)

    def open(self, query: str) -> ResultRun:
        """The meter's run in one stream."""
        return ResultRun(self, query)


class ResultRun(Run[ResultSpec, ResultReport]):
    """The meter in one stream; the site keeps what it measures."""

    def take_up(self, report: ResultReport) -> None:
        """Hand the SIC of a batch of results to the site."""
        with self.spec.site as allocator:
            allocator.state.results(self.spec.of, report.sample, self.spec.clock())

    def pass_over(self, batch: int) -> None:
        """Ignore a batch without results: it says nothing about SIC."""
