"""Themis-2016: SIC by its equations, the published cost model, and a central planner's optimum.

Pure numpy and scipy: no Spark, no clock, no files.
"""

from __future__ import annotations

from headgate_lab.papers.themis.anchors import Anchor, Fluid, fit, log_utility, max_min
from headgate_lab.papers.themis.cost_model import Capacity, CostModel, OverloadDetector
from headgate_lab.papers.themis.sic import (
    ResultWindow,
    SourceWindow,
    derived_sic,
    result_sic,
    window_sics,
)

__all__ = [
    "Anchor",
    "Capacity",
    "CostModel",
    "Fluid",
    "OverloadDetector",
    "ResultWindow",
    "SourceWindow",
    "derived_sic",
    "fit",
    "log_utility",
    "max_min",
    "result_sic",
    "window_sics",
]
