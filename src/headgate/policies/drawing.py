"""`Drawing`: how rows are drawn by the groups of their own batch, as a policy declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.core.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Quotas = Callable[["npt.NDArray[np.int64]", Plan], "npt.NDArray[np.int64]"]

__all__ = ["Drawing"]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Spark brings the rows of a group together and counts them; of each a number is kept, by hash.

    A rule of one's own is a function, `quotas`: from the rows of each group and the batch's plan to how
    many to keep. It runs in Spark's Python workers, in each for some of the groups, so what it says of a
    group must follow from that group's rows and the plan alone; then the same batch keeps the same rows
    however it is split. Fractions are rounded down; `least`, `overflow`, `accuracy` and `meeting` are
    not for it. Without it the rule is one of `headgate.policies.by_group.level`, by its name.

    >>> import numpy as np
    >>> at_most_5 = Drawing(by=("route",), rule="at most 5", quotas=lambda n, plan: np.minimum(n, 5))
    >>> at_most_5.quotas(np.array([50, 7, 2]), Plan(0.5)).tolist()
    [5, 5, 2]
    """

    #: The columns whose values make a group; null is a group like any other.
    by: tuple[str, ...]
    #: The rule's name: another name is another shape of the gate.
    rule: str
    quotas: Quotas | None = field(default=None, compare=False)
    #: Rows that every group keeps, and who yields where there are more groups than budget.
    least: int = 1
    overflow: str = "exceed"
    #: "fixed" numbers of rows, or a "coin" for each.
    draw: str = "fixed"
    #: The event time, and the pane and the window that a group's rows are of, in microseconds; 0: none.
    time: str | None = None
    pane_us: int = 0
    window_us: int = 0
    #: A numeric column whose mean and spread within the groups count.
    value: str | None = None
    #: What of, within, confidence, least rows: an accuracy that the numbers follow from.
    accuracy: tuple[str, float, float, int] | None = None
    #: Whether groups that the other stream of a join does not have keep the least.
    meeting: bool = False
    #: Whether a group's rows are counted over the whole batch, and not in each partition.
    whole: bool = True
