"""`Report`: what Spark reported of one batch, wherever it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.load import LoadSample
from headgate.core.witness import Witness

__all__ = ["Report"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What every kind of report has; gates, guards, joins and results add their own."""

    #: The streaming query, and its run where that matters.
    query: str
    run: str = ""
    sample: LoadSample
    #: The parts of the batch's duration in milliseconds, and where its rows are in its sources.
    parts_ms: Mapping[str, int] = field(default_factory=dict)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    #: What others say of the batch; None where the counts are not Spark's observed metrics.
    witness: Witness | None = None
    #: The number of the spec that the frame was made with; 0 if nobody knows.
    spec: int = 0
    #: The name under which Spark reported what arrived.
    metric: str = ""
    #: The groups of the batch as a bitmap, where a gate in front of the same join asks for them.
    present: bytes | None = None
