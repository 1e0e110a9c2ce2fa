"""A session without Spark: it tells a control loop of queries and batches that somebody makes up."""

from __future__ import annotations

import json
import uuid
from collections import deque
from types import SimpleNamespace
from typing import Any

__all__ = ["PlayedQuery", "PlayedSession"]

#: Spark hands out the last hundred reports of a query; a loop that keeps up needs the last few.
_RECENT = 5


class PlayedQuery:
    """A query as its handle shows it: who it is, and what it reported last."""

    def __init__(self, query: str) -> None:
        self.id = query
        self.runId = uuid.uuid4().hex
        self._recent: deque[Any] = deque(maxlen=_RECENT)

    def report(self, progress: dict[str, Any]) -> Any:
        """A batch ended; the event that a listener gets."""
        text = json.dumps({"id": self.id, "runId": self.runId, **progress})
        self._recent.append(SimpleNamespace(batchId=progress["batchId"], json=text))
        return SimpleNamespace(progress=self._recent[-1])

    @property
    def lastProgress(self) -> Any:
        """The latest report, as Spark's query has it."""
        return self._recent[-1] if self._recent else None

    @property
    def recentProgress(self) -> list[Any]:
        """The latest reports, oldest first."""
        return list(self._recent)

    def exception(self) -> None:
        """None: this query never fails."""


class PlayedSession:
    """As much of a session as a control loop asks for: its streams, and that there is no JVM."""

    sparkContext = None

    def __init__(self) -> None:
        self.streams = self
        self._queries: dict[str, PlayedQuery] = {}
        self._listeners: list[Any] = []

    def addListener(self, listener: Any) -> None:
        """Tell this one of what happens."""
        self._listeners.append(listener)

    @property
    def active(self) -> list[PlayedQuery]:
        """The queries that run."""
        return list(self._queries.values())

    def get(self, query: str) -> PlayedQuery | None:
        """The query of this id, if it runs."""
        return self._queries.get(query)

    def start(self, query: str) -> PlayedQuery:
        """A run of a query begins."""
        self._queries[query] = played = PlayedQuery(query)
        for listener in self._listeners:
            listener.onQueryStarted(played)
        return played

    def stop(self, query: str) -> None:
        """The run of a query ends."""
        ended = self._queries.pop(query)
        for listener in self._listeners:
            listener.onQueryTerminated(ended)

    def report(self, query: str, progress: dict[str, Any]) -> None:
        """A batch of a query ended."""
        event = self._queries[query].report(progress)
        for listener in self._listeners:
            listener.onQueryProgress(event)
