"""``headgate bench site-sizes``: what a site gains by knowing a batch's size when its plan is pinned.

The sites of ``headgate bench site-numbers`` run twice in virtual time, with the same draws: with plans
made for the size and the time of their own batch, and with the keep rate for what was expected, as where
an offset log cannot be read. Of each the lowest time average of a query's SIC divided by its weight, the
share of batches that end within their target averaged over the streams, the longest batch as a share
of its target, and the share of the offered work that was kept.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from headgate_lab.bench.progress import bench_progress
from headgate_lab.sim.themis.site_kinds import KINDS, SiteKind
from headgate_lab.sim.themis.virtual_site import VirtualSite

__all__ = ["Achieved", "run", "watch"]


@dataclass(frozen=True)
class Achieved:
    """What one site achieved after its beginning."""

    least_sic: float
    in_time: float
    longest: float
    kept: float


def watch(kind: SiteKind, seed: int, sizes_known: bool) -> Achieved:
    """Run one site."""
    site = VirtualSite(
        kind.streams(), kind.cores, noise_seed=seed, sizes_known=sizes_known, **kind.settings
    )
    site.run(kind.seconds)
    sics, state = site.mean_sic(kind.warm_s), site.allocator.state
    of_sources = {stream.query for stream in site.streams if stream.brings is None}
    longest = kept = offered = 0.0
    for stream in site.streams:
        hold_s = stream.hold_s or site.allocator.settings.hold_s
        taken = [d for at, d in stream.durations if at >= kind.warm_s]
        if stream.started is not None:  # one that has not ended yet
            taken.append(site.now - stream.started)
        longest = max(longest, *(d / hold_s for d in taken))
        for at, arrived, passed in stream.history:
            if at >= kind.warm_s:
                offered += arrived * stream.per_row_s
                kept += passed * stream.per_row_s
    return Achieved(
        least_sic=min(sics[query] / state.weight(query) for query in of_sources),
        in_time=math.fsum(site.inside(s, kind.warm_s) for s in site.streams) / len(site.streams),
        longest=longest,
        kept=kept / max(offered, 1e-9),
    )


def run(*, quick: bool) -> dict[str, Any]:
    """All kinds of sites, by two seeds; quick: by one."""
    seeds = 1 if quick else 2
    rows: list[dict[str, Any]] = []
    with bench_progress() as progress:
        task = progress.add_task("sites", total=2 * seeds * len(KINDS))
        for name, kind in KINDS.items():
            row: dict[str, Any] = {"site": name}
            for known, title in ((False, "expected"), (True, "known")):
                runs = []
                for seed in range(seeds):
                    progress.update(task, description=name)
                    runs.append(asdict(watch(kind, seed, known)))
                    progress.advance(task)
                for figure in runs[0]:
                    values = [one[figure] for one in runs]
                    mean = math.fsum(values) / seeds
                    row[f"{figure}_{title}"] = max(values) if figure == "longest" else mean
            rows.append(row)
    return {
        "bench": "site-sizes",
        "ratios": {
            "least_sic_known_vs_expected": _mean(
                [row["least_sic_known"] / row["least_sic_expected"] for row in rows]
            ),
            "in_time_expected": _mean([row["in_time_expected"] for row in rows]),
            "in_time_known": _mean([row["in_time_known"] for row in rows]),
            "longest_expected": max(row["longest_expected"] for row in rows),
            "longest_known": max(row["longest_known"] for row in rows),
        },
        "context": {"seeds": seeds, "tables": {"sizes expected and sizes known": rows}},
    }


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
