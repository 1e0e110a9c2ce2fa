"""Rows on their way: a thread that sends a schedule's messages when they are due, to Kafka or as files.

A message is ``first id,rows,event ms,arrival ms`` and stands for so many rows, because a producer and a
broker on the same two cores would otherwise take most of what is to be measured. All messages of a
run stand for equally many rows, so that a batch's offsets tell its rows up to one factor.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from headgate.errors import HeadgateError, MissingExtra
from headgate.testing.kafka_client import client_settings
from headgate_lab.bench.hold.arrivals import Array, Schedule

__all__ = ["MOST_MESSAGES", "Feed", "FileSink", "KafkaSink", "Messages", "Sink", "rows_each"]

#: Messages a second that a producer in Python sends beside a query without being felt.
MOST_MESSAGES = 10_000
#: How often the thread looks what is due.
_LOOK_S = 0.05
#: Files are for whoever has no broker: one for each stretch of this length.
_FILE_S = 0.25


def rows_each(highest_rate: float) -> int:
    """How many rows a message stands for, so that a producer keeps up: 1, 10, 100, ...

    >>> rows_each(8_000.0), rows_each(90_000.0), rows_each(1_000_000.0)
    (1, 10, 100)
    """
    rows = 1
    while highest_rate / rows > MOST_MESSAGES:
        rows *= 10
    return rows


@dataclass(frozen=True)
class Messages:
    """A schedule's messages from an instant on; event time is counted from 1970.

    >>> messages = Messages.of(Schedule((4.0, 4.0)), 2, began=100.0)
    >>> messages.due(100.6), messages.texts(0, 2)
    (1, [b'0,2,500,100500', b'2,2,1000,101000'])
    """

    times: Array
    rows: int
    began: float
    first: int = 0

    @classmethod
    def of(cls, schedule: Schedule, rows: int, began: float, first: int = 0) -> Self:
        """Each of so many rows, whose numbers begin with `first`."""
        return cls(schedule.message_times(rows), rows, began, first)

    def __len__(self) -> int:
        return len(self.times)

    def due(self, now: float) -> int:
        """How many have been due by now."""
        return int(np.searchsorted(self.times, now - self.began, side="right"))

    def late(self, number: int, now: float) -> float:
        """How long ago one was due."""
        return now - self.began - float(self.times[number])

    def texts(self, begin: int, end: int) -> list[bytes]:
        """What they say; made when they are sent, which is a second's work for a long run."""
        return [
            b"%d,%d,%d,%d"
            % (
                self.first + self.rows * i,
                self.rows,
                round(1000 * self.times[i]),
                round(1000 * (self.began + self.times[i])),
            )
            for i in range(begin, end)
        ]


class Sink(Protocol):
    """Where messages go."""

    def send(self, messages: Sequence[bytes], first: int) -> None:
        """Send them; `first` is the number of the first, counted from the start."""

    def flush(self) -> None:
        """Wait until all have arrived."""


class KafkaSink:
    """A topic; messages go to its partitions in turn."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 2, *, wait_s: float = 60.0) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise MissingExtra("confluent-kafka", "kafka") from None
        own = {
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,  # a call for each message would be felt
        }
        self._topic, self._partitions, self._wait_s = topic, partitions, wait_s
        self._failed: list[str] = []
        #: What the client says is wrong; a connection that it made again later is no loss.
        self._heard_of: list[str] = []
        self._producer: Any = Producer(client_settings(bootstrap, self._heard_of, **own))

    def send(self, messages: Sequence[bytes], first: int) -> None:
        """Into the producer's queue."""
        for number, message in enumerate(messages, first):
            while True:
                try:
                    self._producer.produce(
                        self._topic,
                        message,
                        partition=number % self._partitions,
                        on_delivery=self._heard,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.poll(0)

    def _heard(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))

    def flush(self) -> None:
        """Wait; rows that did not arrive would make every figure wrong."""
        left = self._producer.flush(self._wait_s)
        if left or self._failed:
            reason = (self._failed or self._heard_of or [f"no answer in {self._wait_s:g} s"])[0]
            raise HeadgateError(f"{left + len(self._failed)} messages did not reach Kafka: {reason}")


class FileSink:
    """A folder of text files, each whole from the moment at which it has its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._hidden = folder.with_name(folder.name + "-part")
        self._hidden.mkdir(exist_ok=True)
        self._serial = itertools.count()

    def send(self, messages: Sequence[bytes], first: int) -> None:
        """One file."""
        part = self._hidden / f"{next(self._serial):09d}.txt"
        part.write_bytes(b"\n".join(messages) + b"\n")
        part.rename(self._folder / part.name)

    def flush(self) -> None:
        """Nothing is under way."""


class Feed:
    """A thread that sends messages when they are due; `late_s` is by how much it missed one at worst."""

    def __init__(self, sink: Sink, messages: Messages) -> None:
        self._sink, self.messages = sink, messages
        self._look_s = _FILE_S if isinstance(sink, FileSink) else _LOOK_S
        self._over = threading.Event()
        self._error: Exception | None = None
        self.late_s = 0.0
        self.sent = 0
        self._thread = threading.Thread(target=self._work, name="headgate-bench-feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._over.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while self.sent < len(self.messages) and not self._over.is_set():
                self._send_due(time.time())
                self._over.wait(self._look_s)
            self._sink.flush()
        except Exception as error:  # raised where the feed is left
            self._error = error

    def _send_due(self, now: float) -> None:
        end = self.messages.due(now)
        if end > self.sent:
            self.late_s = max(self.late_s, self.messages.late(self.sent, now))
            self._sink.send(self.messages.texts(self.sent, end), self.sent)
            self.sent = end
