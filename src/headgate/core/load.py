"""What a gate measures of a batch (`LoadSample`), and what is known of its groups (`Concept`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.core.row_budget import RowBudget

__all__ = ["Budget", "Concept", "LoadSample", "ReadLimit"]


@dataclass(frozen=True)
class LoadSample:
    """One finished batch as one gate saw it. Times are seconds; instants are seconds since 1970."""

    batch_id: int
    started_at: float
    duration_s: float
    arrived: int
    kept: int
    oldest_arrival: float | None = None
    #: Rows that the source holds and has not handed out, as far as it says; None where it does not.
    backlog: int | None = None
    #: The streaming query that ran the batch; several gates may be in one.
    stream: str = ""
    #: Task time of the whole batch over all cores, and the trigger's interval; None where Spark does
    #: not say, or nobody asked.
    work_s: float | None = None
    interval_s: float | None = None
    #: At a site: the SIC that arrived (of derived rows) and the SIC of the kept rows.
    sic_arrived: float = 0.0
    sic_kept: float = 0.0

    @property
    def ended_at(self) -> float:
        """When the batch was over."""
        return self.started_at + self.duration_s

    @property
    def delay_s(self) -> float | None:
        """Queueing delay of the oldest row: from its arrival to the end of its batch."""
        if self.oldest_arrival is None:
            return None
        return max(0.0, self.ended_at - self.oldest_arrival)


@dataclass(frozen=True)
class ReadLimit:
    """What a stream's sources hand out at most in one batch; neither is known: as much as there is."""

    #: Rows, as with `maxOffsetsPerTrigger`.
    rows: int | None = None
    #: Files, as with `maxFilesPerTrigger`; how many rows those have must be seen.
    files: int | None = None


@dataclass(frozen=True)
class Budget:
    """How much of the next batch fits: a controller's answer."""

    #: Share of the next batch's rows to keep, in [0, 1], where its size cannot be known.
    keep: float
    #: One word for people: idle, shedding, releasing, floor, futile, fixed.
    state: str
    #: A sentence for the log and the ledger.
    why: str = ""
    #: The rows that fit, where the controller thinks in rows; else ``keep`` of the last batch's.
    rows: float | None = None
    #: At a site: what each of the next batch's rows is worth (SIC).
    sic: float | None = None
    #: How many rows fit of a batch whose size is known; None where `keep` is all that there is to say.
    fits: RowBudget | None = None

    def at(self, arrived: int) -> Budget:
        """The budget for a batch of so many rows: what a plan is made from when it is pinned.

        >>> fits = RowBudget(aim_s=1.0, per_kept_s=0.001, whole=1_200)
        >>> Budget(0.5, "shedding", fits=fits).at(4_000).keep
        0.25
        """
        if self.fits is None:
            return self
        keep = self.fits.keep(arrived)
        state = self.state
        if state in ("idle", "shedding", "releasing", "floor"):
            state = "idle" if keep >= 1.0 else "floor" if keep <= self.fits.min_keep else "shedding"
        return replace(self, keep=keep, rows=keep * arrived, state=state)


@dataclass(frozen=True)
class Concept:
    """What is known of the groups in front of the gate: a policy's other input."""

    #: Rows of the last batch by group key; the rest of the batch is in no listed group.
    counts: Mapping[int, int] = field(default_factory=dict)
    total: int = 0
    #: Keys of groups that were named by people, by label.
    keys: Mapping[str, int] = field(default_factory=dict)
    #: Where rows are drawn by the concept of their own batch: the last batch's strata, the rows that
    #: each level of the rule's grid would have kept, and their mean standard deviation.
    cells: int = 0
    curve: tuple[float, ...] = ()
    deviation: float = 0.0
    #: How far event time went in a batch, in microseconds; None while that is unknown.
    span_us: int | None = None
    #: In front of a join: the groups that the other stream has had lately; None while that is unknown.
    present: str | None = None

    def share(self, key: int) -> float:
        """The share of the last batch's rows that is in this group."""
        return self.counts.get(key, 0) / self.total if self.total > 0 else 0.0
