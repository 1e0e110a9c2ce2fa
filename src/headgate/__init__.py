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
    from headgate.spark.backfill import backfill, recount
    from headgate.spark.gate import gate
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
    "backfill",
    "file_rows",
    "gate",
    "kafka_rows",
    "recount",
]

_ON_SPARK = {
    "backfill": "headgate.spark.backfill",
    "file_rows": "headgate.spark.offsets",
    "gate": "headgate.spark.gate",
    "kafka_rows": "headgate.spark.offsets",
    "recount": "headgate.spark.backfill",
}


def __getattr__(name: str) -> Any:
    if name in _ON_SPARK:
        importlib.import_module("headgate.spark.session")  # says which extra is missing
        return getattr(importlib.import_module(_ON_SPARK[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
