"""One slice after the other: take it, read it, compare it, hand it on, mark it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument
from headgate.spark.backfill.offsets import offsets_in_record
from headgate.spark.backfill.parts import Parts, shed_of
from headgate.spark.backfill.progress import Bar
from headgate.spark.backfill.reread import Reread, mismatches
from headgate.spark.backfill.sinks import Sink
from headgate.spark.worker_errors import said_by_spark
from headgate.store.lease import BEAT_S
from headgate.store.ledger.records import Ledger, Record
from headgate.store.repaid.slices import Left, Slice, Slices

if TYPE_CHECKING:
    from headgate.spark.backfill.repay import Repayment

__all__ = ["SliceWork", "Work"]

log = logging.getLogger("headgate")


@dataclass(frozen=True)
class Work:
    """What a slice came to."""

    rows_read: int = 0
    rows: int = 0


class SliceWork:
    """Repays batches of one gate in one query, and keeps the account in `done`."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        slices: Slices,
        sink: Sink,
        parts: Parts,
        done: Repayment,
    ) -> None:
        self._spark, self.ledger, self.slices, self._sink = spark, ledger, slices, sink
        self._parts, self.done = parts, done
        #: Batches that need no more work in this run.
        self.ended: set[int] = set()

    # New slices.

    def repay(self, batches: Sequence[int]) -> Work:
        """Those of these batches that nobody else has in hand."""
        one = self.slices.take(batches, self._sink.given)
        if one is None or len(one.batches) < len(batches):
            self._note_others(set(batches) - set(() if one is None else one.batches))
        if one is None:
            return Work()
        with _beating(one):
            records = self._records(one.batches)
            read, bad = self._read(records)
            self.done.left_open.update(bad | _without_record(one, records))
            shed = {b: records[b].shed for b in read}
            if not shed:
                one.give_up()
                return Work()
            if not one.begin(shed):  # it was given up while this process slept
                self.done.elsewhere.extend(sorted(shed))
                return Work()
            try:
                return self._hand_on(one, read, records)
            except BaseException:
                if self._sink.can_give_up:
                    with suppress(OSError):
                        if one.give_up():  # else its rows count, and this is their only copy
                            self._sink.drop(one, one.attempt)
                raise

    def _note_others(self, batches: set[int]) -> None:
        repaid = self.slices.marks.look() and self.slices.marks.rows()
        for batch in sorted(batches):
            if batch in (repaid or {}):
                self.done.before += 1
            else:
                self.done.elsewhere.append(batch)

    def _records(self, batches: Sequence[int]) -> dict[int, Record]:
        found = self.ledger.records(min(batches), max(batches))
        return {b: found[b] for b in batches if b in found}

    def _read(self, records: Mapping[int, Record]) -> tuple[dict[int, Reread], dict[int, str]]:
        """The batches as the source has them now, and why some are not what was recorded."""
        read: dict[int, Reread] = {}
        bad: dict[int, str] = {}
        for batch, record in records.items():
            try:
                found = self._parts.read(record, bad)
            except BadArgument:
                raise
            except Exception as error:
                said = said_by_spark(error)
                if said is None:
                    raise
                where = offsets_in_record(record)
                bad[batch] = f"(offsets {where.starts} to {where.ends}) cannot be read any more: {said}"
                continue
            if found is not None:
                read[batch] = found
        bad |= mismatches(read)
        return {b: part for b, part in read.items() if b not in bad}, bad

    def _hand_on(self, one: Slice, read: Mapping[int, Reread], records: Mapping[int, Record]) -> Work:
        began = time.time()
        rows = reduce(DataFrame.unionByName, [shed_of(read[b]) for b in one.batches])
        there = self._sink.write(one, rows)
        wrong = {} if there is None else _unlike(one.shed, there)
        if wrong:
            self._sink.drop(one, one.attempt)
            one.give_up()
            self.done.left_open.update(wrong)
            return Work(_arrived(records, one.batches))
        if not one.decide():
            self._sink.drop(one, one.attempt)
            self.done.elsewhere.extend(one.batches)
            return Work()
        self._sink.show(one, one.attempt)
        return self._finish(one, time.time() - began, _arrived(records, one.batches))

    def _finish(self, one: Slice, seconds: float, rows_read: int) -> Work:
        one.mark(one.shed, round(seconds, 3), time.time())
        self.slices.marks.look()
        rows = sum(one.shed.values())
        self.done.slices += 1
        self.done.batches += len(one.batches)
        self.done.rows += rows
        self.done.rows_read += rows_read
        self.ended.update(one.batches)
        return Work(rows_read, rows)

    # What others left.

    def settle_unfinished(self, wanted: set[int], bar: Bar) -> None:
        """End the slices of processes that are gone, as far as this sink can."""
        for left in self.slices.unfinished():
            mine = set(left.shed()) if left.has_begun else set(self.slices.claimed_by(left.id))
            if mine and not mine & wanted:
                continue  # not what this run was asked for
            if self.slices.lives(left):
                if left.id not in self.slices.marks.look():
                    self.done.elsewhere.extend(sorted(mine & wanted))
                self.ended |= mine
                continue
            self._settle(left, mine & wanted, bar)

    def _settle(self, left: Left, mine: set[int], bar: Bar) -> None:
        same = left.given == self._sink.given
        giveable = not left.has_begun or (left.given.kind == "files" and left.decided is None)
        if not giveable and not same:
            self._leave_open(left, mine)
            return
        one = self.slices.take_over(left)
        if one is None:  # another process is at it
            self.done.elsewhere.extend(sorted(mine))
            self.ended |= mine
            return
        if giveable and one.give_up():
            if same:
                self._sink.drop(one, left.attempt)
            return
        now = self.slices.now(left) if giveable else left  # it began, or decided, a moment before
        if now is None:
            return
        if not same:
            self._leave_open(now, mine)
            return
        one.resume(now)
        if now.decided is not None:  # its rows are written and count: only the mark is missing
            self._sink.show(one, now.decided)
            self._finish(one, 0.0, 0)
            return
        self._again(one, bar)

    def _leave_open(self, left: Left, mine: set[int]) -> None:
        was = "a function" if left.given.kind == "function" else f"{left.given.to!r}"
        why = (
            f"was begun for {was} in slice {left.id} by a process that is gone: run again with the "
            "same to= to end it, as only there can be told whether its rows are in"
        )
        self.done.left_open.update(dict.fromkeys(sorted(mine), why))

    def _again(self, one: Slice, bar: Bar) -> None:
        """The same slice to a sink that may have it already, and tells by its id."""
        with _beating(one):
            records = self._records(one.batches)
            read, bad = self._read(records)
            bad |= _without_record(one, records)
            if bad:
                which = ", ".join(map(str, sorted(bad)))
                why = f"is in slice {one.id}, which cannot be ended: batch {which} is not as recorded"
                self.done.left_open.update({b: bad.get(b, why) for b in one.batches})
                return
            work = self._hand_on(one, read, records)
            bar(work.rows_read, len(one.batches))


def _without_record(one: Slice, records: Mapping[int, Record]) -> dict[int, str]:
    return {b: "has no record any more" for b in one.batches if b not in records}


def _arrived(records: Mapping[int, Record], batches: Sequence[int]) -> int:
    return sum(records[b].arrived for b in batches)


def _unlike(shed: Mapping[int, int], there: Mapping[int, int]) -> dict[int, str]:
    return {
        b: f"shed {rows:,} rows, and {there.get(b, 0):,} were read when they were to be written: the "
        "source has changed since it was compared"
        for b, rows in shed.items()
        if there.get(b, 0) != rows
    }


@contextmanager
def _beating(one: Slice) -> Iterator[None]:
    """Say that this process lives while it works on the slice."""
    over = threading.Event()

    def beat() -> None:
        while True:
            with suppress(OSError):
                one.beat()
            if over.wait(BEAT_S):
                return

    thread = threading.Thread(target=beat, name="headgate-backfill-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
