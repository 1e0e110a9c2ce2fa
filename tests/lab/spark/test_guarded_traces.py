"""Traces on a real query: rows arrive at their instants, and every one is accounted for."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import headgate as hg
from headgate_lab.demo.guarded import GuardedRun, GuardTrial
from headgate_lab.figures.figure import Samples
from headgate_lab.figures.las import fig10 as las_fig10
from headgate_lab.figures.las import fig11 as las_fig11
from headgate_lab.figures.las.policies import DROPPED, FULL, LAS, OURS, STRAW
from headgate_lab.figures.on_spark import COMPLETION, windows_of
from headgate_lab.spark.trace_source import Trace, replayed
from tests.eventually import eventually

TWEETS = Path("../shared/data/tweets_congress_2020q1.parquet")


def test_a_trace_arrives_once_in_order_and_not_early(spark, tmp_path: Path) -> None:
    trace = Trace([0.0, 0.4, 0.4, 0.9], ["a", "b", "c", "d"], [0.0] * 4)
    trace.save(tmp_path / "trace.npz")
    start = time.time() + 0.5
    rows = replayed(spark, tmp_path / "trace.npz", start)
    seen: list[tuple[float, int]] = []

    def note(frame, batch: int) -> None:
        seen.extend((time.time(), row.seq) for row in frame.collect())

    query = rows.writeStream.foreachBatch(note).trigger(processingTime="100 milliseconds").start()
    try:
        # A busy machine may take a minute to begin.
        eventually(lambda: len(seen) >= 4, "all four rows", within_s=200.0)
    finally:
        query.stop()
    assert [seq for _, seq in seen] == [0, 1, 2, 3]
    assert all(at >= start + trace.due_s[seq] for at, seq in seen)


@pytest.mark.parametrize(
    ("due", "keys", "said"), [([1.0, 0.5], ["a", "b"], "in the order"), ([], [], "at least one")]
)
def test_a_trace_that_is_none_is_refused(due: list[float], keys: list[str], said: str) -> None:
    with pytest.raises(hg.BadArgument, match=said):
        Trace(due, keys, [0.1] * len(due))


def test_a_trace_through_a_guard_is_accounted_for(spark, tmp_path: Path) -> None:
    """Three seconds of rows that take twice as long."""
    count = 300
    costs = np.where(np.arange(count) % 10 == 0, 0.11, 0.01)
    trace = Trace(np.arange(count) * 0.01, ["dear" if c > 0.05 else "cheap" for c in costs], costs)
    found = GuardTrial(spark, tmp_path).run(trace, "balanced", hg.average("1 second"))
    assert found.balanced
    assert found.waiting == 0
    assert int(found.kept.sum()) + found.dropped == count
    assert 0 < found.dropped < count
    # Which rows are dropped, and how long the others wait, depends on how busy the machine is: the same
    # trace on a manual clock says that (tests/spark/guard/test_guard_task.py).
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.skipif(not TWEETS.exists(), reason="the tweets are not here")
def test_tweets_become_a_trace_whose_costs_follow_their_mentions() -> None:
    trace = las_fig11._trace(TWEETS, 0, 10.0)
    assert las_fig11.class_of("nytimes") == "media"
    assert las_fig11.class_of("senatemajldr") == "politicians"
    assert las_fig11.class_of("u_1234") == "others"
    assert trace.cost_s.min() == 0.001
    assert trace.due_s[-1] == pytest.approx(10.0, abs=0.2)
    for key, cost in zip(trace.keys[:500], trace.cost_s[:500], strict=True):
        mentions = str(key).split()
        expected = sum(las_fig11._COST[las_fig11.class_of(m)] for m in mentions) or 0.001
        assert cost == pytest.approx(expected)


def _samples(places: list[float], completion: dict[str, float], dropped: dict[str, float]) -> Samples:
    samples = Samples()
    for name in (STRAW, LAS, FULL, OURS):
        for place in places:
            samples.add(place, name, {COMPLETION: completion[name], DROPPED: dropped[name]})
    return samples


def test_verdicts_follow_the_numbers() -> None:
    good = {STRAW: 20.0, LAS: 1.1, FULL: 1.0, OURS: 0.9}
    drops = {STRAW: 0.0, LAS: 0.08, FULL: 0.08, OURS: 0.01}
    twelve = [float(n) for n in range(12)]
    assert all(c.holds for c in las_fig11._claims(_samples(twelve, good, drops)))
    bad = {STRAW: 1.0, LAS: 9.0, FULL: 1.0, OURS: 9.0}
    same = dict.fromkeys(drops, 0.3)
    assert not any(c.holds for c in las_fig11._claims(_samples(twelve, bad, same)))
    windows = [100.0 * n for n in range(1, 36)]
    assert all(c.holds for c in las_fig10._claims(_samples(windows, good, drops), 500))
    assert not any(c.holds for c in las_fig10._claims(_samples(windows, {**bad, FULL: 9.0}, same), 500))


def test_windows_end_where_the_query_came_to() -> None:
    trace = Trace(np.arange(6) * 1.0, ["a"] * 6, [0.5] * 6)
    queue = np.array([1.0, 2.0, np.nan, np.nan, np.nan, np.nan])
    found = GuardedRun(trace, queue, trace.cost_s, np.ones(6), dropped=2, waiting=2, balanced=True)
    assert list(windows_of(found, 3)) == [{DROPPED: 0.0, COMPLETION: 2.0}, {DROPPED: 1.0}]
