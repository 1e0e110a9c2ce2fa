"""The shipped join of one shard on a virtual clock: a comparison is a tick, a batch is a second.

`headgate.spark.join.work` follows no clock, so it runs here as it runs in a worker, with a plan of so
many comparisons a batch and a dictionary for Spark's state. What it found is compared with the full
join's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.plan_parts import WorkLimit
from headgate.joins.conditions import Overlap
from headgate.spark.join.block import Block, Summary
from headgate.spark.join.pack import HASH, KEY, KIND, TIME, VALUE, packed
from headgate.spark.join.state import Stored
from headgate.spark.join.terms import WORK, JoinTerms, WorkConfig
from headgate.spark.join.work import NO_WATERMARK, JoinWork
from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.join.stream import JoinStream, Workload, stream

__all__ = ["BatchJob", "BatchRun", "MemoryStore", "payloads", "run_batches"]


@dataclass(frozen=True)
class BatchJob:
    """A workload, a join of it, and what a batch may spend."""

    workload: Workload
    #: Units that a batch may spend, and what a result costs of them.
    work: float
    result_units: float = 0.0
    at_least: int = 3
    windows_s: tuple[float, float] = (20.0, 20.0)
    basic_s: float = 1.0
    #: Rank by items, or by what was learned of lags and types.
    by_content: bool = True
    #: Utilities by type; without them types are learned apart, where there are several.
    utilities: tuple[float, ...] = ()
    #: Rows come up to so much later than their event time says.
    late_s: float = 0.0
    #: The first batch that counts.
    first: int = 20
    #: How many streams are drawn; fewer rows depend more on luck.
    seeds: int = 1

    @property
    def batches(self) -> int:
        """How many batches the job has: one a second."""
        return math.ceil(self.workload.seconds)


@dataclass
class BatchRun:
    """What counted batches found, and what they say that they missed."""

    found: float = 0.0
    utility: float = 0.0
    missed: float = 0.0
    variance: float = 0.0
    made: float = 0.0
    blocks: float = 0.0

    @property
    def error(self) -> float:
        """The standard error of the estimated share of all pairs that was found."""
        whole = self.found + self.missed
        return self.found / whole * math.sqrt(self.variance) / whole if whole else 0.0


@dataclass
class MemoryStore:
    """Blocks by number, in memory."""

    held: dict[int, Block] = field(default_factory=dict)

    def block(self, stored: Stored) -> Block:
        """The rows of a block."""
        return self.held[stored.number]

    def summary(self, stored: Stored) -> Summary:
        """What the choice reads of a block."""
        return self.held[stored.number].summary

    def put(self, block: Block) -> Stored:
        """Keep a block; its entry for the index."""
        number = max(self.held, default=-1) + 1
        self.held[number] = block
        drawn = () if block.chances is None else (block.stands_for, block.heaviest)
        return Stored(number, block.side, block.bucket, block.n, block.rows.span, "", 0, *drawn)

    def remove(self, stored: Stored) -> None:
        """Forget a block."""
        del self.held[stored.number]


def run_batches(
    job: BatchJob, config: WorkConfig = WORK, seed: int = 1, *, full: bool = False
) -> BatchRun:
    """Run a job; `full` makes every comparison."""
    kinds = len(job.workload.types) if not job.utilities else 1
    windows = (round(1e6 * job.windows_s[0]), round(1e6 * job.windows_s[1]))
    condition = Overlap("items", "items", job.at_least)
    work = JoinWork(
        JoinTerms(
            condition, windows, round(1e6 * job.basic_s), seed, kinds, job.by_content, config=config
        )
    )
    plan = KEEP_ALL if full else Plan(1.0, work=WorkLimit(job.work, job.result_units))
    index, store, found = work.fresh(), MemoryStore(), BatchRun()
    for batch, arrived in enumerate(payloads(job, seed)):
        behind = batch - 1 - math.ceil(job.late_s)
        watermark = behind * 1_000_000 if behind > 0 else NO_WATERMARK
        done = work.run(index, store, arrived, watermark, plan, batch)
        if batch < job.first:
            continue
        for name in ("found", "utility", "missed", "variance", "made"):
            setattr(found, name, getattr(found, name) + done.total(name))
        found.blocks += len(index.blocks) / (job.batches - job.first)
    return found


@cache
def payloads(job: BatchJob, seed: int) -> list[list[tuple[int, bytes]]]:
    """Each second's rows as payloads of both sides."""
    rows = stream(job.workload, seed)
    late = np.random.default_rng([seed, 13]).uniform(0.0, job.late_s, len(rows)) if job.late_s else 0.0
    second = (rows.time + late).astype(np.int64)
    batches: list[list[tuple[int, bytes]]] = []
    for batch in range(job.batches):
        own = [np.flatnonzero((second == batch) & (rows.side == side)) for side in (0, 1)]
        batches.append([(side, _payload(job, rows, of)) for side, of in enumerate(own) if len(of)])
    return batches


def _payload(job: BatchJob, rows: JoinStream, of: npt.NDArray[np.int64]) -> bytes:
    offsets = np.concatenate([[0], np.cumsum(rows.size[of])])
    flat = np.zeros(int(offsets[-1]), np.int32)
    compiled("join.kernels").set_items(rows.lo[of], rows.hi[of], offsets, flat)
    items = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat.astype(np.int64)))
    columns = {
        TIME: pa.array((1e6 * rows.time[of]).astype(np.int64)),
        HASH: pa.array(of),
        KEY: items,
    }
    if job.utilities:
        columns[VALUE] = pa.array(np.asarray(job.utilities, np.float64)[rows.type[of]])
    elif len(job.workload.types) > 1:
        columns[KIND] = pa.array(rows.type[of].astype(np.int32))
    return packed(pa.RecordBatch.from_pydict(columns))
