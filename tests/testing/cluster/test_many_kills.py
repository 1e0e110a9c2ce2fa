"""Rounds of kills on a cluster, which take minutes: what is kept, and what the ledger says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.testing.cluster.bench import Trial
from tests.testing.cluster.rounds import run_rounds

pytestmark = [pytest.mark.spark, pytest.mark.long]
ROUNDS = 5


@pytest.mark.timeout(1200)
def test_rounds_of_kills(trial: Callable[[], Trial]) -> None:
    one = trial()
    lines = {line.query.split()[0]: line for line in run_rounds(one, ROUNDS)}
    print(*lines.values(), sep="\n")
    assert one.kills >= 2 * ROUNDS
    assert lines["plain"].replayed >= 2 * ROUNDS
    for name, line in lines.items():
        assert (line.lost, line.doubled, line.wrong) == (0, 0, 0), line
        assert (line.unbalanced, line.unsettled) == (0, 0), line
        assert line.jaccard in (None, 1.0), line
        assert line.kept + line.repaid == line.arrived
        assert one.audits()[name].complete, one.audits()[name].to_json()
