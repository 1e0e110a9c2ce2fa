"""The settings with which a job's session is built: its own, and the connectors that it needs."""

from __future__ import annotations

from collections.abc import Callable

from headgate.job.job import Job
from headgate.job.problems import JobProblems
from headgate.spark.job.connectors import connector_problem, needed_connectors
from headgate.testing.artifacts import ArtifactsUnavailable

__all__ = ["session_settings"]

#: Spark's own default, which a session for trials on two cores would not have.
_PARTITIONS = {"spark.sql.shuffle.partitions": "200"}


def session_settings(job: Job, note: Callable[[str], None]) -> dict[str, str]:
    """Settings of Spark's; raises `JobProblems` where a connector cannot be had.

    `note` hears what is worth a word, such as a connector of another release.
    """
    settings: dict[str, str] = {} if job.spark.master.startswith("local") else dict(_PARTITIONS)
    jars: list[str] = []
    problems = []
    for kind in needed_connectors(job):
        try:
            found = _connector(kind, note)
        except ArtifactsUnavailable as error:
            problems.append(connector_problem(job, kind, error.reason))
            continue
        jars += found.pop("spark.jars", "").split(",")
        settings |= found
    if problems:
        raise JobProblems(job.lines.file, problems)
    settings |= job.spark.conf
    given = (settings.get("spark.jars", ""), settings.get("spark.jars.packages", ""))
    for name, own, more in (
        ("spark.jars", given[0], jars),
        ("spark.jars.packages", given[1], job.spark.packages),
    ):
        both = [part for part in (own, *more) if part]
        if both:
            settings[name] = ",".join(both)
    return settings


def _connector(kind: str, note: Callable[[str], None]) -> dict[str, str]:
    if kind == "kafka":
        from headgate.testing.broker import connector

        note("looking for Spark's Kafka connector (it is fetched if it is not there yet) ...")
        found = connector()
        if found.stand_in:
            note(found.stand_in)
        return found.spark_conf()
    from headgate.testing.table_formats import table_settings

    settings = table_settings(kind, "")
    settings.pop("spark.sql.warehouse.dir")
    return settings
