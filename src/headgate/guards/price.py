"""A price on work: dear tuples are dropped first, and the queue moves the price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headgate.errors import BadArgument

__all__ = ["BALANCED", "Price", "PriceRule"]


@dataclass(frozen=True)
class PriceRule:
    """How a price becomes a chance, and how the queue moves it.

    With ``level = theta * exp(kp * x)``, ``x = clip((tau - q) / tau, -2, 1)``, a tuple of cost w is kept

    - "hard": if ``w <= level``. The fewest drops; but dear keys vanish, and no weight brings them back.
    - "soft": with chance ``min(1, (level / w) ** gamma)``. Every key stays visible; more drops.
    - "balanced": with chance ``min(1, sqrt(spread / (w / level - 1)))``. Of all rules that keep the same
      work, it has the least ``drops + spread * variance of the weighted count``: set the derivative of
      ``sum((1 - p) + spread * (1/p - 1) + w p / level)`` to 0. `spread` = 0 would be the hard price.

    theta moves by ``exp(ki * x)`` with every tuple. No rule here is in the papers. `headgate bench
    guard-numbers` sweeps every number.

    A target on a mean allows single waits above it. While the mean of recent waits is clearly below the
    target, tau in x is larger: a queue that holds its target without drops need not drop at its peaks.
    Who knows when a row's turn should come (`LookAhead`) gives that instead of tau.
    """

    shape: Literal["hard", "soft", "balanced"] = "balanced"
    #: How steeply a soft price falls with cost; 1 keeps the same work of every key above the price.
    gamma: float = 1.0
    #: What a drop costs a balanced price, against the variance of the weighted count. More of it drops
    #: more and counts better; `PriceShedding` has the table.
    spread: float = 0.005
    #: How far the price follows the queue at once: an empty queue raises it by a third, and a wait of
    #: two targets lowers it by a quarter.
    kp: float = 0.3
    #: How far it follows with every tuple: fifty tuples at an empty queue multiply it by e. With a look
    #: ahead it only corrects, and a quarter of it keeps as many rows; before a queue of two or three
    #: tuples 0.01 drops 1 % less.
    ki: float = 0.02
    #: What is left, a tuple later, of the dearest cost seen, so that a price can come down from it.
    fade: float = 0.9999
    #: The share of the dearest cost that a price never falls below: from there it must find its way
    #: back.
    lowest: float = 1e-3
    #: Rows over whose waits a price takes a mean. With fewer it drops more where nothing need
    #: be dropped; with twice of it rows wait two targets instead of 1.6 when every cost doubles.
    recent: float = 2000.0
    #: The share of the target below which that mean is a credit. In overload a price holds 0.95 of the
    #: target and more, so nothing changes there.
    spare: float = 0.95
    #: By how many targets a wait may be above the target for each one that the mean is below `spare`.
    credit: float = 40.0
    #: By how many at most: the waits of a queue that is at nine tenths of its capacity.
    most_credit: float = 8.0

    def __post_init__(self) -> None:
        if self.shape not in ("hard", "soft", "balanced"):
            raise BadArgument(f"shape={self.shape!r}: one of 'hard', 'soft', 'balanced'")
        for name, value, legal in (
            ("gamma", self.gamma, self.gamma > 0), ("spread", self.spread, self.spread > 0),
            ("kp", self.kp, self.kp >= 0), ("ki", self.ki, self.ki > 0),
            ("recent", self.recent, self.recent >= 1), ("spare", self.spare, self.spare > 0),
            ("credit", self.credit, self.credit >= 0),
            ("most_credit", self.most_credit, self.most_credit >= 0),
        ):  # fmt: skip
            if not legal or math.isinf(value):
                raise BadArgument(
                    f"{name}={value!r}: give a finite number above 0 (recent is at least 1; kp, credit "
                    "and most_credit may be 0)"
                )
        for name, value in (("fade", self.fade), ("lowest", self.lowest)):
            if not 0 < value <= 1:
                raise BadArgument(f"{name}={value!r}: give a share above 0 and at most 1")

    def chance(self, cost_s: float, level_s: float) -> float:
        """The chance of a cost at a level of the price.

        >>> PriceRule("soft").chance(2.0, 1.0), PriceRule("hard").chance(2.0, 1.0)
        (0.5, 0.0)
        >>> PriceRule("balanced", spread=0.04).chance(2.0, 1.0)
        0.2
        """
        if cost_s <= level_s:
            return 1.0
        if self.shape == "hard" or level_s <= 0.0:
            return 0.0
        if self.shape == "soft":
            return math.pow(level_s / cost_s, self.gamma)
        return min(1.0, math.sqrt(self.spread / (cost_s / level_s - 1.0)))


#: The default rule.
BALANCED = PriceRule()


class Price:
    """The price at work. While the queue is short it is open: it stays at the dearest cost seen.

    >>> price = Price(PriceRule(), tau_s=0.01)
    >>> price.chance(cost_s=0.002, wait_s=0.0)
    1.0
    """

    def __init__(self, rule: PriceRule, tau_s: float) -> None:
        self._rule, self._tau = rule, tau_s
        self.theta_s = 0.0
        self.dearest_s = 0.0
        #: The mean of recent waits, and of how many.
        self.mean_s = 0.0
        self.seen = 0.0

    def reset(self, level_s: float | None, dearest_s: float) -> None:
        """Set it for tuples that cost `dearest_s` at most; None opens it."""
        self.dearest_s = max(self.dearest_s, dearest_s)
        self.theta_s = self.dearest_s if level_s is None else level_s

    def credit(self) -> float:
        """By how many targets a wait may be above the target, because waits were short lately."""
        rule = self._rule
        if self._tau <= 0.0:
            return 0.0
        spare = rule.credit * (rule.spare - self.mean_s / self._tau)
        return min(rule.most_credit, spare) if spare > 0.0 else 0.0

    def chance(self, cost_s: float, wait_s: float, aim_s: float | None = None) -> float:
        """The chance of a tuple with this cost, when it would wait this long and should wait `aim_s`.

        Without an aim it is the target, and what credit there is.
        """
        rule = self._rule
        aim = self._tau * (1.0 + self.credit()) if aim_s is None else aim_s
        if self.seen < rule.recent:
            self.seen += 1.0
        self.mean_s += (wait_s - self.mean_s) / self.seen
        opened = self.theta_s >= self.dearest_s
        faded = self.dearest_s * rule.fade
        self.dearest_s = faded if faded > cost_s else cost_s
        if opened:
            self.theta_s = self.dearest_s
            if wait_s <= aim:
                return 1.0  # an open price with room: it stays where it is, and nothing is dearer
        x = self._room(wait_s, aim)
        level = self.theta_s * math.exp(rule.kp * x)
        theta = self.theta_s * math.exp(rule.ki * x)
        self.theta_s = min(self.dearest_s, max(rule.lowest * self.dearest_s, theta))
        return rule.chance(cost_s, level)

    def _room(self, wait_s: float, aim_s: float) -> float:
        if self._tau <= 0.0:
            return 1.0 if wait_s <= 0.0 else -2.0
        return min(1.0, max(-2.0, (aim_s - wait_s) / self._tau))

    def state(self) -> list[float]:
        """What it knows, for a snapshot."""
        return [self.theta_s, self.dearest_s, self.mean_s, self.seen]

    def restore(self, state: list[float]) -> None:
        """Go on from `state`."""
        self.theta_s, self.dearest_s, *waits = state
        if waits:  # 0.1.0 had none
            self.mean_s, self.seen = waits
