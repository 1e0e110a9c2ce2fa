"""Fair shares among queries and sites: the source information that a result has seen (themis-2016).

Pure numpy: no Spark, no clock, no files.
"""

from __future__ import annotations

from headgate.fairness.balance_sic import BalanceSic, Reading, Selection
from headgate.fairness.batches import Batch
from headgate.fairness.jain import jain, mean_jain
from headgate.fairness.mirror import Mirror, MirrorSettings
from headgate.fairness.random_shedding import RandomShedding
from headgate.fairness.water_level import Quotas, water_level

__all__ = [
    "BalanceSic",
    "Batch",
    "Mirror",
    "MirrorSettings",
    "Quotas",
    "RandomShedding",
    "Reading",
    "Selection",
    "jain",
    "mean_jain",
    "water_level",
]
