"""The class by which Spark writes checkpoints through a file system's plain operations."""

from __future__ import annotations

from headgate.spark.versions.supported import SparkVersion, installed

__all__ = ["by_file_system"]

_STREAMING = "org.apache.spark.sql.execution.streaming"
#: Spark's own classes for checkpoints have a package of their own since then.
_OWN_PACKAGE = SparkVersion(4, 1)


def by_file_system(version: SparkVersion | None = None) -> dict[str, str]:
    """The setting that chooses it, for a session that this process builds.

    >>> name, chosen = by_file_system(SparkVersion(4, 0)).popitem()
    >>> chosen
    'org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager'
    """
    version = version or installed()
    older = version is not None and version < _OWN_PACKAGE
    package = _STREAMING if older else f"{_STREAMING}.checkpointing"
    manager = f"{package}.FileSystemBasedCheckpointFileManager"
    return {"spark.sql.streaming.checkpointFileManagerClass": manager}
