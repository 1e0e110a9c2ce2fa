"""A query's first batch while it runs: there is no record yet, and it may be a topic's whole backlog.

Nobody can steer by it, and Spark does not shrink a batch that runs; so people wait, and want to know for
what. Its pin says when it began, how many rows it was said to have, and what is kept of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headgate.store.plans import PlanStore
from headgate.view.wording import ago_text, share_text

__all__ = ["FirstBatch", "first_batch_in"]


@dataclass(frozen=True)
class FirstBatch:
    """The only batch that a gate has pinned in a query that has no record yet."""

    batch: int
    #: When it was pinned, by the store's clock.
    since: float
    #: The share of its rows that is kept; None where groups or comparisons differ in it.
    keep_rate: float | None
    #: The rows that it was said to have when it was pinned; None where nobody could tell.
    expected_rows: float | None = None

    def words(self, now: float) -> str:
        """What is going on, and from when on the target is held.

        >>> FirstBatch(0, 100.0, 1.0, 60_000).words(now=112.0).partition(", because")[0]
        'The first batch has been running whole for 12 s: all of its 60,000 rows are kept'
        """
        lasts = ago_text(now - self.since)
        rows = "rows" if self.expected_rows is None else f"{self.expected_rows:,.0f} rows"
        if self.keep_rate == 1.0:
            said = f"has been running whole for {lasts}: all of its {rows} are kept"
        elif self.keep_rate is None:
            said = f"has been running for {lasts}: some of its {rows} are kept"
        else:
            said = f"has been running for {lasts}: {share_text(self.keep_rate)} of its {rows} are kept"
        return (
            f"The first batch {said}, because nothing is known yet of what rows cost. "
            f"The gate steers from the next batch on.{_way_out(self.keep_rate)}"
        )

    def to_json(self) -> dict[str, Any]:
        """As `headgate status --json` prints it."""
        return asdict(self)


def _way_out(keep_rate: float | None) -> str:
    """How a first batch is bounded next time; nothing can be done about the one that runs."""
    if keep_rate != 1.0:
        return ""
    return (
        " To bound a first batch: start=0.05, or a limit of the source's such as maxOffsetsPerTrigger "
        "or maxFilesPerTrigger."
    )


def first_batch_in(store: PlanStore) -> FirstBatch | None:
    """The first batch of a query without a record; None where none is pinned, or more than one."""
    pins = store.pinned_batches()
    pin = store.pinned(pins[0]) if len(pins) == 1 else None
    since = None if pin is None else store.begun_at(pins[0])
    if pin is None or since is None:
        return None
    plan, rows = pin.plan, pin.expected.rows if pin.expected else None
    one_rate = not plan.exceptions and plan.level is None and plan.work is None
    rate = 1.0 if plan.keeps_everything else plan.default if one_rate else None
    return FirstBatch(pins[0], since, rate, rows)
