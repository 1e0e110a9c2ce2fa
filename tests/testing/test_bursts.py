"""The burst producer without a broker: counts, times and rows are all known beforehand."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from headgate.errors import BadArgument
from headgate.testing.bursts import HIGH_SHARE, Bursts, DeliveryFailed, Ride, play, produce, rides
from headgate.testing.tied_server import free_ports


class ManualClock:
    """Time that passes only when someone sleeps."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds


def test_a_schedule_sums_to_its_total_and_runs_forward() -> None:
    schedule = Bursts(base_rate=200, factor=8, every_s=5, length_s=1, total=7_777, seed=3)
    ticks = list(schedule)
    assert sum(count for _, count in ticks) == 7_777
    offsets = [offset for offset, _ in ticks]
    assert offsets == sorted(set(offsets))
    assert all(count > 0 for _, count in ticks)


def test_bursts_carry_factor_times_the_base_rate() -> None:
    schedule = Bursts(base_rate=1_000, factor=5, every_s=10, length_s=2, total=100_000, seed=1)
    per_second: Counter[int] = Counter()
    for offset, count in schedule:
        per_second[int(offset + 1e-9)] += count
    whole = range(max(per_second))  # The last second is cut short by the total.
    calm = [per_second[s] for s in whole if schedule.rate_at(s) == 1_000]
    burst = [per_second[s] for s in whole if schedule.rate_at(s) == 5_000]
    assert min(len(calm), len(burst)) >= 4
    # Five standard errors of a Poisson mean.
    assert abs(sum(calm) / len(calm) - 1_000) < 5 * (1_000 / len(calm)) ** 0.5
    assert abs(sum(burst) / len(burst) - 5_000) < 5 * (5_000 / len(burst)) ** 0.5


def test_the_stream_begins_calm() -> None:
    schedule = Bursts(base_rate=10, factor=10, every_s=3, length_s=1)
    assert [schedule.rate_at(t) for t in (0.0, 0.9, 2.9, 3.0, 3.9, 4.0, 6.5)] == [
        10, 10, 10, 100, 100, 10, 100,
    ]  # fmt: skip


def test_the_seed_decides_everything() -> None:
    def make(seed: int) -> Bursts:
        return Bursts(base_rate=50, total=500, seed=seed)

    assert list(make(4)) == list(make(4)) != list(make(5))
    first, same, other = (list(itertools.islice(rides(s), 100)) for s in (4, 4, 5))
    assert first == same != other


def test_rows_have_the_promised_fields() -> None:
    rows = list(itertools.islice(rides(seed=2, first_id=100), 20_000))
    assert [row.id for row in rows] == list(range(100, 20_100))
    message = json.loads(rows[0].message(123))
    assert list(message) == ["id", "route", "fare", "priority", "sent"]
    assert message["sent"] == 123
    high = sum(row.priority == "high" for row in rows) / len(rows)
    assert {row.priority for row in rows} == {"high", "low"}
    assert high == pytest.approx(HIGH_SHARE, abs=0.01)
    routes = Counter(row.route for row in rows)
    top, rare = routes.most_common()[0][1], routes.most_common()[-1][1]
    assert top > 10 * rare  # Skewed: 1/rank over 50 routes.
    assert min(row.fare for row in rows) > 0


def test_rows_leave_when_they_are_due() -> None:
    schedule = Bursts(base_rate=100, factor=10, every_s=2, length_s=1, total=2_000, seed=9)
    clock = ManualClock()
    start = clock.now()
    seen: list[tuple[Ride, int]] = []
    count = play(schedule, lambda r, ms: seen.append((r, ms)), now=clock.now, sleep=clock.sleep)
    assert count == len(seen) == 2_000
    due = [offset for offset, number in schedule for _ in range(number)]
    assert [ms / 1000 - start for _, ms in seen] == pytest.approx(due, abs=2e-3)


def test_a_slow_sender_loses_no_rows() -> None:
    schedule = Bursts(base_rate=1_000, total=500, seed=0)
    clock = ManualClock()
    ids: list[int] = []

    def slow(ride: Ride, _sent: int) -> None:
        clock.time += 0.01  # Ten times slower than the rate.
        ids.append(ride.id)

    assert play(schedule, slow, now=clock.now, sleep=clock.sleep) == 500
    assert ids == list(range(500))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"base_rate": 0}, "base_rate=0"),
        ({"base_rate": float("nan")}, "base_rate=nan"),
        ({"factor": 0.5}, "below 1"),
        ({"every_s": 2, "length_s": 3}, "outside"),
        ({"total": -1}, "total=-1"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        Bursts(**({"base_rate": 10} | wrong))  # type: ignore[arg-type]


def test_a_broker_that_is_not_there_is_named_once_and_not_on_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    (nobody,) = free_ports(count=1)
    with pytest.raises(DeliveryFailed, match=f"first error: .*127.0.0.1:{nobody}"):
        produce(f"127.0.0.1:{nobody}", "rides", Bursts(base_rate=1000, total=10), timeout=1.0)
    assert capfd.readouterr().err == ""
