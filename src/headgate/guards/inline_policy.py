"""Which shedder a guard uses: ours, or a published one by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headgate.errors import BadArgument
from headgate.guards.inline import InlineShedder, KeepAll
from headgate.guards.inline_price import Costs, InlinePrice
from headgate.guards.inline_published import (
    InlineBaseLine,
    InlineLas,
    InlineQueueCheck,
    InlineStrawMan,
)
from headgate.guards.price import PriceRule
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.published.settings import LasSettings
from headgate.guards.targets import LatencyTarget
from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_table import CostTable

__all__ = ["POLICIES", "InlinePolicy"]

#: The names, and what each is.
POLICIES = {
    "balanced": "price: the fewest drops for the accuracy of weighted counts (the default)",
    "hard": "price: the fewest drops; dear keys vanish",
    "soft": "price: keep with chance min(1, price / cost)",
    "las": "the published algorithm",
    "straw-man": "LAS's check with one mean cost for all rows",
    "full-knowledge": "LAS's check on the real wait",
    "none": "no shedding; costs are measured all the same",
}


@dataclass(frozen=True)
class InlinePolicy:
    """A policy and its target; every worker builds its own shedder from it.

    `which` is one of `POLICIES`, a number (Base Line: drop that share at random), or the settings of a
    price or of LAS, whose own target is then replaced by `target`.
    """

    which: str | float | PriceShedding | LasSettings
    target: LatencyTarget

    def __post_init__(self) -> None:
        which = self.which
        if isinstance(which, PriceShedding) and which.costs == "known":
            raise BadArgument('costs="known" is for simulations: a guard measures them; use "table"')
        if isinstance(which, PriceShedding | LasSettings):
            return
        if isinstance(which, str) and which in POLICIES:
            return
        number = isinstance(which, int | float) and not isinstance(which, bool)
        if not number or not 0 <= which < 1:  # type: ignore[operator]
            raise BadArgument(
                f"policy={which!r}: one of {', '.join(map(repr, POLICIES))}, a share to drop in "
                "[0, 1), PriceShedding(...) or LasSettings(...)"
            )

    @property
    def name(self) -> str:
        """The policy's name, as the control folder and the ledger show it."""
        which = self.which
        if isinstance(which, PriceShedding):
            return which.rule.shape
        if isinstance(which, LasSettings):
            return "las"
        return which if isinstance(which, str) else f"base-line {which:g}"

    @property
    def identity(self) -> str:
        """What a queue's own state depends on: a queue of another policy or target begins anew.

        It is stored, in the words of 0.1.0: the numbers that only say how fast a price or an estimate
        moves are not in it, because what was remembered means the same with others.
        """
        which = self.which
        if not isinstance(which, PriceShedding):
            return f"InlinePolicy(which={which!r}, target={self.target!r})"
        rule = which.rule
        text = (
            f"PriceShedding(target={which.target!r}, rule=PriceRule(shape={rule.shape!r}, "
            f"gamma={rule.gamma!r}, spread={rule.spread!r}, kp=0.3, ki=0.01), "
            f"costs={which.costs!r}, epsilon={which.epsilon!r}, delta={which.delta!r}, "
            f"half_life={which.half_life!r}, ack_every=16, seed={which.seed!r})"
        )
        return f"InlinePolicy(which={text}, target={self.target!r})"

    @property
    def _price(self) -> PriceShedding | None:
        if isinstance(self.which, PriceShedding):
            return replace(self.which, target=self.target)
        if self.which in ("balanced", "hard", "soft"):
            return PriceShedding(self.target, PriceRule(self.which))  # type: ignore[arg-type]
        return None

    def costs(self) -> CostTable | AgedSketch:
        """An empty store of costs, of the kind that the policy asks for."""
        return (self._price or PriceShedding()).build_costs()

    def build(
        self, costs: Costs, mean_s: float, seed: int, state: Mapping[str, Any] | None
    ) -> InlineShedder:
        """The shedder of one queue, from what all have learned and what this queue remembers."""
        price = self._price
        if price is not None:
            return InlinePrice(price, costs, seed, state)
        if isinstance(self.which, LasSettings):
            return InlineLas(replace(self.which, target=self.target), state)
        if isinstance(self.which, str):
            return self._published(self.which, mean_s, state)
        assert isinstance(self.which, int | float)
        return InlineBaseLine(self.which, seed)

    def _published(self, name: str, mean_s: float, state: Mapping[str, Any] | None) -> InlineShedder:
        if name == "las":
            return InlineLas(LasSettings(target=self.target), state)
        if name == "straw-man":
            return InlineStrawMan(self.target, mean_s, state)
        if name == "full-knowledge":
            return InlineQueueCheck(self.target, state)
        return KeepAll()
