"""Shedding by price in front of a queue, where LAS stands: the shedder that beats it on equal terms.

The product decides when a row's turn comes (`headgate.guards.inline_price`) and needs no
acknowledgements.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from headgate.errors import BadArgument, SnapshotError
from headgate.guards.backlog import Backlog
from headgate.guards.price import Price, PriceRule
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.targets import AbsoluteLatency
from headgate.guards.utility import Utility, may_always_drop
from headgate.guards.verdict import Shedder, Verdict
from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_sketch import CostSketch
from headgate.sketches.cost_table import CostTable
from headgate.sketches.hashing import uniform
from headgate_lab.papers.las.acks import Ack, AckingOperator

__all__ = ["ONLINE", "AckedPrice", "PriceShedder"]


class _Costs(Protocol):
    def learn(self, key: int, seconds: float) -> None: ...
    def duration(self, key: int) -> float: ...
    def to_bytes(self) -> bytes: ...


#: A queue of two or three tuples wants a price that follows more slowly than a worker's batches do.
ONLINE = PriceRule(ki=0.01)


@dataclass(frozen=True)
class AckedPrice(PriceShedding):
    """A price in front of a queue, as LAS stands there, with acknowledgements instead of a clock.

    `costs` may be "known" besides: then the caller's `known_s`, which may be off; acknowledgements
    correct it like any estimate.
    """

    rule: PriceRule = ONLINE
    ack_every: int = 16
    #: How much an acknowledgement's ratio of real to estimated work counts after the next one.
    ack_memory: float = 0.9

    COSTS: ClassVar[tuple[str, ...]] = ("table", "sketch", "known")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.operator()

    @property
    def price_rule(self) -> PriceRule:
        """The rule; a target on every single wait gives no credit for short ones."""
        if isinstance(self.target, AbsoluteLatency):
            return replace(self.rule, most_credit=0.0)
        return self.rule

    def operator(self) -> AckingOperator:
        """The operator's side, which acknowledges what it executed."""
        return AckingOperator(self.ack_every)

    def shedder(
        self, snapshot: Mapping[str, Any] | None = None, utility: Utility = may_always_drop
    ) -> PriceShedder:
        """The shedder, fresh or from a snapshot."""
        return PriceShedder(self, snapshot, utility)


class PriceShedder(Shedder):
    """Keeps a tuple with a chance that falls with its cost, and tells the chance.

    The latency check of LAS stays, as a guard behind the price. Acknowledgements replace Delta: the
    shedder remembers what is under way, replays it from the last acknowledged instant, and scales
    its estimates by how the acknowledged work compares with what it had estimated. Without that loop
    a price that keeps dear keys out starves its own estimates, and the queue runs away (measured: up
    to 3.9 s).

    A tuple's chance is fixed before its coin is thrown, so weights are unbiased for the tuples that met
    an open guard, whatever the queue does. Those in front of a closed guard are in no weight: `guarded`
    counts the ones that the coin had spared, and each stood for 1 / chance. In steady overload they are
    few; in bursts they are not, and `InlinePrice` gives them a chance of their own.
    """

    def __init__(
        self, config: AckedPrice, snapshot: Mapping[str, Any] | None = None,
        utility: Utility = may_always_drop,
    ) -> None:  # fmt: skip
        self._config, self._utility = config, utility
        self._check, self._backlog = config.target.build(), Backlog()
        self._price = Price(config.price_rule, config.target.tau_s)
        self._costs: _Costs = config.build_costs()
        self._known = config.costs == "known"
        self._seen = self._executed = 0
        self._real = self._estimated = 0.0
        self._scale = 1.0
        #: What is under way: when it arrived, its key, its estimated duration before scaling.
        self._sent: deque[tuple[float, int, float]] = deque()
        self.guarded = 0
        if snapshot is not None:
            self._restore(snapshot)

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """Price, coin, guard. With ``costs="known"`` the cost is `known_s`."""
        wait = self._backlog.wait(now_s)
        raw = self._raw(key, known_s)
        cost = raw * self._scale
        chance = self._price.chance(cost, wait)
        coin = uniform(self._config.seed, self._seen)
        self._seen += 1
        if not self._utility(key):
            chance = 1.0
        elif coin >= chance:
            return Verdict(False, chance)
        elif self._check.exceeds(wait):
            self.guarded += 1
            return Verdict(False, chance)
        self._check.admit(wait)
        self._backlog.add(cost)
        self._sent.append((self._backlog.elapsed(now_s), key, raw))
        return Verdict(True, chance)

    def _raw(self, key: int, known_s: float | None) -> float:
        if not self._known:
            return self._costs.duration(key)
        if known_s is None:
            raise BadArgument('costs="known" needs known_s with every tuple; "table" learns costs')
        return known_s

    def receive(self, ack: Ack) -> None:
        """Learn from the tuples that are done, and replay those that are not."""
        done = min(ack.executed - self._executed, len(self._sent))
        self._executed = ack.executed
        learns = done == len(ack.durations_s)
        self._real *= self._config.ack_memory
        self._estimated *= self._config.ack_memory
        for index in range(done):
            _, key, raw = self._sent.popleft()
            if learns:
                if not self._known:
                    self._costs.learn(key, ack.durations_s[index])
                self._real += ack.durations_s[index]
                self._estimated += raw
        if self._estimated > 0.0:
            self._scale = self._real / self._estimated
        total = ack.completed_s
        for arrived, _, raw in self._sent:
            total = max(total, arrived) + raw * self._scale
        self._backlog.total_s = total

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "v": 1,
            "side": "price",
            "costs": base64.b64encode(self._costs.to_bytes()).decode(),
            "backlog": self._backlog.state(),
            "check": self._check.state(),
            "price": self._price.state(),
            "counts": [self._seen, self._executed, self.guarded],
            "calibration": [self._real, self._estimated, self._scale],
            "sent": [list(one) for one in self._sent],
            "learnt": self._costs.learnt if isinstance(self._costs, AgedSketch) else 0,
        }

    def _restore(self, value: Mapping[str, Any]) -> None:
        if value.get("v") != 1 or value.get("side") != "price":
            raise SnapshotError(
                f"a snapshot of version {value.get('v')!r} and side {value.get('side')!r} was given; "
                "version 1 of a price is read here: start without one, and costs are learnt again"
            )
        data = base64.b64decode(value["costs"])
        if isinstance(self._costs, AgedSketch):
            self._costs.merge(CostSketch.from_bytes(data))
            self._costs.learnt = int(value["learnt"])
        else:
            self._costs = CostTable.from_bytes(data)
        self._backlog.restore(value["backlog"])
        self._check.restore(value["check"])
        self._price.restore(value["price"])
        self._seen, self._executed, self.guarded = value["counts"]
        self._real, self._estimated, self._scale = value["calibration"]
        self._sent = deque((float(a), int(k), float(w)) for a, k, w in value["sent"])
