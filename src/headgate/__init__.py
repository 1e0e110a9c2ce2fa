"""Headgate: load shedding for Spark Structured Streaming.

The names below are the public ones. Those that need Spark are loaded when they are first used, so
that the core imports without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headgate.control import Controller, ControllerConfig, FixedRate, HoldDelay, HoldDuration
from headgate.errors import (
    BadArgument,
    ControlFolderError,
    GuardedFunctionError,
    HeadgateError,
    MissingExtra,
    SnapshotError,
    UnknownColumn,
    UnsupportedSpark,
    WorkerError,
    WrongKindOfFrame,
)
from headgate.load import Budget, Concept, LoadSample
from headgate.plan import Plan
from headgate.policies import Grouping, GroupRates, Policy, Uniform, ValueClasses

if TYPE_CHECKING:
    from headgate.las.targets import absolute, average, sliding
    from headgate.spark.backfill import backfill, recount
    from headgate.spark.gate import gate
    from headgate.spark.guard import guard
    from headgate.spark.offsets import file_rows, kafka_rows

__version__ = "0.1.0"

__all__ = [
    "BadArgument",
    "Budget",
    "Concept",
    "ControlFolderError",
    "Controller",
    "ControllerConfig",
    "FixedRate",
    "GroupRates",
    "Grouping",
    "GuardedFunctionError",
    "HeadgateError",
    "HoldDelay",
    "HoldDuration",
    "LoadSample",
    "MissingExtra",
    "Plan",
    "Policy",
    "SnapshotError",
    "Uniform",
    "UnknownColumn",
    "UnsupportedSpark",
    "ValueClasses",
    "WorkerError",
    "WrongKindOfFrame",
    "__version__",
    "absolute",
    "average",
    "backfill",
    "file_rows",
    "gate",
    "guard",
    "kafka_rows",
    "recount",
    "sliding",
]

_LATER = {
    "absolute": "headgate.las.targets",
    "average": "headgate.las.targets",
    "sliding": "headgate.las.targets",
}
_ON_SPARK = {
    "backfill": "headgate.spark.backfill",
    "file_rows": "headgate.spark.offsets",
    "gate": "headgate.spark.gate",
    "guard": "headgate.spark.guard",
    "kafka_rows": "headgate.spark.offsets",
    "recount": "headgate.spark.backfill",
}


def __getattr__(name: str) -> Any:
    if name in _ON_SPARK:
        importlib.import_module("headgate.spark.session")  # says which extra is missing
        return getattr(importlib.import_module(_ON_SPARK[name]), name)
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
