"""While Spark is measured: its settings, and what Headgate warns of meanwhile."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "conf", "heard"]

#: Two partitions, and plans that do not change on the way.
SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}


@contextlib.contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str] = SETTINGS) -> Iterator[None]:
    """The session with these settings, and as it was afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """What Headgate warns of meanwhile, each sentence once, instead of on standard error."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage().partition(": ")[2]
            if record.levelno >= logging.WARNING and text not in said:
                said.append(text)

    log, listener = logging.getLogger("headgate"), Listener()
    before = log.propagate
    log.addHandler(listener)
    log.propagate = False
    try:
        yield said
    finally:
        log.removeHandler(listener)
        log.propagate = before
