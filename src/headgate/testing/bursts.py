"""A producer that makes bursts: a schedule (when, how many), rows (what), and Kafka (where).

The schedule and the rows are pure and seeded, so that a test can state every count with no broker
and no waiting; only `produce` knows Kafka.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headgate.errors import BadArgument, HeadgateError, MissingExtra
from headgate.testing.kafka_client import client_settings

__all__ = ["Bursts", "DeliveryFailed", "Ride", "play", "produce", "rides"]

#: Routes are drawn with probability proportional to 1 / rank: a few carry most of the load.
ROUTES = 50
#: The share of rows that a job would rather not shed.
HIGH_SHARE = 0.1


class DeliveryFailed(HeadgateError):
    """Kafka did not acknowledge every message, so a count made from the schedule would be wrong."""


@dataclass(frozen=True)
class Bursts:
    """Poisson arrivals at ``base_rate`` rows/s, ``factor`` times that during each burst.

    A burst opens at ``every_s``, ``2 * every_s``, ... and lasts ``length_s``; the stream begins
    calm, so that a controller sees the step. Exactly ``total`` rows are scheduled.

    >>> schedule = Bursts(base_rate=100, factor=10, every_s=2, length_s=1, total=1500, seed=7)
    >>> schedule.rate_at(0.5), schedule.rate_at(2.5), schedule.rate_at(3.5)
    (100.0, 1000.0, 100.0)
    >>> sum(count for _, count in schedule)
    1500
    >>> list(schedule) == list(schedule)
    True
    """

    base_rate: float
    factor: float = 10.0
    every_s: float = 20.0
    length_s: float = 5.0
    total: int = 10_000
    seed: int = 0
    tick_s: float = field(default=0.1)

    def __post_init__(self) -> None:
        for name in ("base_rate", "every_s", "tick_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise BadArgument(f"{name}={value!r} is not a positive, finite number")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise BadArgument(f"factor={self.factor!r} is below 1: 1 means no bursts, 10 tenfold")
        if not 0 <= self.length_s <= self.every_s:
            raise BadArgument(
                f"length_s={self.length_s!r} is outside [0, every_s={self.every_s!r}]: "
                "a burst ends before the next one opens"
            )
        if self.total < 0 or self.seed < 0:
            raise BadArgument(f"total={self.total!r} and seed={self.seed!r} must be 0 or more")

    def rate_at(self, offset_s: float) -> float:
        """The expected rows per second at an offset from the start."""
        bursting = offset_s >= self.every_s and offset_s % self.every_s < self.length_s
        return float(self.base_rate * (self.factor if bursting else 1.0))

    def __iter__(self) -> Iterator[tuple[float, int]]:
        """(seconds from the start, rows due then), in order of time, empty ticks left out."""
        random = np.random.default_rng(self.seed)
        left, tick = self.total, 0
        while left > 0:
            # Offsets are multiplied, not summed, so that a long schedule does not drift.
            offset = tick * self.tick_s
            count = min(left, int(random.poisson(self.rate_at(offset) * self.tick_s)))
            if count:
                yield offset, count
            left -= count
            tick += 1


@dataclass(frozen=True)
class Ride:
    """One message. ``id`` is unique and dense, so lost and doubled rows can be named."""

    id: int
    route: str
    fare: float
    priority: str

    def message(self, sent_ms: int) -> bytes:
        """The JSON that goes to Kafka; ``sent`` is when it was given to the producer."""
        row = {"id": self.id, "route": self.route, "fare": self.fare, "priority": self.priority}
        return json.dumps(row | {"sent": sent_ms}, separators=(",", ":")).encode()


def rides(seed: int = 0, first_id: int = 0) -> Iterator[Ride]:
    """Endless rows: skewed routes, log-normal fares, a tenth of them of high priority.

    >>> next(rides(seed=1)) == next(rides(seed=1))
    True
    """
    random = np.random.default_rng([seed, 1])
    weights = 1.0 / np.arange(1, ROUTES + 1)
    weights /= weights.sum()
    following = first_id
    while True:
        routes = random.choice(ROUTES, size=1024, p=weights)
        fares = np.round(random.lognormal(2.5, 0.6, size=1024), 2)
        high = random.random(1024) < HIGH_SHARE
        for route, fare, first in zip(routes.tolist(), fares.tolist(), high.tolist(), strict=True):
            yield Ride(following, f"route-{route:02d}", fare, "high" if first else "low")
            following += 1


def play(
    schedule: Bursts,
    send: Callable[[Ride, int], None],
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    first_id: int = 0,
) -> int:
    """Give every row to ``send(ride, sent_ms)`` when it is due; returns how many.

    A sender that falls behind does not wait and skips nothing: the total is exact, the burst is
    only flatter than asked for.
    """
    source = rides(schedule.seed, first_id)
    start, sent = now(), 0
    for offset, count in schedule:
        if (wait := start + offset - now()) > 0:
            sleep(wait)
        stamp = int(now() * 1000)
        for _ in range(count):
            send(next(source), stamp)
        sent += count
    return sent


def produce(
    bootstrap: str,
    topic: str,
    schedule: Bursts,
    *,
    first_id: int = 0,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    timeout: float = 30.0,
) -> int:
    """Send the schedule to a Kafka topic, keyed by route; returns the rows acknowledged.

    Needs ``pip install 'headgate[kafka]'``. Raises `DeliveryFailed` unless all are acknowledged.
    """
    try:
        from confluent_kafka import Producer
    except ImportError:
        raise MissingExtra("confluent-kafka", "kafka") from None
    acknowledged = 0
    failures: list[str] = []
    # A retried send must not double an id, the tests count on it.
    own = {"enable.idempotence": True, "linger.ms": 5}
    producer = Producer(client_settings(bootstrap, failures, **own))

    def delivered(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures.append(str(error))

    def send(ride: Ride, sent_ms: int) -> None:
        value, key = ride.message(sent_ms), ride.route.encode()
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:  # The local queue is full: let it drain, do not drop.
                producer.poll(0.1)
        producer.poll(0)

    try:
        sent = play(schedule, send, now=now, sleep=sleep, first_id=first_id)
    finally:
        producer.flush(timeout)
    if acknowledged != sent:
        raise DeliveryFailed(
            f"{acknowledged} of {sent} messages acknowledged by {bootstrap} for topic {topic!r} "
            f"within {timeout:g} s of the last send; first error: {(failures or ['none'])[0]}"
        )
    return acknowledged
