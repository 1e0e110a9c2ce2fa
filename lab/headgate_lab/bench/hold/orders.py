"""What a process that runs queries is told, as plain values: they cross over as JSON.

Standard library alone: the process may run another release of Headgate, which knows nothing of this one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Answer", "Query", "RunOrder", "Shedding", "Source", "TruthOrder"]


@dataclass(frozen=True)
class Source:
    """Where rows come from, and the most that a batch takes of it.

    `rate` is Spark's own, each of whose rows is multiplied by the entry of `copies` for its stretch of
    time since `began`. `kafka` and `files` have messages ``first id,rows,event ms,arrival ms``, each of
    which stands for so many rows.
    """

    kind: str
    rows_per_second: int = 0
    copies: tuple[int, ...] = ()
    tick_s: float = 1.0
    began: float = 0.0
    bootstrap: str = ""
    topic: str = ""
    folder: str = ""
    #: ``maxOffsetsPerTrigger``, or ``maxFilesPerTrigger``.
    cap: int | None = None


@dataclass(frozen=True)
class Shedding:
    """What stands between the source and the query: nothing, a filter at a fixed rate, or a gate."""

    how: str = "nothing"
    rate: float = 1.0
    hold_s: float = 0.0
    control: str = ""


@dataclass(frozen=True)
class Query:
    """The exact median of some hundred groups over a sliding window, as in the demo.

    With `results` it takes the mean, too, by the rows' own event time; the last answer for each window
    and group is written there as Parquet.
    """

    roads: int = 300
    window: str = "10 seconds"
    slide_s: int = 2
    watermark: str = "2 seconds"
    trigger_s: float = 1.0
    results: str = ""


@dataclass(frozen=True)
class RunOrder:
    """Run a query, and hand back its batches.

    When it has started the process says so, and is told until when (seconds since 1970): what a start
    takes on a busy machine is no part of a run.
    """

    source: Source
    shedding: Shedding
    checkpoint: str
    target_s: float
    query: Query = field(default_factory=Query)
    #: End before its time once so many batches in a row were inside the target.
    enough_inside: int | None = None
    #: End before its time once so many batches have ended, and so many seconds have passed.
    enough_batches: int | None = None
    least_s: float = 0.0
    do: str = "run"


@dataclass(frozen=True)
class TruthOrder:
    """Read all that a topic or folder holds, and write what the query would have said of it."""

    source: Source
    query: Query
    do: str = "truth"


@dataclass(frozen=True)
class Answer:
    """What became of an order: the batches of a run, or the rows of the truth."""

    batches: tuple[dict[str, Any], ...] = ()
    query_id: str = ""
    rows: int = 0
    #: When the query was stopped.
    ended_at: float = 0.0


def to_line(order: RunOrder | TruthOrder | Answer) -> str:
    """One line of JSON."""
    return json.dumps(asdict(order))


def order_from(line: str) -> RunOrder | TruthOrder:
    """The order of a line."""
    given = json.loads(line)
    given["source"]["copies"] = tuple(given["source"]["copies"])
    given["source"], given["query"] = Source(**given["source"]), Query(**given["query"])
    if given["do"] == "truth":
        return TruthOrder(**given)
    given["shedding"] = Shedding(**given["shedding"])
    return RunOrder(**given)
