"""What the CoD paper may mean: every reading of its grouped algorithm, by a name that says it.

The text contradicts itself on four points, and so ten algorithms can be had from it:

- the concept: frequencies of a uniform sample (Algorithm 2), or those counted as rows arrive (VI-C2);
- rows of groups that the sample did not see: shed (section V), or "simply added" (VII-C2);
- the share of a group: in proportion to its frequency (VI-C2), or the same for all;
- more groups than budget: nothing is said. A hard budget then misses groups; "zero missing groups"
  (VI-C2) exceeds it.

Only the readings that keep something of every group reach the error that the paper reports, and on taxi
routes they do it by processing 20 to 99 % of the window where the paper says 2 % (figures cod-fig9 and
cod-fig10 show both numbers). `CONCEPT_DRIVEN` is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CONCEPT_DRIVEN", "READINGS", "Reading"]


@dataclass(frozen=True)
class Reading:
    """One reading of Algorithm 2 for a grouped query."""

    name: str
    #: Where frequencies come from: a sample of the share kept, of the share shed, or every row.
    concept: Literal["sample", "large sample", "exact"]
    #: Rows of a group that the concept does not know: none, all, or one.
    absent: Literal["shed", "keep", "one"]
    #: How the budget is divided among the groups known (`headgate_lab.papers.cod.allocate`).
    rule: str
    #: Rows that a known group keeps at least, if it has them.
    least: int = 1
    #: What happens when there are more groups than budget (`headgate_lab.papers.cod.allocate`).
    overflow: str = "exceed"

    @property
    def exact(self) -> bool:
        """Whether every row is counted."""
        return self.concept == "exact"

    @property
    def absent_quota(self) -> int | None:
        """The rows to keep of a group that the concept does not know; None is all."""
        return {"shed": 0, "keep": None, "one": 1}[self.absent]

    def sample_share(self, keep: float) -> float:
        """The share of the window that the concept is read from, when a share `keep` is asked for."""
        return {"sample": keep, "large sample": 1.0 - keep, "exact": 1.0}[self.concept]


#: Ours, reading H: exact counts of the same window, equal caps filled up, at least one row
#: of each group even if that exceeds the budget.
CONCEPT_DRIVEN = Reading("concept-driven", "exact", "shed", "senate")

#: Every reading by its name, with its letter.
READINGS = {
    reading.name: reading
    for reading in (
        # A: section V to the letter. What the sample holds is drawn again: uniform with extra steps.
        Reading("cod sample, absent shed", "sample", "shed", "proportional"),
        # B
        Reading("cod sample, absent shed, senate", "sample", "shed", "senate"),
        # C: section VII-C2. The sample, and all rows of the groups that are not in it. It matches the
        # story of figure 10 best.
        Reading("cod sample, absent kept", "sample", "keep", "proportional"),
        # D
        Reading("cod sample, absent kept, senate", "sample", "keep", "senate"),
        # E
        Reading("cod sample, absent one each", "sample", "one", "senate"),
        # F: section VI-C2 without its promise.
        Reading("cod exact, proportional", "exact", "shed", "proportional", least=0),
        # G: section VI-C2 with its promise of no missing group.
        Reading("cod exact, proportional, at least one", "exact", "shed", "proportional"),
        # H
        CONCEPT_DRIVEN,
        # J: H that never exceeds its budget; which groups go missing is drawn.
        Reading("concept-driven, hard budget", "exact", "shed", "senate", overflow="random"),
        # K: b = 98 % read as the size of the sample. Not a cheap concept.
        Reading("cod large sample, senate", "large sample", "shed", "senate"),
    )
}
