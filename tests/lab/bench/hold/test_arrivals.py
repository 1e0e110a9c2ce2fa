"""Schedules: how many rows, when, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument, HeadgateError
from headgate.testing.tied_server import free_ports
from headgate_lab.bench.hold.arrivals import ARRIVALS, TICK_S, Schedule, Step, factors, stepped, traced
from headgate_lab.bench.hold.feed import MOST_MESSAGES, Feed, KafkaSink, Messages, rows_each


def test_the_load_rises_and_falls_when_the_step_says() -> None:
    schedule = stepped(50.0, 500.0, Step.lasting(60.0))
    assert schedule.seconds == 60.0
    assert [schedule.rates[round(t / TICK_S)] for t in (9.5, 10.0, 39.5, 40.0)] == [50, 500, 500, 50]
    assert schedule.rows == pytest.approx(30 * 50 + 30 * 500)


@pytest.mark.parametrize("arrivals", ["steady", "bursts"])
def test_a_load_is_the_mean_over_the_high_stretch(arrivals: str) -> None:
    shape = factors(arrivals, 45.0, seed=3)
    assert len(shape) == 90
    assert shape.mean() == pytest.approx(1.0)
    schedule = stepped(1.0, 200.0, Step(), shape)
    high = np.array(schedule.rates[30:120])
    assert high.mean() == pytest.approx(200.0)


def test_bursts_last_six_seconds_and_are_those_of_their_seed() -> None:
    first, again, other = (factors("bursts", 60.0, seed=s) for s in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    stretches = first.reshape(10, 12)
    assert (stretches == stretches[:, :1]).all(), "twelve ticks alike"
    assert len(np.unique(first)) == 10


def test_the_spread_of_bursts_is_seven_tenths() -> None:
    long = factors("bursts", 60_000.0, seed=5)
    assert np.log(long).std() == pytest.approx(0.7, abs=0.02)


def test_a_trace_is_counted_by_stretches_of_its_own_time(tmp_path: Path) -> None:
    at = [0.1, 0.2, 0.6, 1.9, 1.95, 1.99, 2.4]
    pq.write_table(pa.table({"t_s": at}), tmp_path / "packets.parquet")
    assert traced("packets", 4, tmp_path / "packets.parquet").tolist() == [2, 1, 0, 3]
    with pytest.raises(BadArgument, match=r"lasts 2 s .* 50 s are asked for"):
        traced("packets", 100, tmp_path / "packets.parquet")


def test_counts_by_the_second_are_played_at_their_speed(tmp_path: Path) -> None:
    begin = 1_085_352
    seconds = list(range(begin - 5, begin + 20))
    table = {
        "trace": ["nasa_http_1995"] * 25 + ["another"] * 25,
        "second": seconds * 2,
        "requests": [9] * 5 + [1, 2, 3, 4, 5] * 4 + [7] * 25,
    }
    pq.write_table(pa.table(table), tmp_path / "web.parquet")
    found = traced("web", 6, tmp_path / "web.parquet")
    assert found.sum() == 45, "three seconds at five times the speed are fifteen of the trace"
    assert found.tolist() == [1 + 2, 3 + 4 + 5, 1 + 2, 3 + 4 + 5, 1 + 2, 3 + 4 + 5]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(BadArgument, match="steady, bursts, trace"):
        factors("waves", 10.0)
    with pytest.raises(BadArgument, match="web, packets, tasks"):
        traced("nothing", 10)
    with pytest.raises(BadArgument, match="12 s or more"):
        Step.lasting(5.0)
    with pytest.raises(BadArgument, match="0 or more"):
        Schedule((1.0, -1.0))
    assert ARRIVALS == ("steady", "bursts", "trace")


@given(
    rates=st.lists(st.floats(0, 5_000), min_size=1, max_size=40),
    rows=st.sampled_from([1, 7, 100]),
)
def test_every_message_is_due_when_its_rows_have_come(rates: list[float], rows: int) -> None:
    schedule = Schedule(tuple(rates))
    times = schedule.message_times(rows)
    assert len(times) == int(schedule.rows / rows + 1e-9)
    assert (np.diff(times) >= 0).all()
    for number in {0, len(times) // 2, len(times) - 1} if len(times) else ():
        assert schedule.until(times[number]) == pytest.approx(rows * (number + 1), rel=1e-6, abs=1e-3)


def test_messages_number_their_rows_without_a_gap() -> None:
    found = Messages.of(Schedule((10.0, 30.0)), 4, began=1000.0, first=100)
    parts = [[int(p) for p in text.split(b",")] for text in found.texts(0, len(found))]
    assert [p[0] for p in parts] == [100, 104, 108, 112, 116]
    assert all(p[1] == 4 for p in parts)
    assert [p[3] for p in parts] == [1_000_000 + p[2] for p in parts]
    assert [found.due(p[3] / 1000 + 0.001) for p in parts] == [1, 2, 3, 4, 5]
    assert found.due(999.0) == 0


def test_a_message_stands_for_as_many_rows_as_the_producer_needs() -> None:
    for rate in (1.0, 9_999.0, 123_456.0, 5e6):
        assert rate / rows_each(rate) <= MOST_MESSAGES


class _List:
    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []
        self.flushed = False

    def send(self, messages: Sequence[bytes], first: int) -> None:
        self.found += list(enumerate(messages, first))

    def flush(self) -> None:
        self.flushed = True


def test_a_feed_sends_what_is_due_in_order_and_no_more() -> None:
    sink = _List()
    messages = Messages(np.array([0.0, 1.0, 1e12]), 1, began=0.0)
    with Feed(sink, messages) as feed:
        while feed.sent < 2:
            pass
    assert sink.found == [(0, b"0,1,0,0"), (1, b"1,1,1000,1000")]
    assert sink.flushed
    assert feed.late_s > 1e6, "both were due in 1970"


def test_messages_to_a_broker_that_is_gone_are_one_error_and_no_lines_on_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    (nobody,) = free_ports(count=1)
    sink = KafkaSink(f"127.0.0.1:{nobody}", "rides", wait_s=2.0)
    sink.send([b"0,1,0,0"], 0)
    with pytest.raises(HeadgateError, match=r"1 messages did not reach Kafka: .*refused"):
        sink.flush()
    assert capfd.readouterr().err == ""
