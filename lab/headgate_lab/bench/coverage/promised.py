"""An accuracy that was asked for: how many groups and windows were within it, and what was said of them.

`headgate.policies.by_group.accuracy.Accuracy` has nothing to borrow: the gate sees every row before it
sheds any, so mean and variance of a group are exact. What can fail is the normal law of its draws, for
values with a long tail; and what people see is not the error but the interval.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.policies.by_group.accuracy import Accuracy
from headgate.policies.by_group.level import Rule
from headgate_lab.bench.coverage.draws import drawn_by
from headgate_lab.bench.coverage.intervals import intervals
from headgate_lab.bench.coverage.populations import Grouping, Population

__all__ = ["WITHIN", "promised"]

#: Relative errors that are asked for.
WITHIN = (0.02, 0.05, 0.1)
#: A window is near its target up to so many times that.
_NEAR = 1.25


def promised(
    query: Grouping, people: Population, within: float, times: int, seed: int
) -> dict[str, Any] | None:
    """One query under a gate with this accuracy; None if no group is large enough for a promise."""
    wish = Accuracy(query.value, within=within)
    sizes, truth = people.sizes, people.mean()
    needs = wish.needs(sizes, truth, np.sqrt(people.variance()), np.ones(len(sizes)))
    dice = np.random.default_rng(seed).random(len(sizes))
    quotas = Rule("need").quotas(1.0, sizes, needs, dice)
    judged = (sizes >= wish.least_rows) & (quotas < sizes) & (truth != 0.0)
    if not judged.any():
        return None
    errors, near, said = [], [], []
    for kept in drawn_by(people, {within: quotas}, times, seed):
        here = judged[kept.cell]
        true = np.where(here, np.abs(truth[kept.cell]), np.nan)
        off = np.abs(kept.mean - truth[kept.cell]) / true
        errors.append(off[here])
        for window in np.unique(kept.window[here]):
            of_window = off[here & (kept.window == window)]
            near.append(float(np.quantile(of_window, 0.95)) <= _NEAR * within)
        ends = intervals(kept, "mean", coins=False, share=False)["pooled"]
        half = 0.5 * (ends["high"] - ends["low"]) / true
        said.append(half[here])
    every = np.concatenate(errors)
    return {
        "data": query.data,
        "query": query.name,
        "within": within,
        "groups": int(judged.sum()),
        "kept": round(100.0 * float(quotas.sum() / sizes.sum()), 1),
        "groups within": round(100.0 * float((every <= within).mean()), 1),
        "windows near": round(100.0 * float(np.mean(near)), 1),
        "said, of asked": round(float(np.nanmedian(np.concatenate(said))) / within, 2),
    }
