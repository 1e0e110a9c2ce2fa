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
    from headgate.spark.gate import gate

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
    "gate",
]

_ON_SPARK = {"gate": "headgate.spark.gate"}


def __getattr__(name: str) -> Any:
    if name in _ON_SPARK:
        return getattr(importlib.import_module(_ON_SPARK[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
