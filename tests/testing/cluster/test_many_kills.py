"""Rounds of kills on a cluster, which take minutes: what is kept, and what the ledger says of it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.testing.cluster.bench import Trial
from tests.testing.cluster.test_cluster import QUICK

pytestmark = [pytest.mark.spark, pytest.mark.long]
ROUNDS = 5


@pytest.mark.timeout(1200)
def test_rounds_of_kills(trial: Callable[[], Trial]) -> None:
    one, luck = trial(), random.Random(7)
    ids = one.put_input(2 * (2 * ROUNDS + 2))
    for batch in range(2 * ROUNDS):
        one.hold(f"task/plain/{batch}" if batch % 2 == 0 else f"driver/plain/{batch}")
    for number in range(ROUNDS):
        lost, killed = 2 * number, 2 * number + 1
        driver = one.submit("gates", conf=QUICK)
        one.await_names(f"seen/plain/{lost}/", 2, driver)
        for worker in luck.choice([[0], [1], [0, 1]]):
            one.kill_executors(worker)
        one.release(f"task/plain/{lost}")
        one.await_names(f"sunk/plain/{killed}/", 1, driver)
        one.kill_driver(driver)
        one.change_rate("plain", luck.choice([0.2, 0.35, 0.8]))
        one.change_rate("drawn", luck.choice([0.2, 0.35, 0.8]))
        one.release(f"driver/plain/{killed}")
    found = one.submit("gates", "settle", "backfilled", "sunk", conf=QUICK).result()
    replays = {name: one.jaccard(name) for name in ("plain", "drawn")}
    audits = one.audits()
    unbalanced = sum(len(a.unbalanced) for a in audits.values())
    print(f"kills {one.kills}, replayed batches and Jaccard {replays}, unbalanced records {unbalanced}")
    print(f"settled by recount {found['settle']}")
    assert one.kills >= 2 * ROUNDS
    assert replays["plain"][0] >= 2 * ROUNDS
    assert replays["plain"][1] == 1.0
    assert replays["drawn"][0] == 0 or replays["drawn"][1] == 1.0
    assert unbalanced == 0
    for name, kept in (("plain", one.sunk("plain")), ("drawn", found["sunk"])):
        assert audits[name].complete, audits[name].to_json()
        assert sorted([*kept, *found["backfilled"][name]]) == ids, name
