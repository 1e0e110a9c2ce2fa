"""Totals over groups whose rows share identities: by `hg.total`, and over all rows at once.

A user's rows in several groups are kept or shed together, so the groups' errors do not cancel out.
``hg.total`` takes them for independent (*apart*); ``hg.total(..., together=True)`` adds up the errors
themselves; ``hg.together`` with the window alone as `within`, and ``hg.sum`` behind it, is *at once*.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate_lab.bench.coverage.intervals import intervals
from headgate_lab.bench.coverage.populations import Grouping, Population
from headgate_lab.bench.coverage.shared_fate import LEAST_IDENTITIES, Clusters
from headgate_lab.bench.coverage.tally import Tally, told

__all__ = ["shared_totals"]


def shared_totals(
    query: Grouping,
    people: Population,
    identity: tuple[str, ...],
    shares: tuple[float, ...],
    times: int,
    seed: int,
) -> dict[str, Any] | None:
    """Of one query: what covers the sum over a window's groups; None if windows have one group each."""
    windows, window_of = np.unique(people.windows, return_inverse=True)
    if len(windows) == len(people.windows):
        return None
    number = len(windows)
    whole = Population(window_of[people.cells], people.values, windows, None, people.identities)
    clusters, at_once = Clusters.of(people), Clusters.of(whole)
    truth = whole.mean() * whole.sizes
    widths = {share: at_once.widths(share)["sum"] for share in shares}
    found = {method: Tally() for method in ("apart", "together", "at once")}
    draws = zip(clusters.drawn(shares, times, seed), at_once.drawn(shares, times, seed), strict=True)
    for by_group, over_all in draws:
        sums, all_sums = by_group.sums, over_all.sums
        ends = intervals(sums, "sum", coins=True, share=False)["alone"]
        once = intervals(all_sums, "sum", coins=True, share=False)["alone"]
        value, window = sums.mean * sums.n * sums.weight, window_of[sums.cell]
        # a group without an error bar leaves its window's total without one
        unknown = np.bincount(window, ~np.isfinite(ends["low"]), number) > 0
        middle = np.where(unknown, np.nan, np.bincount(window, value, number))
        down, up = (np.nan_to_num(d) for d in (value - ends["low"], ends["high"] - value))
        roots = [np.sqrt(np.bincount(window, d * d, number)) for d in (down, up)]
        added = [np.bincount(window, d, number) for d in (down, up)]
        enough = (all_sums.n >= LEAST_IDENTITIES) & ~unknown[all_sums.cell]
        here = np.flatnonzero(enough)
        cells = all_sums.cell[here]
        said = {
            "apart": (middle - roots[0], middle + roots[1]),
            "together": (middle - added[0], middle + added[1]),
        }
        judged = {m: {"low": low[cells], "high": high[cells]} for m, (low, high) in said.items()}
        judged["at once"] = {end: once[end][here] for end in ("low", "high")}
        for method, of_method in judged.items():
            found[method].add(of_method, truth[cells], widths[by_group.share][cells])
    where = {"data": query.data, "query": query.name, "identity": ", ".join(identity)}
    return {**where, **told(found)}
