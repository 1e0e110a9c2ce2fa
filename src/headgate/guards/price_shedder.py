"""Shedding by price: the shedders that beat LAS."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from headgate.errors import BadArgument, SnapshotError
from headgate.guards.acks import Ack, AckingOperator
from headgate.guards.backlog import Backlog
from headgate.guards.price import BALANCED, Price, PriceRule
from headgate.guards.targets import PAPER_TARGET, LatencyTarget
from headgate.guards.utility import Utility, may_always_drop
from headgate.guards.verdict import Shedder, Verdict
from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_sketch import CostSketch, SketchShape
from headgate.sketches.cost_table import CostTable
from headgate.sketches.hashing import check_seed, uniform

__all__ = ["PriceShedder", "PriceShedding"]

#: How much an acknowledgement's ratio of real to estimated work counts after the next one.
_CALIBRATION = 0.9


class _Costs(Protocol):
    def learn(self, key: int, seconds: float) -> None: ...
    def duration(self, key: int) -> float: ...
    def to_bytes(self) -> bytes: ...


@dataclass(frozen=True)
class PriceShedding:
    """A latency target, a price rule, and where costs come from.

    `costs`: "table" learns them per key in a bounded table, "sketch" in a count-min pair of `epsilon`
    that is halved every `half_life` executions, and "known" takes the caller's `known_s`, which may be
    off: acknowledgements correct it like any estimate.

    Why "balanced" over a table is the default, from 40 streams of the paper's generator (Zipf-1.0, 25 %
    under-provisioned, AVG(6.4 ms), Full Knowledge drops .2522): the saving is in drops against Full
    Knowledge, the error is that of weighted counts per key, summed (Full Knowledge: .104).

    ======================  =============  =============  ==================================
    rule                    known: saving  table: saving  table: error
    ======================  =============  =============  ==================================
    hard                    43.6 %         41.1 %         .149, total -15 %: dear keys vanish
    balanced, spread .002   42.8 %         40.2 %         .090
    balanced, spread .005   42.3 %         39.6 %         .082
    balanced, spread .02    40.8 %         38.0 %         .071
    soft, gamma 4           40.6 %         38.1 %         .074
    soft, gamma 1           31.5 %         28.3 %         .077
    ======================  =============  =============  ==================================

    At the same drops a balanced price has the smaller error, as its derivation says. On 400 other
    streams .005 saves 41.0 % and 38.3 % (least of ten groups of 40: 40.2 % and 37.7 %). Limits: with
    few rows a key (uniform keys, 50 %) the counts are worse than Full Knowledge's (.386 against
    .277), and a larger spread is better there. A sketch of 2,718 columns comes within 3 points of
    the table; one of 272 saves only 3 % under uniform keys. A price aims at tau for every moment,
    not for the mean of all time: over-provisioned by 10 % it drops 0.8 % (Full Knowledge: 0.02 %)
    and waits 2.9 ms instead of 4.4.
    """

    target: LatencyTarget = PAPER_TARGET
    rule: PriceRule = BALANCED
    costs: Literal["table", "sketch", "known"] = "table"
    epsilon: float = 0.001
    delta: float = 0.1
    half_life: int = 4096
    ack_every: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.costs not in ("table", "sketch", "known"):
            raise BadArgument(f"costs={self.costs!r}: one of 'table', 'sketch', 'known'")
        check_seed(self.seed)
        self.build_costs()
        self.operator()

    @property
    def shape(self) -> SketchShape:
        """The sketch's shape."""
        return SketchShape.of(self.epsilon, self.delta, self.seed)

    def build_costs(self) -> AgedSketch | CostTable:
        """An empty store of costs."""
        if self.costs == "sketch":
            return AgedSketch(self.shape, self.half_life)
        return CostTable(seed=self.seed)

    def operator(self) -> AckingOperator:
        """The operator's side."""
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
        self, config: PriceShedding, snapshot: Mapping[str, Any] | None = None,
        utility: Utility = may_always_drop,
    ) -> None:  # fmt: skip
        self._config, self._utility = config, utility
        self._check, self._backlog = config.target.build(), Backlog()
        self._price = Price(config.rule, config.target.tau_s)
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
        self._real *= _CALIBRATION
        self._estimated *= _CALIBRATION
        for place in range(done):
            _, key, raw = self._sent.popleft()
            if learns:
                if not self._known:
                    self._costs.learn(key, ack.durations_s[place])
                self._real += ack.durations_s[place]
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
