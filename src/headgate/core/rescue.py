"""`Rescue`: how a batch that failed is run again with fewer rows, and for which sinks that is safe.

Spark cannot shrink a batch that it has planned: one that runs out of memory does so again at every
restart. A gate can: a row is kept where its hash is below its threshold, so a lower threshold keeps a
subset of the same rows, and what it leaves out is shed like any other row: counted, and repaid later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headgate.core.plan import Plan
from headgate.errors import BadArgument, SnapshotError

__all__ = ["SAFE_SINKS", "Rescue", "kind_of_sink", "within"]

#: Sinks of which an attempt that failed leaves nothing that a reader sees, and why. One that has a batch
#: from before passes it over without running it, or replaces all of it.
SAFE_SINKS: Mapping[str, str] = {
    "delta": "Delta's own streaming sink commits a batch once, as one transaction",
    "files": "Spark's file sink lists a batch's files in its log once, when all of them are written",
    "memory": "Spark's memory sink takes a batch once, as a whole, and is gone with its driver",
    "noop": "it writes nothing",
    "overwrites": "a foreachBatch that replaces all that is there of the batch's number, everywhere",
}
#: What people may give besides, and why not.
_UNSAFE: Mapping[str, str] = {
    "append": "rows that a failed attempt appended stay, and a backfill would bring them a second time",
    "console": "what a failed attempt printed stays",
    "foreach": "rows that a failed attempt wrote one by one stay",
    "foreachBatch": "only one that replaces all that is there of the batch's number is safe; if yours "
    "does, say sink='overwrites'",
    "iceberg": "Iceberg's sink runs a batch again that it has from before and discards the result: the "
    "ledger would tell of fewer rows than the table has",
    "kafka": "rows that a failed attempt produced stay in the topic",
}
#: How Spark describes a sink, by the beginning of its words, and what it is called here.
_DESCRIBED = (
    ("FileSink[", "files"),
    ("DeltaSink[", "delta"),
    ("ForeachBatchSink", "overwrites"),
    ("MemorySink", "memory"),
    ("NoopTable", "noop"),
)


def kind_of_sink(described: str) -> str | None:
    """What a sink is called here, from how Spark describes it; None for one that is not safe.

    >>> kind_of_sink("FileSink[/data/out]"), kind_of_sink("KafkaTable")
    ('files', None)
    """
    return next((kind for begins, kind in _DESCRIBED if described.startswith(begins)), None)


@dataclass(frozen=True)
class Rescue:
    """Run a batch that failed again and again with fewer rows, instead of failing for ever.

    - sink: what the query writes to, one of those of which a failed attempt leaves nothing:
      ``"files"``, ``"delta"``, ``"memory"``, ``"noop"``; or ``"overwrites"``, a ``foreachBatch`` that
      replaces all that is there of the batch's number.
    - keep: the share of the attempt before that each further one keeps.
    - whole: how many attempts run whole before that. With 2, one failure or one redeploy in the middle
      of a batch changes nothing.

    >>> Rescue("files").tightened(Plan(0.8), 1, least=0.01).default
    0.2
    """

    sink: str
    keep: float = 0.25
    whole: int = 2

    def __post_init__(self) -> None:
        named = self.sink if isinstance(self.sink, str) else ""
        if named not in SAFE_SINKS:
            reason = f": {_UNSAFE[named]}" if named in _UNSAFE else ""
            raise BadArgument(
                f"Rescue(sink={self.sink!r}) cannot be had{reason}. A batch may keep fewer rows when it "
                "runs again only where nothing of the attempt before is left; give one of "
                f"{', '.join(map(repr, SAFE_SINKS))}, or leave rescue= out"
            )
        number = isinstance(self.keep, int | float) and not isinstance(self.keep, bool)
        if not number or not 0.0 < self.keep < 1.0:
            raise BadArgument(
                f"Rescue(keep={self.keep!r}) is no share between 0 and 1: 0.25 keeps a quarter of the "
                "attempt before"
            )
        if not isinstance(self.whole, int) or isinstance(self.whole, bool) or self.whole < 1:
            raise BadArgument(
                f"Rescue(whole={self.whole!r}) is no number of attempts, 1 or more: the first one "
                "always runs whole"
            )

    def tightened(self, plan: Plan, times: int, least: float, classes: int = 0) -> Plan:
        """The plan of a first attempt, tightened so often; each time keeps a subset of the time before.

        Every rate falls to `keep` of what it was, and not below `least`. Where rows have value classes,
        the worst yields first: it falls to `keep`, and then to nothing as the next one falls, so that
        nothing of a better class is shed for this while a row of a worse one is kept.
        """
        if times <= 0:
            return plan
        if not classes:
            rates = {k: _lower(r, self.keep**times, least) for k, r in plan.exceptions.items()}
            return replace(plan, default=_lower(plan.default, self.keep**times, least), exceptions=rates)
        worst_first = [0, *range(classes, 0, -1)]
        found = {0: plan.default} | {number: plan.rate_of(number) for number in worst_first[1:]}
        yielding = [number for number in worst_first if found[number] > 0.0]
        for turn, number in enumerate(yielding[:times]):
            best = turn == len(yielding) - 1
            cuts = times - turn
            if best:
                found[number] = _lower(found[number], self.keep**cuts, least)
            else:
                found[number] = found[number] * self.keep if cuts == 1 else 0.0
        default = found.pop(0)
        return replace(plan, default=default, exceptions={**plan.exceptions, **found})

    def to_json(self) -> dict[str, Any]:
        """As an option of the plan source has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Rescue | None:
        """What `to_json` wrote; None where there is none."""
        if value is None:
            return None
        try:
            return cls(**value)
        except TypeError as error:
            raise SnapshotError(f"{value!r} is no rescue ({error})") from error


def within(plan: Plan, bound: Plan) -> Plan:
    """The plan, with no rate above the bound's: it keeps a subset of what the bound keeps.

    >>> within(Plan(0.5, {7: 0.1}), Plan(0.2))
    Plan(default=0.2, exceptions={7: 0.1}, labels={}, draw=None, work=None, rows=None, sic=None)
    """
    keys = plan.exceptions.keys() | bound.exceptions.keys()
    rates = {key: min(plan.rate_of(key), bound.rate_of(key)) for key in sorted(keys)}
    return replace(plan, default=min(plan.default, bound.default), exceptions=rates)


def _lower(rate: float, share: float, least: float) -> float:
    return max(rate * share, min(rate, least))
