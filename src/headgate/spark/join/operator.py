"""The stateful operator of a join: Spark's state on one side, `JoinWork` on the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headgate.core.plan import Plan
from headgate.spark.gate.pin.task_plan import TaskPlan, batch_of_task
from headgate.spark.join.left_out.drawing import RowsTold
from headgate.spark.join.meter import (
    COUNTS,
    FILE_REPORT,
    ITEMS_REPORT,
    PAIRS,
    ROWS_REPORT,
    SHARD_REPORT,
    SHOWN_WINDOWS,
    WINDOW_REPORT,
    shard_report,
)
from headgate.spark.join.pack import FILE_TOLD, ROWS_TOLD, Grid, packed
from headgate.spark.join.results import joined_batches, listed_batches
from headgate.spark.join.state_store import StateStore
from headgate.spark.join.tally import Done, WindowTally
from headgate.spark.join.work import NO_WATERMARK, JoinWork

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JoinOperator"]

#: Pairs that travel in one row of the operator's output; a bound on the memory of a worker, no tuning.
_CHUNK = 65_536
#: What windows add up, in the order in which `output="counts"` has it.
_SUMS = ("found", "missed", "variance", "utility", "missed_utility", "utility_variance")


class JoinOperator(StatefulProcessor):
    """One for each task. The state holds an index, and payloads and summaries by block number."""

    def __init__(
        self, work: JoinWork, grid: Grid, plans: TaskPlan | None, fallback: Plan, output: str
    ) -> None:
        self._work, self._plans, self._fallback, self._output = work, plans, fallback, output
        #: A row is at several shards, and counts once.
        self._copies = (grid.copies(0), grid.copies(1))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: an index, and payloads and summaries by block number."""
        self._index = handle.getValueState("index", "value binary")
        self._blocks = handle.getMapState("blocks", "number bigint", "payload binary")
        self._summaries = handle.getMapState("summaries", "number bigint", "summary binary")

    def close(self) -> None:
        """There is nothing to close: the state is Spark's."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """A batch's blocks for one shard."""
        began = time.perf_counter()
        batch, plan, without_plan = self._plan()
        held = self._index.get()
        index = self._work.fresh() if held is None else self._work.restored(bytes(held[0]))
        store = StateStore(self._work.terms.condition, self._blocks, self._summaries, index)
        arrived: list[tuple[int, bytes]] = []
        told = [RowsTold(), RowsTold()]
        files: list[bytes] = []
        for frame in rows:
            for side, payload in zip(frame["side"], frame["payload"], strict=True):
                if side < ROWS_TOLD:
                    arrived.append((int(side), bytes(payload)))
                elif side == FILE_TOLD:
                    files.append(bytes(payload))
                else:
                    told[side - ROWS_TOLD] += RowsTold.from_bytes(bytes(payload))
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        watermark_us = watermark_ms * 1000 if watermark_ms > 0 else NO_WATERMARK
        done = self._work.run(
            index, store, arrived, watermark_us, plan, batch, int(key[0]), self._copies
        )
        self._index.update((index.to_bytes(),))
        written = time.perf_counter()
        yield from self._results(done)
        emit_s = time.perf_counter() - written
        for bucket, tally in sorted(done.windows.items())[-SHOWN_WINDOWS:]:
            missed = tally.missed + tally.left_out
            yield _row(WINDOW_REPORT, bucket, [tally.found, missed, tally.variance])
        for side, seen in enumerate(told):
            if seen.arrived:
                yield _row(ROWS_REPORT, side, seen.numbers())
        for name in files:
            yield _row(FILE_REPORT, 0, [], name)
        if done.items is not None and done.items.shares:
            yield _row(ITEMS_REPORT, 0, [], done.items.to_bytes())
        sums = {
            "left": done.rows[0] / self._copies[0],
            "right": done.rows[1] / self._copies[1],
            "late": done.late[0] / self._copies[0] + done.late[1] / self._copies[1],
            "wanted": done.total("full"),
            "made": done.made,
            "blocks": len(index.blocks),
            "state_bytes": sum(s.size for s in index.blocks),
            "tasks_without_plan": without_plan,
            "probed_left": done.probed[0],
            "probed_right": done.probed[1],
            "shed_left": (told[0].arrived - told[0].kept),
            "shed_right": (told[1].arrived - told[1].kept),
            "left_out": done.total("left_out"),
            **_estimates(done),
        }
        own = {
            "compare_s": done.compare_s,
            "emit_s": emit_s,
            "comparisons": done.timed,
            "results": done.total("found"),
            "fixed_s": time.perf_counter() - began - done.compare_s - emit_s,
        }
        yield _row(SHARD_REPORT, 0, shard_report(sums, own))

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
                yield _row(COUNTS, bucket, list(_sums_of(tally).values()))
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


def _sums_of(tally: WindowTally) -> dict[str, float]:
    """What a window adds up; pairs of rows that were left out are missed like the others."""
    sums = {name: getattr(tally, name) for name in _SUMS}
    sums["missed"] += tally.left_out
    sums["missed_utility"] += tally.utility_left_out
    return sums


def _estimates(done: Done) -> dict[str, float]:
    """The same of the whole batch, whose windows have rows in common."""
    windows = [_sums_of(tally) for tally in done.windows.values()]
    sums = {name: sum(window[name] for window in windows) for name in _SUMS}
    sums["variance"] += done.shared
    sums["utility_variance"] += done.utility_shared
    return sums


def _row(what: int, bucket: int, numbers: list[float], payload: bytes | None = None) -> pd.DataFrame:
    """One row as a frame of its own: Spark makes one Arrow batch of each, so none can grow too large."""
    import pandas as pd  # late: Spark plans a query with this module in ten seconds, or not at all

    row = {"what": what, "bucket": bucket, "numbers": [float(n) for n in numbers], "payload": payload}
    return pd.DataFrame({name: [value] for name, value in row.items()})
