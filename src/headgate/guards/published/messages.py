"""What the operator tells the load shedder (las-2020, Figure 1, B and E)."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.sketches.cost_sketch import CostSketch

__all__ = ["Delta", "Pair"]


@dataclass(frozen=True)
class Pair:
    """The stable matrices <F, W>; the receiver owns them."""

    costs: CostSketch


@dataclass(frozen=True)
class Delta:
    """The reply to a synchronisation request: by how much C-hat is too small."""

    seconds: float
