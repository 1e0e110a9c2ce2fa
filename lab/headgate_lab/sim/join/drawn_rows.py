"""The shipped draw of a join's rows on a virtual clock: a share of every batch, by matches or at random.

Packing tasks, the shard and the driver's side run here as they do on Spark, with a dictionary for the
state; only how many rows fit is given. All comparisons of the rows that are kept are made, unless the
job's work says otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.core.plan import Plan
from headgate.core.plan_parts import RowDraw, WorkLimit
from headgate.joins.conditions import Overlap
from headgate.joins.row_draw.chances import ROW_DRAW, RowDrawConfig
from headgate.spark.join.left_out.drawing import DrawnTask, RowDrawer, RowsTold
from headgate.spark.join.left_out.rows_seen import RowsSeen, draw_of
from headgate.spark.join.pack import packed, unpacked
from headgate.spark.join.terms import JoinTerms
from headgate.spark.join.work import NO_WATERMARK, JoinWork
from headgate_lab.sim.join.batches import BatchJob, MemoryStore, payloads

__all__ = ["DrawnRun", "run_drawn"]


@dataclass
class DrawnRun:
    """What counted batches found, and what they say of all pairs."""

    arrived: float = 0.0
    kept: float = 0.0
    found: float = 0.0
    estimate: float = 0.0
    #: The sum of the batches' standard errors: they have rows in common.
    error: float = 0.0


def run_drawn(
    job: BatchJob,
    share: float,
    seed: int = 1,
    *,
    by_matches: bool = True,
    config: RowDrawConfig = ROW_DRAW,
) -> DrawnRun:
    """Run a job with so many of its rows, chosen by what they are expected to match, or at random."""
    condition = Overlap("items", "items", job.at_least)
    windows = (round(1e6 * job.windows_s[0]), round(1e6 * job.windows_s[1]))
    work = JoinWork(JoinTerms(condition, windows, round(1e6 * job.basic_s), seed))
    index, store, seen, run = work.fresh(), MemoryStore(), RowsSeen((1, 1), config), DrawnRun()
    for batch, arrived in enumerate(payloads(job, seed)):
        draw = RowDraw(share)
        if by_matches:
            draw = draw_of(seen.classes, seen.items, share, config)
        rows, told = _drawn(arrived, draw, condition, seed)
        plan = Plan(1.0, work=WorkLimit(job.work, job.result_units), rows=draw)
        watermark = (batch - 1) * 1_000_000 if batch > 1 else NO_WATERMARK
        done = work.run(index, store, rows, watermark, plan, batch)
        items = [] if done.items is None else [done.items]
        probed, came = (done.probed[0], done.probed[1]), (float(done.rows[0]), float(done.rows[1]))
        seen.learn(told, items, probed, came)
        if batch < job.first:
            continue
        run.arrived += sum(side.arrived for side in told.values())
        run.kept += sum(side.kept for side in told.values())
        run.found += done.total("found")
        run.estimate += sum(done.total(name) for name in ("found", "missed", "left_out"))
        run.error += math.sqrt(done.total("variance") + done.shared)
    return run


def _drawn(
    arrived: list[tuple[int, bytes]], draw: RowDraw, condition: Overlap, seed: int
) -> tuple[list[tuple[int, bytes]], dict[int, RowsTold]]:
    rows, told = [], {}
    for side, payload in arrived:
        task = DrawnTask(RowDrawer(None, condition, side, seed), draw)
        rows.append((side, packed(task.kept(unpacked(payload)))))
        told[side] = task.seen
    return rows, told
