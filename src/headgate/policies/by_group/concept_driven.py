"""`ConceptDriven`: shed within groups, by what the groups are in this very batch and window."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.core.plan_parts import DrawLevel
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.policies import Grouping, Policy
from headgate.policies.by_group.accuracy import Accuracy
from headgate.policies.by_group.allocation import OVERFLOWS, RULES, water_fill
from headgate.policies.by_group.level import Rule, grid, level_for
from headgate.policies.drawing import Drawing

__all__ = ["COUNTS", "CROWDED", "DRAWS", "PREFERENCES", "ConceptDriven", "crowded"]

#: Where the groups' rows are counted: over the whole batch, in each partition, or in earlier batches.
COUNTS = ("batch", "partition", "history")
#: How rows are chosen within a group.
DRAWS = ("fixed", "coin")
#: What gives way when a duration and an accuracy cannot both hold.
PREFERENCES = ("latency", "accuracy")
#: How a level grows with the batch: a rule whose shares grow like rows**x has the power 1 - x.
_POWERS = {"senate": 1.0, "need": 1.0, "sqrt": 0.5}
#: At most so much of a budget goes to the groups that earlier batches did not name.
_UNNAMED = 0.8

#: With more groups than this share of the rows, shedding by group hardly pays.
CROWDED = 0.1


def crowded(one_row_each: float) -> str:
    """What to tell people whose groups are nearly as many as their rows."""
    return (
        f"there are {one_row_each:.0%} as many groups as rows: a row of each is most of what can be "
        "saved; shed by fewer columns, or use hg.Uniform() if groups may go missing"
    )


@dataclass(frozen=True)
class ConceptDriven(Policy):
    """CoD (cod-2018): keep a sample of every group of every window, by the groups' own sizes.

    The paper estimates a window's concept from a sample of it; a group that the sample missed is then
    shed (section V) or kept whole (section VII-C2), and either breaks a promise. Here the rows of each
    group are counted exactly, in the batch and the pane of the window that they belong to, before any
    is shed; a group is never lost for being new or rare.

    Groups:
        by: the grouping column, or several; null is a group like any other.
        window, slide, time: as in ``F.window(time, window, slide)``; a sliding window is cut into
            panes, and each pane keeps its share of every group. Without them, the batch is the window.

    How the budget is divided:
        allocation: ``"senate"`` (equal caps; the least error of the groups' results), ``"congress"`` or
            ``"sqrt"`` (better totals), ``"proportional"``, ``"neyman"`` (needs `value`).
        value: a numeric column, whose spread within the groups counts.
        least: rows that every group keeps; 2 is the price of an error bar.
        overflow: with more groups than budget: ``"exceed"`` the budget, or let groups yield:
            ``"smallest"`` first, or ``"random"`` ones.

    How much:
        accuracy: an `Accuracy` to reach; beside ``hold=`` the rows go where they are needed for it.
        prefer: what wins when both cannot be had: ``"latency"`` or ``"accuracy"``.
        thrifty: keep no more than the accuracy needs even when there is time for more; so it is
            where no ``hold=`` is given.

    Where the rows are counted:
        counts: ``"batch"`` (exact, after a shuffle by group), ``"partition"`` (no shuffle: for topics
            keyed by the group, or few partitions), ``"history"`` (rates of the heavy groups of earlier
            batches, as a native filter: for groups that drift slowly). A batch DataFrame is always
            counted whole, in a native pass of its own.
        draw: ``"fixed"`` numbers of rows, counted weights; or a ``"coin"`` for each row, which is
            cheaper on a batch DataFrame, and misses groups that should keep few rows.

    In front of a join (see `headgate.gate_join`, which sets both):
        meets, within: the gate of the other stream, and for how long its rows wait in the join; a group
            that the other stream did not have for that long keeps the least.

    A group of N rows keeps clip(level x share, least, N) of them, where the share is 1 (*senate*), N
    (*proportional*), max(N, mean N) (*congress*), sqrt(N) (*sqrt*), N x deviation (*neyman*) or what the
    accuracy needs; a kept row weighs N / kept. The level is read off what the last batch's groups would
    have kept at each (`headgate.policies.by_group.level`).

    >>> policy = ConceptDriven("route", window="1 hour", slide="10 minutes", time="dropoff")
    >>> policy.pane_us // 60_000_000, policy.drawing.rule
    (10, 'senate')
    """

    by: str | tuple[str, ...]
    window: Duration | None = None
    slide: Duration | None = None
    time: str | None = None
    allocation: str = "senate"
    value: str | None = None
    least: int = 1
    overflow: str = "exceed"
    accuracy: Accuracy | None = None
    prefer: str = "latency"
    thrifty: bool = False
    counts: str = "batch"
    draw: str = "fixed"
    meets: str | None = None
    within: Duration | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", (self.by,) if isinstance(self.by, str) else tuple(self.by))
        if not self.by:
            raise BadArgument("by=(): name at least one grouping column, or use hg.Uniform()")
        if self.meets is None:
            self._check_window()
        for name, legal in (
            ("allocation", RULES), ("overflow", OVERFLOWS), ("counts", COUNTS), ("draw", DRAWS),
            ("prefer", PREFERENCES),
        ):  # fmt: skip
            if getattr(self, name) not in legal:
                raise BadArgument(
                    f"{name}={getattr(self, name)!r} is not one of {', '.join(map(repr, legal))}"
                )
        if isinstance(self.least, bool) or not isinstance(self.least, int) or self.least < 1:
            raise BadArgument(f"least={self.least!r}: give a whole number of rows, at least 1")
        if self.accuracy is not None and not isinstance(self.accuracy, Accuracy):
            raise BadArgument(
                f"accuracy={self.accuracy!r}: give hg.Accuracy('fare', within=0.02), which names a "
                "numeric column"
            )
        if self.accuracy is not None and self.counts == "history":
            raise BadArgument("accuracy= needs the rows of the batch itself: use counts='batch'")
        if self.allocation == "neyman" and self.value is None:
            raise BadArgument("allocation='neyman' needs value=, the numeric column whose spread counts")
        if self.allocation == "neyman" and self.counts == "history":
            raise BadArgument(
                "allocation='neyman' needs the rows of the batch itself: use counts='batch'"
            )
        if (self.meets is None) != (self.within is None) or (self.meets and self.time is None):
            raise BadArgument("meets=, within= and time= go together: use hg.gate_join, which sets them")
        if self.accuracy is not None and self.overflow != "exceed":
            raise BadArgument(
                f"overflow={self.overflow!r} beside accuracy=: an accuracy is for every group, so none "
                "can yield; leave overflow out"
            )
        if self.thrifty and self.accuracy is None:
            raise BadArgument("thrifty=True needs accuracy=, which says how much is enough")
        if self.accuracy is not None and self.allocation != "senate":
            raise BadArgument(
                f"allocation={self.allocation!r} beside accuracy=: an accuracy divides the budget by "
                "need; leave allocation out"
            )

    def _check_window(self) -> None:
        if self.window is None:
            if self.slide is not None or self.time is not None:
                raise BadArgument("slide= and time= need window=, the size of the window")
            return
        if self.time is None:
            raise BadArgument("window= needs time=, the timestamp column that the windows are cut by")
        if self.slide is not None and self.slide_s > self.window_s:
            raise BadArgument(
                f"slide={self.slide!r} is longer than window={self.window!r}: rows between the windows "
                "would be in none; give window= first, then a slide= of at most that"
            )

    @property
    def window_s(self) -> float:
        """The window's size in seconds; infinite without one."""
        return math.inf if self.window is None else seconds(self.window, "window")

    @property
    def slide_s(self) -> float:
        """The window's slide in seconds."""
        return self.window_s if self.slide is None else seconds(self.slide, "slide")

    @property
    def within_s(self) -> float | None:
        """For how long rows of the other stream wait in the join, in seconds; None without a join."""
        return None if self.within is None else seconds(self.within, "within")

    @property
    def pane_us(self) -> int:
        """The longest pane, in microseconds, that every window is made of whole ones of; 0 without."""
        if self.window is None:
            return 0
        return math.gcd(round(self.window_s * 1e6), round(self.slide_s * 1e6))

    @property
    def same_batch(self) -> bool:
        """Whether rows are drawn by the groups of their own batch."""
        return self.counts != "history"

    @property
    def grouping(self) -> Grouping:
        """Groups that a plan names; those of a batch's own groups are in no plan."""
        return Grouping() if self.same_batch else Grouping(columns=tuple(self.by))

    @property
    def counts_groups(self) -> bool:
        """Rates from earlier batches need the heavy groups of each."""
        return not self.same_batch

    def on_its_own(self) -> ConceptDriven | None:
        """With an accuracy: what it needs, and no more."""
        return None if self.accuracy is None else replace(self, thrifty=True)

    @property
    def drawing(self) -> Drawing | None:
        """Rows are drawn by a level, unless earlier batches decide."""
        if not self.same_batch:
            return None
        wish = self.accuracy
        return Drawing(
            by=tuple(self.by),
            rule=self.rule().name,
            least=self.least,
            overflow=self.overflow,
            draw=self.draw,
            time=self.time,
            pane_us=self.pane_us,
            window_us=0 if self.window is None else round(self.window_s * 1e6),
            value=self.value if wish is None else wish.of,
            accuracy=None if wish is None else (wish.of, wish.within, wish.confidence, wish.least_rows),
            meeting=self.meets is not None,
            whole=self.counts == "batch",
        )

    def rule(self, reference: float = 1.0) -> Rule:
        """The allocation in its level form."""
        name = "need" if self.accuracy is not None else self.allocation
        return Rule(name, self.least, self.overflow, reference)

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        """The level at which the last batch's groups would have filled the budget."""
        if not self.same_batch:
            return self._by_history(budget, groups)
        if budget.keep >= 1.0:
            if self.accuracy is None or not self.thrifty:
                return Plan(1.0)
            return Plan(1.0, draw=DrawLevel(1.0, rule=self.rule().name, span_us=groups.span_us))
        if budget.keep <= 0.0:
            return Plan(0.0)
        level, reference = self._level(budget, groups), self._reference(budget, groups)
        if self.accuracy is not None and self.prefer == "accuracy":
            level = max(1.0, level or 1.0)
        if level is not None and self.accuracy is not None and self.thrifty:
            level = min(1.0, level)
        if level is None and groups.present is None:
            return Plan(budget.keep)  # nothing is known of how groups fill a budget
        rule = self.rule().name
        return Plan(budget.keep, draw=DrawLevel(level, reference, rule, groups.span_us, groups.present))

    def _growth(self, budget: Budget, groups: GroupStats) -> float:
        """How many times larger the next batch is expected to be than the last."""
        if budget.rows is None or groups.total <= 0:
            return 1.0
        # A thrifty policy's controller thinks in the rows that are needed, not in those that come.
        offered = self._kept_at(1.0, groups) if self.thrifty else float(groups.total)
        return budget.rows / budget.keep / max(1.0, offered)

    @staticmethod
    def _curve(groups: GroupStats) -> npt.NDArray[np.float64] | None:
        """The rows of the last batch that each level would have kept; None while no batch has told."""
        strata = groups.strata
        if strata is None or not strata.curve or groups.total <= 0:
            return None
        return np.asarray(strata.curve)

    def _kept_at(self, level: float, groups: GroupStats) -> float:
        """The rows of the last batch that a level would have kept; all of them while none has told."""
        curve = self._curve(groups)
        if curve is None:
            return float(groups.total)
        return float(np.interp(level, grid(self.rule().name), curve))

    def would_keep(self, plan: Plan, groups: GroupStats) -> float | None:
        """The share of the last batch's rows that a plan would have kept, where a curve tells."""
        if plan.level is None or self._curve(groups) is None:
            return None
        return min(1.0, self._kept_at(plan.level, groups) / groups.total)

    def _reference(self, budget: Budget, groups: GroupStats) -> float:
        strata = groups.strata or Strata(0)
        if self.allocation == "congress" and strata.count:
            return self._growth(budget, groups) * groups.total / strata.count
        return strata.deviation if self.allocation == "neyman" and strata.deviation > 0 else 1.0

    def _level(self, budget: Budget, groups: GroupStats) -> float | None:
        """Read off the last batch's curve, stretched to the rows that are expected of the next one."""
        curve = self._curve(groups)
        if curve is None:
            return None
        rule, growth = self.rule(), self._growth(budget, groups)
        rows = budget.keep * groups.total if budget.rows is None else budget.rows
        if growth <= 0.0:
            return None
        level = level_for(rows / growth, grid(rule.name), curve)
        return float(level * growth ** _POWERS.get(rule.name, 0.0))

    def _by_history(self, budget: Budget, groups: GroupStats) -> Plan:
        """Rates for the heavy groups of the last batch; a group that it did not name is kept whole,
        unless such rows alone would fill the budget."""
        if budget.keep >= 1.0 or not groups.counts or groups.total <= 0:
            return Plan(budget.keep)
        keys = list(groups.counts)
        sizes = np.array([groups.counts[k] for k in keys], np.int64)
        rows = budget.keep * groups.total
        rest = max(0.0, groups.total - float(sizes.sum()))
        default = min(1.0, _UNNAMED * rows / rest) if rest > 0 else 1.0
        left = max(0.0, rows - default * rest)
        shares = self.rule(groups.total / len(keys)).shares(sizes)
        quotas = water_fill(shares, np.zeros_like(sizes), sizes, min(left, float(sizes.sum())))
        rates = np.minimum(1.0, quotas / np.maximum(sizes, 1))
        return Plan(default, dict(zip(keys, rates.tolist(), strict=True)))

    def remark(self, plan: Plan, groups: GroupStats) -> str:
        """What people should know of a batch under this plan, if anything."""
        if self.accuracy is not None and plan.level is not None and plan.level != 1.0:
            met = plan.level >= 1.0
            error = self.accuracy.within / math.sqrt(min(plan.level, 1e6))
            wanted = f"{self.accuracy.within:.3g} asked for"
            if not met:
                return f"accuracy yields to latency: error about {error:.2g}, {wanted}"
        if self.accuracy is not None and plan.level is None and plan.default < 1.0:
            return "kept what fits, which may be less than the accuracy needs"
        yields = self.prefer == "accuracy" and not self.thrifty and plan.default < 1.0
        if self.accuracy is not None and yields and plan.level == 1.0:
            return "latency yields to accuracy: kept what the accuracy needs"
        least = groups.one_row_each
        if least > plan.default and plan.level is not None:
            what = "exceeded" if self.overflow == "exceed" else f"{self.overflow} groups yield"
            return f"more groups than budget ({what}): one row of each is {least:.1%} of the rows"
        return crowded(least) if least > CROWDED and not plan.keeps_everything else ""
