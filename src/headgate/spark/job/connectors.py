"""Which connectors a job needs that Spark does not ship, and what to write where they cannot be had."""

from __future__ import annotations

from headgate.job.job import Job
from headgate.job.problems import Problem
from headgate.spark.versions.kafka import connector_of
from headgate.spark.versions.supported import installed
from headgate.spark.versions.tables import table_connector

__all__ = ["connector_problem", "needed_connectors"]

#: A part of the name of whatever brings each of them.
_BROUGHT_BY = {"kafka": "spark-sql-kafka", "delta": "delta-spark"}


def needed_connectors(job: Job) -> tuple[str, ...]:
    """``kafka`` and ``delta``, as far as the job uses them and its own settings do not bring them."""
    used = {job.source.format, job.sink.format}
    settings = [
        v for k, v in job.spark.conf.items() if k.startswith(("spark.jars", "spark.driver.extra"))
    ]
    brought = " ".join((*job.spark.packages, *settings))
    return tuple(kind for kind, part in _BROUGHT_BY.items() if kind in used and part not in brought)


def connector_problem(job: Job, kind: str, reason: str) -> Problem:
    """Why a connector is missing, where it is asked for, and what to write to bring it."""
    place = "source" if job.source.format == kind else "sink"
    coordinate = connector_of(installed()) if kind == "kafka" else ", ".join(_delta())
    bring = f'write [spark] packages = ["{coordinate}"]' if coordinate else "use another format"
    step = f"Spark's {kind} connector cannot be had here ({reason}): {bring}"
    more = ", or name its jars in spark.jars under [spark.conf]" if coordinate else ""
    return job.lines.problem((place, "format"), step + more)


def _delta() -> tuple[str, ...]:
    return table_connector("delta", installed())[:1]
