"""CoD, concept-driven load shedding (cod-2018): which rows of a window, by the window's own concept.

Pure numpy: no Spark, no clock, no files.
"""

from __future__ import annotations

from headgate.policies.by_group.allocation import OVERFLOWS, RULES, Allocation, allocate
from headgate_lab.papers.cod.buffers import MultipleBuffers, SingleBuffer
from headgate_lab.papers.cod.cod import GroupConcept, cod_shed, group_concept
from headgate_lab.papers.cod.drift import (
    concept_overlap,
    footrule_distance,
    hellinger_distance,
    top_k,
    total_variation,
)
from headgate_lab.papers.cod.joins import (
    JOIN_RULES,
    JoinKept,
    JoinRows,
    cod_join_shed,
    uniform_join_shed,
)
from headgate_lab.papers.cod.queries import (
    AGGREGATES,
    aggregate,
    estimate,
    mean_rate,
    missing_share,
    relative_error,
    relative_errors,
    sum_rate,
)
from headgate_lab.papers.cod.readings import CONCEPT_DRIVEN, READINGS, Reading
from headgate_lab.papers.cod.reservoir import MergingReservoir, Reservoir
from headgate_lab.papers.cod.rows import WindowRows
from headgate_lab.papers.cod.single_scan import ShedWindow, SingleScan
from headgate_lab.papers.cod.uniform import uniform_shed
from headgate_lab.papers.cod.windows import CountWindows, SessionWindows, Span, TimeWindows

__all__ = [
    "AGGREGATES",
    "CONCEPT_DRIVEN",
    "JOIN_RULES",
    "OVERFLOWS",
    "READINGS",
    "RULES",
    "Allocation",
    "CountWindows",
    "GroupConcept",
    "JoinKept",
    "JoinRows",
    "MergingReservoir",
    "MultipleBuffers",
    "Reading",
    "Reservoir",
    "SessionWindows",
    "ShedWindow",
    "SingleBuffer",
    "SingleScan",
    "Span",
    "TimeWindows",
    "WindowRows",
    "aggregate",
    "allocate",
    "cod_join_shed",
    "cod_shed",
    "concept_overlap",
    "estimate",
    "footrule_distance",
    "group_concept",
    "hellinger_distance",
    "mean_rate",
    "missing_share",
    "relative_error",
    "relative_errors",
    "sum_rate",
    "top_k",
    "total_variation",
    "uniform_join_shed",
    "uniform_shed",
]
