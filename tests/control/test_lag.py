"""Which plan a batch met is read off the share it kept."""

from __future__ import annotations

import json

from headgate.control.lag import PlanLag
from headgate.core.load import LoadSample


def _sample(share: float, arrived: int = 100_000) -> LoadSample:
    return LoadSample(1, 0.0, 1.0, arrived, round(arrived * share))


def _asked(*rates: float) -> PlanLag:
    lag = PlanLag()
    for rate in rates:
        lag.ask(rate)
    return lag


def test_a_batch_that_kept_the_rate_before_the_last_is_behind() -> None:
    lag = _asked(0.5, 0.2)
    lag.observe(_sample(0.49))
    assert lag.behind
    lag.observe(_sample(0.2))
    assert not lag.behind


def test_what_cannot_be_told_apart_changes_nothing() -> None:
    for lag, sample in [
        (_asked(0.5, 0.2), _sample(0.5, arrived=1000)),  # too few rows
        (_asked(0.5, 0.48), _sample(0.5)),  # the rates are too near each other
        (_asked(0.5, 0.2), _sample(1.0)),  # neither: the advice is not followed
        (_asked(1.0, 0.2), _sample(1.0)),  # behind, or not followed
        (_asked(0.5, 0.2), LoadSample(1, 0.0, 1.0, 0, 0)),
    ]:
        lag.observe(sample)
        assert not lag.behind
        lag.behind = True
        lag.observe(sample)
        assert lag.behind


def test_a_snapshot_remembers_what_was_asked() -> None:
    lag = PlanLag()
    lag.restore(json.loads(json.dumps(_asked(0.5, 0.2).snapshot())))
    lag.observe(_sample(0.5))
    assert lag.behind
    assert lag.last == 0.2
