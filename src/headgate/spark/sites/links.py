"""Links between fragments: a topic, or a folder of files, that carries rows and their SIC.

The fragments of a query run at different sites, each its own Spark application. What one makes the next
reads: as JSON, with the columns of the fragment's result, ``_sic`` among them. Kafka where there is a
broker; a shared folder does where there is none. Files give each row once. Spark's Kafka sink may send
the rows of a batch again that runs again; their SIC is then counted twice in their window.

The schema is given on the reading side, as nobody may have written yet; what does not fit it is null,
and a row whose ``_sic`` is null counts as SIC 0 (`headgate.spark.sic.column`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.errors import BadArgument, ControlFolderError, WrongKindOfFrame
from headgate.spark.session import session_of  # first: it says which extra is missing

# isort: split
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import DataType, StructType

from headgate.spark.sic.column import SIC, require_sic
from headgate.spark.sites.kafka_topic import ensure_topic

__all__ = ["FileLink", "KafkaLink"]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TIMESTAMPS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def _checked(schema: str) -> str:
    try:
        parsed = StructType.fromDDL(schema)
    except (PySparkException, ValueError, TypeError) as error:
        said = str(error).strip().splitlines() or [""]
        raise BadArgument(
            f"schema={schema!r} is no list of columns ({said[0]}): write it as "
            "'at timestamp, value double, _sic double'"
        ) from error
    if not isinstance(parsed, StructType) or SIC not in parsed.names:
        raise BadArgument(
            f"schema={schema!r} has no {SIC}: a link carries the SIC of its rows; add '{SIC} double'"
        )
    return schema


def _as_text(frame: DataFrame, schema: str) -> DataFrame:
    """The rows as JSON, if the columns are the link's: others would be null at the other end."""
    if not frame.isStreaming:
        raise WrongKindOfFrame("a link is for streams, and this DataFrame is a batch")
    require_sic(frame)
    given, asked = _types(frame.schema), _types(StructType.fromDDL(schema))
    wrong = [f"{name} {kind} is missing" for name, kind in asked.items() if name not in given]
    wrong += [f"{name} is not in the link's schema" for name in given if name not in asked]
    wrong += [
        f"{name} is {given[name]} and the link has {kind}"
        for name, kind in asked.items()
        if given.get(name, kind) != kind
    ]
    if wrong:
        raise BadArgument(
            f"these rows do not fit the link ({'; '.join(wrong)}): select and cast columns before "
            "write, or correct schema= at both ends"
        )
    return frame.select(F.to_json(F.struct("*"), _TIMESTAMPS).alias("value"))


def _types(schema: DataType) -> dict[str, str]:
    assert isinstance(schema, StructType)
    return {field.name: field.dataType.simpleString() for field in schema.fields}


@dataclass(frozen=True)
class FileLink:
    """A link over a folder that both sites can read and write."""

    path: str | os.PathLike[str]
    schema: str

    def __post_init__(self) -> None:
        _checked(self.schema)
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise BadArgument(f"path={self.path!r}: give a folder that both sites can read and write")

    def _folder(self) -> Path:
        folder = Path(os.fspath(self.path)).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ControlFolderError(
                f"link {os.fspath(self.path)!r} cannot be used ({error.strerror or error}): give a "
                "folder that both sites can read and write"
            ) from error
        return folder

    def write(self, frame: DataFrame) -> DataStreamWriter:
        """A writer for a fragment's stream; give it a checkpoint and a trigger, and start it."""
        session_of(frame)
        writer = _as_text(frame, self.schema).writeStream.format("text").outputMode("append")
        return writer.option("path", str(self._folder()))

    def read(self, spark: SparkSession) -> DataFrame:
        """A stream of the rows that the other end wrote."""
        lines = spark.readStream.format("text").load(str(self._folder()))
        return lines.select(F.from_json("value", self.schema, _TIMESTAMPS).alias("row")).select("row.*")


@dataclass(frozen=True)
class KafkaLink:
    """A link over a topic. `options` go to Spark's reader and writer: ``kafka.security.protocol``."""

    servers: str
    topic: str
    schema: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _checked(self.schema)
        if not isinstance(self.servers, str) or ":" not in self.servers:
            raise BadArgument(f"servers={self.servers!r}: write them as 'host:9092,other:9092'")
        if not isinstance(self.topic, str) or not _TOPIC.fullmatch(self.topic):
            raise BadArgument(
                f"topic={self.topic!r}: 1 to 249 letters, digits, '.', '_' or '-', as Kafka asks"
            )

    def write(self, frame: DataFrame) -> DataStreamWriter:
        """A writer for a fragment's stream; give it a checkpoint and a trigger, and start it."""
        spark, text = session_of(frame), _as_text(frame, self.schema)
        ensure_topic(spark, self.servers, self.topic, self.options)
        writer = text.writeStream.format("kafka").outputMode("append")
        return writer.options(
            **{"kafka.bootstrap.servers": self.servers, "topic": self.topic, **self.options}
        )

    def read(self, spark: SparkSession) -> DataFrame:
        """The rows that came, as a stream, from the topic's beginning; it is made if need be."""
        ensure_topic(spark, self.servers, self.topic, self.options)
        reader = spark.readStream.format("kafka").options(
            **{
                "kafka.bootstrap.servers": self.servers,
                "subscribe": self.topic,
                "startingOffsets": "earliest",
                **self.options,
            }
        )
        text = F.col("value").cast("string")
        parsed = reader.load().select(F.from_json(text, self.schema, _TIMESTAMPS).alias("row"))
        return parsed.select("row.*")
