"""Delta and Iceberg for a session of yours: the jars that belong to the PySpark installed here.

From Maven artifacts, like the Kafka connector (`headgate.testing.broker`), into the same cache. Where
there is no connector for this Spark, or its jars cannot be had, `ArtifactsUnavailable` says why; tests
turn that into a skip.
"""

from __future__ import annotations

import time
from pathlib import Path

from headgate.errors import BadArgument
from headgate.spark.versions.supported import installed
from headgate.spark.versions.tables import TABLE_FORMATS, table_connector
from headgate.testing.artifacts import ArtifactsUnavailable, resolve
from headgate.testing.broker import Artifacts

__all__ = ["CATALOG", "table_format", "table_settings"]

#: The catalog of Iceberg tables in `table_settings`.
CATALOG = "lake"
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def table_format(kind: str, timeout: float = 300.0) -> Artifacts:
    """The jars of ``delta`` or ``iceberg`` for the PySpark installed here."""
    if kind not in TABLE_FORMATS:
        raise BadArgument(f"kind={kind!r}: give one of {', '.join(TABLE_FORMATS)}")
    jars = table_connector(kind, installed())
    if not jars:
        raise ArtifactsUnavailable(f"there is no {kind} connector for Spark {installed()} yet")
    return Artifacts(resolve(kind, jars, time.monotonic() + timeout, transitive=False))


def table_settings(kind: str, warehouse: str | Path) -> dict[str, str]:
    """What a session must be built with to read and write tables of this kind."""
    settings = {
        **table_format(kind).spark_conf(),
        "spark.sql.extensions": _EXTENSIONS[kind],
        "spark.sql.warehouse.dir": str(warehouse),
    }
    if kind == "delta":
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        return {**settings, "spark.sql.catalog.spark_catalog": catalog}
    return {
        **settings,
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(warehouse),
    }
