"""What the CoD figures compare, by public name, and the metrics of one run over a data set's windows.

The error of a window is the average over its groups of the relative error of the mean, at most 1, a
missing group counting as 1 (epsilon_Q of section III); the average and the 95th percentile are over
windows, as in the paper's section VII-C3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate_lab.figures.cod.data import Source
from headgate_lab.figures.figure import Axis
from headgate_lab.papers.cod import (
    CONCEPT_DRIVEN,
    READINGS,
    WindowRows,
    aggregate,
    cod_shed,
    estimate,
    missing_share,
    relative_error,
    uniform_shed,
)

__all__ = [
    "ERROR",
    "ERROR_AXIS",
    "ERROR_P95",
    "HARD",
    "KEPT",
    "KEPT_AXIS",
    "MISSING",
    "OURS",
    "P95_AXIS",
    "SAMPLE_KEPT",
    "SAMPLE_SHED",
    "UNIFORM",
    "metrics",
    "shed",
    "title_of",
]

UNIFORM, OURS, HARD = "uniform", CONCEPT_DRIVEN.name, "concept-driven, hard budget"
SAMPLE_SHED, SAMPLE_KEPT = "cod sample, absent shed", "cod sample, absent kept"
ERROR, ERROR_P95 = "relative_error", "relative_error_p95"
KEPT, MISSING = "kept_share", "missing_share"

ERROR_AXIS = Axis(ERROR, "average relative error (%)", 100.0)
P95_AXIS = Axis(ERROR_P95, "95th percentile of the error (%)", 100.0)
KEPT_AXIS = Axis(KEPT, "rows really kept (%)", 100.0)

Indices = npt.NDArray[np.intp]


def shed(window: WindowRows, policy: str, keep: float, rng: np.random.Generator) -> Indices:
    """The rows of a window that a policy keeps: uniform, or a reading of CoD."""
    if policy == UNIFORM:
        return uniform_shed(window.rows, keep, rng)
    if policy not in READINGS:
        raise BadArgument(f"no policy {policy!r}: one of {', '.join([UNIFORM, *READINGS])}")
    return cod_shed(window.codes, keep, rng, READINGS[policy])


def metrics(windows: Sequence[WindowRows], policy: str, keep: float, seed: int) -> dict[str, float]:
    """Error, its 95th percentile, share really kept and share of groups missing, over the windows."""
    errors, kept_shares, missing = [], [], []
    for number, window in enumerate(windows):
        kept = shed(window, policy, keep, np.random.default_rng([seed, number]))
        exact = aggregate("mean", window.codes, window.values, window.groups)
        found = estimate("mean", window, kept)
        errors.append(relative_error(exact, found))
        kept_shares.append(len(kept) / window.rows)
        missing.append(missing_share(exact, found))
    return {
        ERROR: float(np.mean(errors)),
        ERROR_P95: float(np.percentile(errors, 95)),
        KEPT: float(np.mean(kept_shares)),
        MISSING: float(np.mean(missing)),
    }


def title_of(title: str, sources: Iterable[Source]) -> str:
    """A title that says so where made streams take the place of real data."""
    made = list(dict.fromkeys(source.name for source in sources if source.made))
    return f"{title}; made streams, as the files are not here: {', '.join(made)}" if made else title
