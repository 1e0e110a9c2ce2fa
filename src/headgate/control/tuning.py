"""`HoldTuning`: every number of the control law, with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.control.arrivals import ArrivalSettings
from headgate.control.batch_cost import CostFit
from headgate.control.futility import FutilitySettings
from headgate.control.margin import MarginSettings
from headgate.control.start_up import StartUpSettings
from headgate.control.what_fits import WholeRule

__all__ = ["HoldTuning"]


@dataclass(frozen=True)
class HoldTuning:
    """The parts' settings. People need none of them; `headgate bench hold-sweep` moves each."""

    cost: CostFit = field(default_factory=CostFit)
    margin: MarginSettings = field(default_factory=MarginSettings)
    arrivals: ArrivalSettings = field(default_factory=ArrivalSettings)
    whole: WholeRule = field(default_factory=WholeRule)
    futility: FutilitySettings = field(default_factory=FutilitySettings)
    start_up: StartUpSettings = field(default_factory=StartUpSettings)
    #: For `HoldDelay`: where less than this share of the target is left for a batch, its rows are late
    #: whatever is done, and it is cut to that share so that fewer come late after it.
    least_room: float = 0.1
