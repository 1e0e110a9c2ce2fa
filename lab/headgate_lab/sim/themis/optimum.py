"""A laid-out federation as a fluid, for the anchors of `headgate_lab.papers.themis.anchors`.

The lexicographic max-min optimum knows all loads and decides for all nodes at once; it keeps every
derived tuple and cuts sources at will. Bursts are not in it: it has mean rates.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate_lab.papers.themis.anchors import Fluid, max_min
from headgate_lab.sim.themis.layout import Layout

__all__ = ["fluid", "optimum"]


def fluid(layout: Layout) -> Fluid:
    """A row for each fragment that has sources; derived tuples take their part of the capacity first."""
    rows = layout.shares > 0.0
    return Fluid(
        query=layout.fragment_query[rows],
        node=layout.fragment_node[rows],
        load=layout.fragment_load[rows],
        sic=layout.shares[rows],
        capacity=np.maximum(0.0, layout.capacity - layout.derived_load),
    )


def optimum(layout: Layout) -> npt.NDArray[np.float64]:
    """The fairest q_SIC of every query that the capacities allow."""
    return np.asarray(max_min(fluid(layout)).q_sic, np.float64)
