"""What a gate measures of a batch (`LoadSample`), and how much of the next one fits (`Budget`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.core.plan import Plan
from headgate.core.row_budget import RowBudget
from headgate.core.row_sic import RowSic

__all__ = ["Budget", "LoadSample", "ReadLimit", "SicFlow"]


@dataclass(frozen=True)
class SicFlow:
    """Source information content (SIC) through one gate, or out of one query, in one batch."""

    #: What derived rows brought along; rows of a source get theirs at the gate.
    arrived: float = 0.0
    kept: float = 0.0


@dataclass(frozen=True)
class LoadSample:
    """One finished batch as one gate saw it. Times are seconds; instants are seconds since 1970.

    >>> sample = LoadSample(7, started_at=100.0, duration_s=1.5, arrived=4_000, kept=1_000,
    ...                     oldest_arrival=99.0)
    >>> sample.ended_at, sample.delay_s
    (101.5, 2.5)
    """

    batch_id: int
    started_at: float
    duration_s: float
    #: A controller is shown the rows that its policy wants at all; where nothing is shed (in monitor
    #: mode, or failing open) more than these may be kept.
    arrived: int
    kept: int
    oldest_arrival: float | None = None
    #: Rows that the source holds and has not handed out, as far as it says; None where it does not.
    backlog: int | None = None
    #: The streaming query that ran the batch; several gates may be in one.
    stream: str = ""
    #: The trigger's interval; None where the stream triggers as fast as it can, or nobody can tell.
    interval_s: float | None = None
    #: The plan that the batch was pinned to and met; None where that cannot be known.
    met: Plan | None = None
    #: Task time of the whole batch over all cores; None where Spark does not say, or nobody asked.
    work_s: float | None = None
    #: At a site: the SIC that went through.
    sic: SicFlow = SicFlow()
    #: Planned by a run of the query that ended before the batch did: the next one brings what came since
    #: then, and not since this one started again.
    planned_before: bool = False

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
    """What a stream's sources hand out at most in one batch; neither is known: as much as there is.

    >>> ReadLimit(rows=50_000)  # as with .option("maxOffsetsPerTrigger", 50_000)
    ReadLimit(rows=50000, files=None)
    """

    #: Rows, as with `maxOffsetsPerTrigger`.
    rows: int | None = None
    #: Files, as with `maxFilesPerTrigger`; how many rows those have must be seen.
    files: int | None = None


@dataclass(frozen=True)
class Budget:
    """How much of the next batch fits: a controller's answer.

    Where a batch's size is known before it runs, `fits` says how many of its rows fit, and `at` turns
    that into a share; elsewhere `keep` holds.

    >>> Budget(0.25, "shedding", "4,000 rows, and time for 1,000").keep
    0.25
    """

    #: Share of the next batch's rows to keep, in [0, 1], where its size cannot be known.
    keep: float
    #: One word for people: idle, shedding, min_keep, futile, fixed; or one of your own.
    state: str
    #: A sentence for the log and the ledger.
    why: str = ""
    #: The rows that fit, where the controller thinks in rows; else ``keep`` of the last batch's.
    rows: float | None = None
    #: At a site: what each of the next batch's rows is worth (SIC).
    sic: float | None = None
    #: How many rows fit of a batch whose size is known; None where `keep` is all that there is to say.
    fits: RowBudget | None = None
    #: At a site: what a row of a batch is worth whose size is known; None where `sic` is all there is.
    row_sic: RowSic | None = None

    def at(self, arrived: int, covers_s: float | None = None) -> Budget:
        """The budget for a batch of so many rows: what a plan is made from when it is pinned.

        `covers_s` is the time since the batch before it was planned, where that is known.

        >>> fits = RowBudget(aim_s=1.0, per_kept_s=0.001, whole=1_200)
        >>> Budget(0.5, "shedding", fits=fits).at(4_000).keep
        0.25
        """
        if self.fits is None:
            return self
        keep = self.fits.keep(arrived, covers_s)
        state = self.state
        if state in ("idle", "shedding", "min_keep"):
            state = "idle" if keep >= 1.0 else "min_keep" if keep <= self.fits.min_keep else "shedding"
        sic = self.sic if self.row_sic is None or arrived <= 0 else self.row_sic.at(arrived, covers_s)
        return replace(self, keep=keep, rows=keep * arrived, state=state, sic=sic)
