"""`HoldTuning`: every number of the control law, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.control.arrivals import ArrivalSettings
from headgate.control.batch_cost import CostFit
from headgate.control.futility import FutilitySettings
from headgate.control.margin import MarginSettings

__all__ = ["HoldTuning", "WholeRule"]


@dataclass(frozen=True)
class WholeRule:
    """When batches run whole without a margin: while the load can be sustained.

    `enter` and `leave` are shares of the capacity, that is of the rows a second with which whole batches
    settle at the target.
    """

    #: A load below this share can be sustained; above it batches are cut to the aim. The fit's error
    #: is some 2 %, so a load at nine tenths of the capacity never gets there.
    enter: float = 0.95
    #: Once batches are cut, the load must fall below this one: at the edge it does not flap.
    leave: float = 0.93
    #: The longest that a whole batch may be expected to take after one that was late by chance; a share
    #: of the target.
    longest: float = 1.3
    #: Standard deviations of the fit by which a load must be too high before the first batch is cut.
    proof: float = 1.645
    #: Batches in which sizes that were never seen are trusted: there are no others yet.
    learning: int = 8


@dataclass(frozen=True)
class HoldTuning:
    """The parts' settings. People need none of them; `headgate bench hold-sweep` moves each."""

    cost: CostFit = field(default_factory=CostFit)
    margin: MarginSettings = field(default_factory=MarginSettings)
    arrivals: ArrivalSettings = field(default_factory=ArrivalSettings)
    whole: WholeRule = field(default_factory=WholeRule)
    futility: FutilitySettings = field(default_factory=FutilitySettings)
    #: For `HoldDelay`: where less than this share of the target is left for a batch, its rows are late
    #: whatever is done, and it is cut to that share so that fewer come late after it.
    least_room: float = 0.1
