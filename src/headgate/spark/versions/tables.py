"""Which Delta and Iceberg connectors belong to which Spark; as Maven coordinates, without Spark."""

from __future__ import annotations

from headgate.spark.versions.supported import NEWEST, SparkVersion

__all__ = ["TABLE_FORMATS", "table_connector"]

#: The jars of each format by Spark's release line: each alone, since Spark ships what else they need.
_JARS: dict[str, dict[str, tuple[str, ...]]] = {
    "delta": {
        line: (
            f"io.delta:delta-spark_{line}_2.13:4.4.0",
            *(f"io.delta:delta-{part}:4.4.0" for part in ("storage", "kernel-api", "kernel-defaults")),
            "io.delta:delta-kernel-unitycatalog:4.4.0",
        )
        for line in ("4.0", "4.1", "4.2")
    },
    "iceberg": {
        "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
        "4.1": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    },
}
TABLE_FORMATS = tuple(_JARS)


def table_connector(kind: str, version: SparkVersion | None) -> tuple[str, ...]:
    """The jars of a table format for this Spark; none where there are none for it.

    >>> table_connector("iceberg", SparkVersion.read("4.1.4"))
    ('org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0',)
    >>> table_connector("delta", SparkVersion.read("4.3.0"))
    ()
    """
    line = version or NEWEST
    return _JARS[kind].get(f"{line.major}.{line.minor}", ())
