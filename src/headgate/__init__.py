"""Headgate: load shedding for Spark Structured Streaming.

The names below are the public ones. Those that need Spark are loaded when they are first used, so
that the core imports without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headgate.control import Controller, ControllerConfig, FixedRate, HoldDelay, HoldDuration
from headgate.core.groups import GroupStats
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.core.plan import Plan
from headgate.core.rescue import Rescue
from headgate.errors import (
    BadArgument,
    ControlFolderError,
    CoordinatorGone,
    CoordinatorRefused,
    DamagedFile,
    GuardedFunctionError,
    HeadgateError,
    MissingExtra,
    NamedTwice,
    NotAsRecorded,
    OwnedElsewhere,
    RescueRefused,
    ShapeChanged,
    SnapshotError,
    UnknownColumn,
    UnsupportedSpark,
    WorkerError,
    WrongKindOfFrame,
)
from headgate.log_lines import keep_to_one_line
from headgate.policies import Drawing, Grouping, GroupRates, Policy, Uniform, ValueClasses

keep_to_one_line()

if TYPE_CHECKING:
    from headgate.guards.targets import absolute, average, sliding
    from headgate.joins.conditions import equal, inner_product, overlap, predicate, subset, superset
    from headgate.policies.by_group.accuracy import Accuracy
    from headgate.policies.by_group.concept_driven import ConceptDriven
    from headgate.spark import sic
    from headgate.spark.backfill.backfill import backfill, recount
    from headgate.spark.backfill.offsets import file_rows, kafka_rows
    from headgate.spark.backfill.repaired import Repairable, repaid_batches
    from headgate.spark.backfill.repay import repay
    from headgate.spark.doctor.call import doctor
    from headgate.spark.dropped.reading import dropped
    from headgate.spark.estimates.estimators import (
        count,
        difference,
        mean,
        median,
        pooled,
        quantile,
        ratio,
        sum,
        together,
        total,
    )
    from headgate.spark.gate.call import gate
    from headgate.spark.groups.gate_join import gate_join
    from headgate.spark.guard.call import guard
    from headgate.spark.join.call import join
    from headgate.spark.sites.links import FileLink, KafkaLink
    from headgate.spark.sites.site import Site
    from headgate.spark.tables.delta import delta_rows
    from headgate.spark.tables.iceberg import iceberg_rows
    from headgate.view.status import Status, status

__version__ = "0.2.0.dev0"

__all__ = [
    "Accuracy",
    "BadArgument",
    "Budget",
    "ConceptDriven",
    "ControlFolderError",
    "Controller",
    "ControllerConfig",
    "CoordinatorGone",
    "CoordinatorRefused",
    "DamagedFile",
    "Drawing",
    "FileLink",
    "FixedRate",
    "GroupRates",
    "GroupStats",
    "Grouping",
    "GuardedFunctionError",
    "HeadgateError",
    "HoldDelay",
    "HoldDuration",
    "KafkaLink",
    "LoadSample",
    "MissingExtra",
    "NamedTwice",
    "NotAsRecorded",
    "OwnedElsewhere",
    "Plan",
    "Policy",
    "ReadLimit",
    "Repairable",
    "Rescue",
    "RescueRefused",
    "ShapeChanged",
    "Site",
    "SnapshotError",
    "Status",
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
    "count",
    "delta_rows",
    "difference",
    "doctor",
    "dropped",
    "equal",
    "file_rows",
    "gate",
    "gate_join",
    "guard",
    "iceberg_rows",
    "inner_product",
    "join",
    "kafka_rows",
    "mean",
    "median",
    "overlap",
    "pooled",
    "predicate",
    "quantile",
    "ratio",
    "recount",
    "repaid_batches",
    "repay",
    "sic",
    "sliding",
    "status",
    "subset",
    "sum",
    "superset",
    "together",
    "total",
]

_LATER = {
    "Status": "headgate.view.status",
    "Accuracy": "headgate.policies.by_group.accuracy",
    "ConceptDriven": "headgate.policies.by_group.concept_driven",
    "absolute": "headgate.guards.targets",
    "average": "headgate.guards.targets",
    "equal": "headgate.joins.conditions",
    "inner_product": "headgate.joins.conditions",
    "overlap": "headgate.joins.conditions",
    "predicate": "headgate.joins.conditions",
    "subset": "headgate.joins.conditions",
    "superset": "headgate.joins.conditions",
    "sliding": "headgate.guards.targets",
    "status": "headgate.view.status",
}
_ON_SPARK = {
    "backfill": "headgate.spark.backfill.backfill",
    "count": "headgate.spark.estimates.estimators",
    "delta_rows": "headgate.spark.tables.delta",
    "doctor": "headgate.spark.doctor.call",
    "dropped": "headgate.spark.dropped.reading",
    "file_rows": "headgate.spark.backfill.offsets",
    "gate": "headgate.spark.gate.call",
    "gate_join": "headgate.spark.groups.gate_join",
    "guard": "headgate.spark.guard.call",
    "iceberg_rows": "headgate.spark.tables.iceberg",
    "join": "headgate.spark.join.call",
    "kafka_rows": "headgate.spark.backfill.offsets",
    "difference": "headgate.spark.estimates.estimators",
    "pooled": "headgate.spark.estimates.estimators",
    "together": "headgate.spark.estimates.estimators",
    "total": "headgate.spark.estimates.estimators",
    "mean": "headgate.spark.estimates.estimators",
    "median": "headgate.spark.estimates.estimators",
    "quantile": "headgate.spark.estimates.estimators",
    "ratio": "headgate.spark.estimates.estimators",
    "recount": "headgate.spark.backfill.backfill",
    "Repairable": "headgate.spark.backfill.repaired",
    "repaid_batches": "headgate.spark.backfill.repaired",
    "repay": "headgate.spark.backfill.repay",
    "FileLink": "headgate.spark.sites.links",
    "KafkaLink": "headgate.spark.sites.links",
    "Site": "headgate.spark.sites.site",
    "sic": "headgate.spark.sic",
    "sum": "headgate.spark.estimates.estimators",
}
#: What people may look for and no sample can tell: calling one says why, and what to do instead.
_REFUSED = (
    "approx_count_distinct", "collect_list", "collect_set", "count_distinct", "first", "last", "max",
    "max_by", "min", "min_by", "mode", "stddev", "variance",
)  # fmt: skip
_ON_SPARK |= dict.fromkeys(_REFUSED, "headgate.spark.estimates.not_estimable")


def __getattr__(name: str) -> Any:
    if name in _ON_SPARK:
        importlib.import_module("headgate.spark.session")  # says which extra is missing
        if name == "sic":
            return importlib.import_module("headgate.spark.sic")
        return getattr(importlib.import_module(_ON_SPARK[name]), name)
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
