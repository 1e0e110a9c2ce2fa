"""What queries report of their batches, as the JSON that Spark writes itself.

PySpark makes a Python object of every report that a listener gets, field by field: some eighty calls
into the JVM, and each map that it copies ends with a Java exception, for which a dozen classes are
looked for by name in every jar of the class path. Where batches are short that was a fifth of all CPU
time (JVM and Python; four modules of our tests, with and without in turn). The JSON is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Listener", "last_batch", "recent_reports"]


def last_batch(query: StreamingQuery) -> int:
    """The batch of the query's latest report; -1 before its first."""
    inside = _inside(query)
    last: Any = query.lastProgress if inside is None else inside.lastProgress()
    if last is None:
        return -1
    return int(last.batchId if inside is None else last.batchId())


def recent_reports(query: StreamingQuery) -> list[str]:
    """The reports that the query remembers, the oldest first."""
    inside = _inside(query)
    if inside is None:
        return [str(progress.json) for progress in query.recentProgress]
    return [str(progress.json()) for progress in inside.recentProgress()]


def _inside(query: StreamingQuery) -> Any:
    """The query in the JVM; None over Connect, where reports come as JSON anyway."""
    return getattr(query, "_jsq", None)


class Listener(StreamingQueryListener):
    """Hands on what queries say, as text, and does nothing else: Spark drops events of slow ones."""

    def __init__(
        self,
        started: Callable[[str], object],
        progress: Callable[[str], object],
        terminated: Callable[[str, str], object],
    ) -> None:
        self.started, self.progress, self.terminated = started, progress, terminated

    def onQueryStarted(self, event: Any) -> None:
        """A query begins: its id."""
        self.started(str(event.id))

    def onQueryProgress(self, event: Any) -> None:
        """A batch is over: the report."""
        self.progress(event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        """Pass over a trigger that found no data: it ran no batch."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query ended: its id and its run's."""
        self.terminated(str(event.id), str(event.runId))

    @property
    def _jlistener(self) -> Any:
        """What PySpark registers: the same events, before it has made Python objects of them."""
        wrapper = getattr(self, "_wrapper", None)
        if wrapper is None:
            from pyspark import SparkContext

            java: Any = SparkContext._jvm
            self._wrapper = wrapper = java.PythonStreamingQueryListenerWrapper(_FromJava(self))
        return wrapper


class _FromJava:
    """Called by Spark, from the JVM."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:
        self._listener.started(str(event.id().toString()))

    def onQueryProgress(self, event: Any) -> None:
        self._listener.progress(str(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._listener.terminated(str(event.id().toString()), str(event.runId().toString()))

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
