"""Rounds of kills on a cluster, and what its queries lost and doubled: for a test, and for `make soak`.

In a round one or both workers lose their executors in the middle of a batch, tasks are speculated and
retried, and then the driver is killed behind its sink and before its commit. Between rounds the gates'
rates change, so that a replay that asked for today's plan would keep other rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.testing.cluster.bench import Trial

__all__ = ["QUICK", "Line", "run_rounds"]

#: A second attempt as soon as a task is slower than others.
QUICK = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


@dataclass(frozen=True)
class Line:
    """What became of one gate's rows; columns as `headgate bench kills` has them."""

    query: str
    kills: int
    #: Those of executors; the others were of drivers.
    executors: int
    arrived: int
    kept: int
    repaid: int
    lost: int
    doubled: int
    wrong: int
    replayed: int
    #: The least likeness of two attempts at one partition of a batch; None without such a batch.
    jaccard: float | None
    unbalanced: int
    #: Batches that the ledger knows nothing of, once they were counted again.
    unsettled: int

    def to_json(self) -> dict[str, Any]:
        """As a row of a table."""
        return asdict(self)


def run_rounds(one: Trial, rounds: int, seed: int = 7) -> list[Line]:
    """So many rounds, then all that is left; a line for the gate, and for one that draws by group."""
    luck = random.Random(seed)
    ids = one.put_input(2 * (2 * rounds + 2))
    for batch in range(2 * rounds):
        one.hold(f"task/plain/{batch}" if batch % 2 == 0 else f"driver/plain/{batch}")
    for number in range(rounds):
        lost, killed = 2 * number, 2 * number + 1
        driver = one.submit("gates", conf=QUICK)
        one.await_names(f"seen/plain/{lost}/", 2, driver)
        for worker in luck.choice([[0], [1], [0, 1]]):
            one.kill_executors(worker)
        one.release(f"task/plain/{lost}")
        one.await_names(f"sunk/plain/{killed}/", 1, driver)
        one.kill_driver(driver)
        for gate in ("plain", "drawn"):
            one.change_rate(gate, luck.choice([0.2, 0.35, 0.8]))
        one.release(f"driver/plain/{killed}")
    found = one.submit("gates", "settle", "backfilled", "sunk", conf=QUICK).result()
    kept = {"plain": one.sunk("plain"), "drawn": found["sunk"]}
    return [
        _line(one, rounds, name, ids, kept[name], found["backfilled"][name])
        for name in ("plain", "drawn")
    ]


def _line(
    one: Trial, rounds: int, name: str, ids: Sequence[int], kept: Sequence[int], late: Sequence[int]
) -> Line:
    books, (replayed, alike) = one.audits()[name], one.jaccard(name)
    there, expected = Counter([*kept, *late]), Counter(ids)
    bad = {*books.unbalanced, *books.contradicted, *books.other_plan, *books.doubtful}
    return Line(
        query=f"{name} gate on a cluster",
        kills=one.kills,
        executors=one.kills - rounds,
        arrived=len(ids),
        kept=len(kept),
        repaid=len(late),
        lost=(expected - there).total(),
        doubled=sum(n - 1 for row, n in there.items() if row in expected),
        wrong=sum(n for row, n in there.items() if row not in expected),
        replayed=replayed,
        jaccard=alike if replayed else None,
        unbalanced=len(bad),
        unsettled=len({*books.unsettled, *books.missing, *books.begun}),
    )
