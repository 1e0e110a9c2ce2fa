"""Fair shares among queries and sites: the source information that a result has seen (themis-2016).

Pure numpy: no Spark, no clock, no files.
"""

from __future__ import annotations

from headgate.fairness.anchors import Anchor, Fluid, fit, log_utility, max_min
from headgate.fairness.balance_sic import BalanceSic, Reading, Selection
from headgate.fairness.batches import Batch
from headgate.fairness.cost_model import Capacity, CostModel, OverloadDetector
from headgate.fairness.jain import jain, mean_jain
from headgate.fairness.mirror import Mirror, MirrorSettings
from headgate.fairness.random_shedding import RandomShedding
from headgate.fairness.sic import ResultWindow, SourceWindow, derived_sic, result_sic, window_sics
from headgate.fairness.water_level import Quotas, water_level

__all__ = [
    "Anchor",
    "BalanceSic",
    "Batch",
    "Capacity",
    "CostModel",
    "Fluid",
    "Mirror",
    "MirrorSettings",
    "OverloadDetector",
    "Quotas",
    "RandomShedding",
    "Reading",
    "ResultWindow",
    "Selection",
    "SourceWindow",
    "derived_sic",
    "fit",
    "jain",
    "log_utility",
    "max_min",
    "mean_jain",
    "result_sic",
    "water_level",
    "window_sics",
]
