"""CoD on a complete window, in two passes (cod-2018, Algorithm 2), for groups.

First pass: the concept, which is the groups' frequencies (Table II), from a uniform sample or from every
row. Then quotas: how many rows of each group. Second pass: that many rows of each. A query without
groups is the case of one group, where CoD is a uniform sample (section VII-C3).

Which of the paper's contradicting sentences is followed is a `Reading`. b, which has four meanings in
the paper, is `keep` here: the share of the window's rows that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.policies.by_group.allocation import allocate
from headgate_lab.papers.cod.readings import CONCEPT_DRIVEN, Reading
from headgate_lab.papers.cod.rows import group_counts
from headgate_lab.papers.cod.stratified import keep_by_coin, keep_fixed
from headgate_lab.papers.cod.uniform import checked_share, uniform_shed

__all__ = ["GroupConcept", "cod_shed", "group_concept", "known_quotas"]

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class GroupConcept:
    """C_w of a grouped query: how often each group was seen, among how many rows, of how many.

    A group that was not seen has frequency 0.
    """

    frequencies: Codes
    #: Rows of the whole window.
    rows: int

    @property
    def sizes(self) -> Codes:
        """The rows that each group is believed to have in the window."""
        seen = int(self.frequencies.sum())
        if seen in (0, self.rows):
            return self.frequencies
        return np.asarray(np.rint(self.frequencies * (self.rows / seen)), np.int64)


def group_concept(
    codes: npt.ArrayLike, groups: int, sample: npt.ArrayLike | None = None
) -> GroupConcept:
    """The concept of a window, from the rows in `sample` (indices) or from all.

    >>> group_concept([0, 0, 1, 0], 2, sample=[0, 1]).sizes.tolist()
    [4, 0]
    """
    every = np.asarray(codes, np.int64)
    seen = every if sample is None else every[np.asarray(sample, np.intp)]
    return GroupConcept(group_counts(seen, groups), len(every))


def known_quotas(
    concept: GroupConcept, budget: float, reading: Reading, rng: np.random.Generator
) -> Codes:
    """Rows to keep of each group that the concept knows; 0 for the others, whatever the reading.

    Ties between groups are broken by lot.
    """
    known = np.flatnonzero(concept.frequencies)
    order = rng.permutation(len(known))
    quotas = np.zeros(len(concept.frequencies), np.int64)
    quotas[known] = allocate(
        concept.sizes[known],
        budget,
        reading.rule,
        least=reading.least,
        overflow=reading.overflow,
        order=order,
    ).quotas
    return quotas


def cod_shed(
    codes: npt.ArrayLike,
    keep: float,
    rng: np.random.Generator,
    reading: Reading = CONCEPT_DRIVEN,
    *,
    draw: str = "fixed",
    sample: npt.ArrayLike | None = None,
) -> Indices:
    """The rows kept of a complete window, ascending; `codes` are their groups, 0, 1, ...

    `draw` is "fixed" (a sample of each group's quota) or "coin" (a coin for each row, whose mean is the
    quota). `sample` are the rows of T_w, if they were drawn already: for a reading of a sample.

    >>> codes = np.repeat([0, 1, 2], [900, 95, 5])
    >>> kept = cod_shed(codes, 0.02, np.random.default_rng(1))
    >>> np.bincount(codes[kept]).tolist()
    [8, 7, 5]
    """
    every = np.asarray(codes, np.int64)
    checked_share(keep)
    if draw not in ("fixed", "coin"):
        raise BadArgument(f"draw={draw!r} is not one of 'fixed', 'coin'")
    if draw == "coin" and reading.absent == "one":
        raise BadArgument(f"{reading.name!r} keeps one row of some groups, which a coin cannot: 'fixed'")
    rows, groups = len(every), int(every.max(initial=-1)) + 1
    if keep == 1.0:
        return np.arange(rows)
    if sample is None and not reading.exact:
        sample = uniform_shed(rows, reading.sample_share(keep), rng, "fixed")
    concept = group_concept(every, groups, None if reading.exact else sample)
    quotas = known_quotas(concept, round(keep * rows), reading, rng)
    absent, spare = concept.frequencies == 0, reading.absent_quota
    lots = rng.random(rows)
    if draw == "coin":
        rates = np.minimum(1.0, quotas / np.maximum(1, concept.sizes))
        return keep_by_coin(every, np.where(absent, float(spare is None), rates), lots)
    return keep_fixed(every, np.where(absent, rows if spare is None else spare, quotas), lots)
