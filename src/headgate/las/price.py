"""A price on work: dear tuples are dropped first, and the queue moves the price."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.errors import BadArgument

__all__ = ["Price", "PriceRule"]

#: The dearest cost seen counts less by this with every tuple, so that a price can come down from it.
_FORGET = 0.9999
#: A price never falls below this share of the dearest cost: from there it must find its way back.
_LOWEST = 1e-3


@dataclass(frozen=True)
class PriceRule:
    """How a price becomes a chance, and how the queue moves it.

    A tuple of cost w is kept with chance ``min(1, (level / w) ** gamma)``, at least `floor`, where
    ``level = theta * exp(kp * x)``, ``x = clip((tau - q) / tau, -2, 1)``, and theta moves by ``exp(ki * x)``
    with every tuple. `gamma` = inf is the hard price: all or nothing.
    """

    gamma: float = 1.0
    kp: float = 0.3
    ki: float = 0.01
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.gamma > 0 or not self.kp >= 0 or not self.ki > 0:
            raise BadArgument(
                f"gamma={self.gamma!r}, kp={self.kp!r}, ki={self.ki!r}: gamma > 0 (1 is soft, inf hard), "
                "kp >= 0, ki > 0"
            )
        if not 0 <= self.floor < 1:
            raise BadArgument(f"floor={self.floor!r}: the least chance of any tuple, 0 <= floor < 1")


class Price:
    """The price at work. While the queue is short it is open: it stays at the dearest cost seen.

    >>> price = Price(PriceRule(gamma=1.0), tau_s=0.01)
    >>> price.chance(cost_s=0.002, wait_s=0.0)
    1.0
    """

    def __init__(self, rule: PriceRule, tau_s: float) -> None:
        self._rule, self._tau = rule, tau_s
        self.theta_s = 0.0
        self.dearest_s = 0.0

    def chance(self, cost_s: float, wait_s: float) -> float:
        """The chance of a tuple with this cost, when it would wait this long."""
        rule = self._rule
        opened = self.theta_s >= self.dearest_s
        self.dearest_s = max(self.dearest_s * _FORGET, cost_s)
        if opened:
            self.theta_s = self.dearest_s
        x = self._room(wait_s)
        level = self.theta_s * math.exp(rule.kp * x)
        theta = self.theta_s * math.exp(rule.ki * x)
        self.theta_s = min(self.dearest_s, max(_LOWEST * self.dearest_s, theta))
        if cost_s <= level:
            return 1.0
        if math.isinf(rule.gamma):
            return rule.floor
        return max(rule.floor, math.pow(level / cost_s, rule.gamma))

    def _room(self, wait_s: float) -> float:
        if self._tau <= 0.0:
            return 1.0 if wait_s <= 0.0 else -2.0
        return min(1.0, max(-2.0, (self._tau - wait_s) / self._tau))

    def state(self) -> list[float]:
        """What it knows, for a snapshot."""
        return [self.theta_s, self.dearest_s]

    def restore(self, state: list[float]) -> None:
        """Go on from `state`."""
        self.theta_s, self.dearest_s = state
