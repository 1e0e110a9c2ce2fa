"""The stateful operator of a join: Spark's state on one side, `JoinWork` on the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headgate.core.plan import Plan
from headgate.spark.gate.task_plan import TaskPlan, batch_of_task
from headgate.spark.join.block import (
    Block,
    Summary,
    block_of,
    joined_batches,
    listed_batches,
    remembered,
    summary_of,
)
from headgate.spark.join.meter import (
    COUNTS,
    PAIRS,
    PLACE_REPORT,
    SHOWN_WINDOWS,
    WINDOW_REPORT,
    place_report,
)
from headgate.spark.join.pack import Grid, packed
from headgate.spark.join.state import Index, Stored
from headgate.spark.join.tally import Done
from headgate.spark.join.work import NO_WATERMARK, JoinWork

__all__ = ["JoinOperator"]

#: Pairs that travel in one row of the operator's output.
_CHUNK = 65_536


class JoinOperator(StatefulProcessor):
    """One for each task. The state holds an index, and payloads and summaries by block number."""

    def __init__(
        self, work: JoinWork, grid: Grid, plans: TaskPlan | None, fallback: Plan, output: str
    ) -> None:
        self._work, self._plans, self._fallback, self._output = work, plans, fallback, output
        #: A row is at several places, and counts once.
        self._copies = (grid.copies(0), grid.copies(1))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._index = handle.getValueState("index", "value binary")
        self._blocks = handle.getMapState("blocks", "number bigint", "payload binary")
        self._summaries = handle.getMapState("summaries", "number bigint", "summary binary")

    def close(self) -> None:
        """Nothing is open."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """A batch's blocks for one place."""
        began = time.perf_counter()
        batch, plan, astray = self._plan()
        held = self._index.get()
        index = self._work.fresh() if held is None else self._work.restored(bytes(held[0]))
        store = _StateStore(self._work, self._blocks, self._summaries, index)
        arrived = [
            (int(side), bytes(payload))
            for frame in rows
            for side, payload in zip(frame["side"], frame["payload"], strict=True)
        ]
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        watermark_us = watermark_ms * 1000 if watermark_ms > 0 else NO_WATERMARK
        done = self._work.run(index, store, arrived, watermark_us, plan, batch, int(key[0]))
        self._index.update((index.to_bytes(),))
        written = time.perf_counter()
        yield from self._results(done)
        emit_s = time.perf_counter() - written
        for bucket, tally in sorted(done.windows.items())[-SHOWN_WINDOWS:]:
            yield _row(WINDOW_REPORT, bucket, [tally.found, tally.missed, tally.variance])
        sums = {
            "left": done.rows[0] / self._copies[0],
            "right": done.rows[1] / self._copies[1],
            "late": done.late[0] / self._copies[0] + done.late[1] / self._copies[1],
            "wanted": done.wanted,
            "made": done.made,
            "blocks": len(index.blocks),
            "state_bytes": sum(s.size for s in index.blocks),
            "astray": astray,
            **{
                name: done.total(name)
                for name in ("found", "missed", "variance", "worth", "missed_worth", "worth_variance")
            },
        }
        own = {
            "compare_s": done.compare_s,
            "emit_s": emit_s,
            "comparisons": done.timed,
            "results": done.total("found"),
            "fixed_s": time.perf_counter() - began - done.compare_s - emit_s,
        }
        yield _row(PLACE_REPORT, 0, place_report(sums, own))

    def _plan(self) -> tuple[int, Plan, int]:
        """The number of the batch, its plan, and whether that could not be had."""
        here = batch_of_task()
        if here is None:  # a batch frame: no stream, no plan
            return 0, self._fallback, 0
        query, batch = here
        if self._plans is None:
            return batch, self._fallback, 0
        pinned = self._plans.pin(query, batch)
        return batch, pinned.plan, int(pinned.origin.startswith("fail"))

    def _results(self, done: Done) -> Iterator[pd.DataFrame]:
        """The pairs as the call asked for them."""
        if self._output == "counts":
            for bucket, tally in done.windows.items():
                numbers = [tally.found, tally.missed, tally.variance, tally.worth, tally.missed_worth,
                           tally.worth_variance]  # fmt: skip
                yield _row(COUNTS, bucket, numbers)
            return
        held: list[Any] = []
        size = 0
        for pairs in done.pairs:
            for start in range(0, len(pairs.i), _CHUNK):
                part = slice(start, start + _CHUNK)
                held.append((pairs.left, pairs.i[part], pairs.right, pairs.j[part]))
                size += len(pairs.i[part])
                if size >= _CHUNK:
                    yield from self._chunk(held)
                    held, size = [], 0
        yield from self._chunk(held)

    def _chunk(self, held: list[Any]) -> Iterator[pd.DataFrame]:
        made = listed_batches(held) if self._output == "lists" else joined_batches(held)
        if made is not None:
            yield _row(PAIRS, 0, [], packed(made))


def _row(what: int, bucket: int, numbers: list[float], payload: bytes | None = None) -> pd.DataFrame:
    """One row as a frame of its own: Spark makes one Arrow batch of each, so none can grow too large."""
    row = {"what": what, "bucket": bucket, "numbers": [float(n) for n in numbers], "payload": payload}
    return pd.DataFrame({name: [value] for name, value in row.items()})


@dataclass
class _StateStore:
    """Blocks in Spark's state, by way of what the process remembers."""

    work: JoinWork
    blocks: MapState
    summaries: MapState
    index: Index

    def block(self, stored: Stored) -> Block:
        """Read one."""

        def read() -> Block:
            payload = bytes(self.blocks.getValue((stored.number,))[0])  # type: ignore[index]
            return block_of(stored.side, stored.bucket, payload, self.work.condition)

        return remembered(self._key(stored), stored.size, read)

    def _key(self, stored: Stored) -> str:
        """Both sides, and two joins in one process, may have blocks of the same content."""
        kind = type(self.work.condition).__name__
        return f"{kind} {stored.side} {stored.bucket} {stored.digest}"

    def summary(self, stored: Stored) -> Summary:
        """Read what the choice needs of one."""
        return summary_of(
            self._key(stored),
            lambda: bytes(self.summaries.getValue((stored.number,))[0]),  # type: ignore[index]
        )

    def put(self, block: Block) -> Stored:
        """Write one."""
        number = self.index.next_number
        self.index.next_number += 1
        self.blocks.updateValue((number,), (block.payload,))
        self.summaries.updateValue((number,), (block.summary.to_bytes(),))
        size = len(block.payload)
        stored = Stored(number, block.side, block.bucket, block.n, block.rows.span, block.digest, size)
        remembered(self._key(stored), size, lambda: block)
        return stored

    def remove(self, stored: Stored) -> None:
        """Forget one."""
        self.blocks.removeKey((stored.number,))
        self.summaries.removeKey((stored.number,))
