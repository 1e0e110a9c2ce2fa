"""``headgate bench join-rules``: every selection rule of a join, on a virtual CPU."""

from __future__ import annotations

from typing import Any

from headgate_lab.bench.progress import bench_progress
from headgate_lab.papers.join.rules import Cells, Content, Directed, RandomDrop
from headgate_lab.sim.join.compare import CAPACITIES, QUICK, SCENARIOS, compare

__all__ = ["run"]

_AFTER, _JUMPS = "after the burst", "shift jumps"


def run(*, quick: bool) -> dict[str, Any]:
    """A row for each scenario and capacity, a column for each rule; the goals as ratios."""
    steps = len(QUICK) if quick else len(CAPACITIES) * len(SCENARIOS)
    with bench_progress() as progress:
        task = progress.add_task("virtual CPU", total=steps)

        def tell(what: str) -> None:
            progress.update(task, description=what)
            progress.advance(task)

        rows = compare(quick, progress=tell)

    def least(policy: str, metric: str, scenario: str | None = None) -> float:
        return min(
            float(row[metric])
            for row in rows
            if row["policy"] == policy and scenario in (None, row["scenario"])
        )

    ratios = {
        "content_over_published_least": least(Content.name, "over_directed"),
        "cells_share_of_bound_when_shift_jumps": least(Cells.name, "share_of_bound", _JUMPS),
        "cells_share_of_bound_least": least(Cells.name, "share_of_bound"),
        "cells_after_burst_over_random_drop": least(Cells.name, "over_random_drop", _AFTER),
        "content_after_burst_over_random_drop": least(Content.name, "over_random_drop", _AFTER),
        "published_after_burst_over_random_drop": least(Directed.name, "over_random_drop", _AFTER),
        "random_drop_share_of_bound_least": least(RandomDrop.name, "share_of_bound"),
    }
    return {
        "bench": "join-rules",
        "ratios": ratios,
        "context": {"rows": rows, "tables": {"share of the clairvoyant bound": _wide(rows)}},
    }


def _wide(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        key = (row["scenario"], row["capacity"])
        line = found.setdefault(key, {"scenario": row["scenario"], "capacity": row["capacity"]})
        line[row["policy"]] = round(row["share_of_bound"], 3)
    return list(found.values())
