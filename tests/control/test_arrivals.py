"""One arrival rate: what the stream brings in the long run, and what a batch of unknown size may."""

from __future__ import annotations

import json
import math

import pytest

from headgate.control.arrivals import ArrivalRate
from headgate.core.load import LoadSample, ReadLimit


def _feed(
    rate: ArrivalRate, rows: list[int], gap: float = 1.0, took: float = 1.0, **facts: object
) -> None:
    start = rate.snapshot()["start"]
    start = 0.0 if start is None else start + gap
    for n, arrived in enumerate(rows):
        rate.add(LoadSample(n, start + gap * n, took, arrived, arrived, **facts))  # type: ignore[arg-type]


def test_the_rate_is_rows_from_start_to_start() -> None:
    rate = ArrivalRate()
    assert rate.lasting == 0.0
    _feed(rate, [500] * 5, gap=2.0)
    assert rate.lasting == pytest.approx(250.0)


def test_whole_seconds_are_averaged_and_a_fall_is_believed_after_three_batches() -> None:
    rate = ArrivalRate()
    _feed(rate, [1000, 2000] * 8)
    assert rate.lasting == pytest.approx(1500.0, rel=0.15)
    _feed(rate, [100] * 3)
    assert rate.lasting == pytest.approx(100.0)


def test_one_batch_of_a_burst_is_not_yet_a_lasting_load() -> None:
    rate = ArrivalRate()
    _feed(rate, [100] * 20)
    _feed(rate, [5_000])
    assert rate.lasting < 600


def test_without_a_size_a_rise_counts_at_once_and_a_fall_by_halves() -> None:
    rate = ArrivalRate()
    _feed(rate, [100] * 5)
    assert rate.expected(1.0) == pytest.approx(100)
    _feed(rate, [1000])
    assert rate.expected(1.0) == pytest.approx(1000)
    assert rate.expected(3.0) == pytest.approx(3000)
    _feed(rate, [100])
    assert rate.expected(1.0) == pytest.approx(550)


def test_a_source_of_one_size_brings_that_size_again() -> None:
    rate = ArrivalRate()
    _feed(rate, [800] * 5, gap=4.0, took=4.0)
    assert rate.expected(0.3) == 800


def test_a_pause_is_no_time_of_collecting() -> None:
    rate = ArrivalRate()
    _feed(rate, [5_000] * 5, took=0.5)
    rate.add(LoadSample(9, 60.0, 0.3, 50, 50))
    assert rate.expected(0.3) < 5_000


def test_the_interval_is_the_one_that_spark_says_or_the_gap_of_a_batch_that_waited() -> None:
    rate = ArrivalRate()
    _feed(rate, [100] * 3, took=0.4)
    assert rate.interval_s == pytest.approx(1.0)
    _feed(rate, [100] * 3, took=0.4, interval_s=5.0)
    assert rate.interval_s == 5.0
    fresh = ArrivalRate()
    _feed(fresh, [100] * 3, took=1.0)
    assert fresh.interval_s == 0.0


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (ReadLimit(rows=300), 300.0),
        (ReadLimit(files=2), 200.0),
        (ReadLimit(), math.inf),
        (None, math.inf),
    ],
)
def test_what_came_while_the_query_was_down_is_no_batch_where_the_source_has_a_cap(
    limit: ReadLimit | None, most: float
) -> None:
    rate = ArrivalRate()
    _feed(rate, [100] * 5)
    rate.limit = limit
    assert rate.most == most
    assert rate.since(1_004.0) == pytest.approx(100_000)
    rate.restarted()
    assert rate.since(2_000.0) == 0.0


def test_a_cap_that_batches_with_a_backlog_showed_is_remembered() -> None:
    rate = ArrivalRate()
    _feed(rate, [400] * 3, backlog=1_000)
    assert rate.most == pytest.approx(400)
    rate.limit = ReadLimit()
    assert rate.most == math.inf, "the query states that it has none"


def _back(down_s: float, *, told: bool = True) -> ArrivalRate:
    """A query that is down for so long, and starts with a batch that it had planned before."""
    rate = ArrivalRate()
    _feed(rate, [100] * 12)
    if told:
        rate.restarted()
    rate.add(LoadSample(12, 11.0 + down_s, 1.0, 100, 100, planned_before=True))
    return rate


@pytest.mark.parametrize(("down_s", "told"), [(60.0, True), (60.0, False), (5.0, False)])
def test_what_came_while_the_query_was_down_is_no_rate_behind_a_batch_that_ran_again(
    down_s: float, told: bool
) -> None:
    rate, after = _back(down_s, told=told), ArrivalRate()
    after.restore(json.loads(json.dumps(rate.snapshot())))
    assert rate.lasting == pytest.approx(100)
    for known in (rate, after):
        known.add(LoadSample(13, 12.0 + down_s, 1.0, round(100 * down_s) + 100, 100))
        assert known.lasting == pytest.approx(100)
        assert known.interval_s == 0.0
        known.add(LoadSample(14, 13.0 + down_s, 1.0, 100, 100))
        assert known.expected(1.0) == pytest.approx(100)


def test_behind_a_batch_that_ran_again_all_of_the_outage_is_expected() -> None:
    rate, after = _back(60.0), ArrivalRate()
    after.restore(json.loads(json.dumps(rate.snapshot())))
    for known in (rate, after):
        assert known.expected(1.0) == pytest.approx(6_100)
        assert known.since(75.0) == pytest.approx(6_400), "nor is it forgotten by another restart"


def test_a_snapshot_goes_on() -> None:
    rate, again = ArrivalRate(), ArrivalRate()
    _feed(rate, [100, 300, 200] * 5, took=0.5)
    again.restore(json.loads(json.dumps(rate.snapshot())))
    assert again.snapshot() == rate.snapshot()
    assert again.lasting == rate.lasting
