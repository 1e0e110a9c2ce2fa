"""Batches of a query that runs all year: more rows by day than by night, and at noon more than fit."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

from headgate.core.plan import Plan
from headgate.spark.gate.meter import metric_names
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall

__all__ = ["MadeUpLoad"]

_DAY_S = 86_400.0
#: A batch takes so long, and a row so much longer.
_FIXED_S, _ROW_S = 2.0, 1e-4
_ROWS = 350_000


class MadeUpLoad:
    """What Spark would report of each batch at one gate, behind a Kafka topic of one partition."""

    def __init__(self, gate: str, seed: int = 1, call: GateCall = UNKNOWN_CALL) -> None:
        self._in_front, self._behind, _ = metric_names(gate, call)
        self._random, self._offset = random.Random(seed), 0

    def progress(self, batch: int, at: float, plan: Plan) -> dict[str, Any]:
        """A batch that began at this time, and met this plan."""
        wave = 1.0 - 0.8 * math.cos(2.0 * math.pi * (at % _DAY_S) / _DAY_S)
        arrived = round(_ROWS * wave * self._random.uniform(0.9, 1.1))
        kept = round(arrived * plan.default)
        took_ms = round(1e3 * (_FIXED_S + _ROW_S * kept) * self._random.uniform(0.95, 1.05))
        source = {
            "description": "KafkaV2[Subscribe[rides]]",
            "startOffset": {"rides": {"0": self._offset}},
            "endOffset": {"rides": {"0": self._offset + arrived}},
            "latestOffset": {"rides": {"0": self._offset + arrived}},
            "numInputRows": arrived,
        }
        self._offset += arrived
        behind = {
            "kept": kept,
            "fingerprint_xor": self._random.getrandbits(62),
            "fingerprint_sum": kept * self._random.getrandbits(31),
            "weight": plan.default_weight,
        }
        return {
            "batchId": batch,
            "timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            "numInputRows": arrived,
            "durationMs": {"addBatch": took_ms - 150, "latestOffset": 3, "triggerExecution": took_ms},
            "stateOperators": [],
            "sources": [source],
            "sink": {"description": "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1"},
            "observedMetrics": {
                self._in_front: {"arrived": arrived},
                self._behind: behind,
            },
        }
