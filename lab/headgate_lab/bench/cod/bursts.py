"""Groups that come in bursts, in micro-batches: counted in the same batch, or remembered from the last.

Google's jobs submit their tasks all at once, so what the last minute saw says little of this one. The
ideal is a cap of five rows of each job in each half hour, the pane of the paper's window; both gates are
asked for the share of rows that this is. The gate that counts is the one that runs in Spark's workers
(`headgate.spark.groups.task.PartitionStrata`), steered from batch to batch by `ConceptDriven` itself;
the one that remembers has its plans (``counts="history"``), from the 200 heaviest groups of the batch
before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.plan import SCALE, Plan
from headgate.policies.by_group.concept_driven import ConceptDriven
from headgate.spark.groups.task import ABOUT, PartitionStrata, Sampling
from headgate_lab.figures.cod.streams import STREAMS
from headgate_lab.figures.data_folder import found_data_file

__all__ = ["Burst", "Events", "job_events", "replay_bursts"]

_FILE = "google_task_events_2011.parquet"
_PANE_S, _CAP, _HEAVY = 1800, 5, 200
_MADE_PANES = 6

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Events:
    """When each event was, in seconds, ascending, and of which job."""

    name: str
    instants: Floats
    jobs: Ints

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def strata(self) -> Ints:
        """A number for each job in each pane."""
        panes = (self.instants // _PANE_S).astype(np.int64)
        return panes * (int(self.jobs.max()) + 1) + self.jobs

    def first(self, rows: int) -> Events:
        """The earliest events, so many of them."""
        return Events(self.name, self.instants[:rows], self.jobs[:rows])

    def batches(self, seconds: float) -> Iterator[slice]:
        """The rows of each micro-batch of so much time."""
        numbers = self.instants // seconds
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(self)]
        return (slice(low, high) for low, high in itertools.pairwise(edges))


@dataclass(frozen=True)
class Burst:
    """What was kept with micro-batches of so many seconds."""

    data: str
    batch_s: float
    #: The share of the rows that caps in each pane would keep, which both were asked for.
    ideal: float
    same_batch: float
    history: float
    #: The share kept by the same caps in each batch, which knows nothing of the rest of the pane.
    capped_batches: float
    #: Jobs of a pane without a row.
    missing_same_batch: float
    missing_history: float


def job_events() -> Events:
    """The real events that asked for CPU; made ones where the file is not here."""
    path = found_data_file(_FILE)
    if path is None:
        return _made()
    table = pq.read_table(path, columns=["ts_us", "job", "cpu_req"])
    there = table.column("cpu_req").to_numpy() > 0
    jobs = np.unique(table.column("job").to_numpy()[there], return_inverse=True)[1]
    return Events("gcm_real_job", table.column("ts_us").to_numpy()[there] / 1e6, jobs.astype(np.int64))


def _made(seed: int = 0) -> Events:
    """Jobs of the made stream; each has its minute in every pane."""
    rng = np.random.default_rng(seed)
    pane, parts = STREAMS["gcm_job"].stream(rng), []
    for number in range(_MADE_PANES):
        jobs, _ = pane()
        minutes = rng.uniform(0, _PANE_S - 60, int(jobs.max()) + 1)
        parts.append((number * _PANE_S + minutes[jobs] + rng.uniform(0, 60, len(jobs)), jobs))
    instants, jobs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(instants, kind="stable")
    return Events("gcm_job", instants[order], jobs[order])


def replay_bursts(events: Events, batch_s: float, seed: int = 1) -> Burst:
    """All events through both gates."""
    hashes = np.random.default_rng(seed).integers(0, SCALE, len(events))
    strata = events.strata
    ideal = _capped(strata)
    same, past = _same_batch(events, batch_s, hashes, ideal), _history(events, batch_s, hashes, ideal)
    numbers = (events.instants // batch_s).astype(np.int64)
    drawn_from = numbers * (int(strata.max()) + 1) + strata
    whole = len(np.unique(strata))
    return Burst(
        events.name,
        batch_s,
        ideal,
        same_batch=float(same.mean()),
        history=float(past.mean()),
        capped_batches=_capped(drawn_from),
        missing_same_batch=1.0 - len(np.unique(strata[same])) / whole,
        missing_history=1.0 - len(np.unique(strata[past])) / whole,
    )


def _capped(strata: Ints) -> float:
    return float(np.minimum(np.unique(strata, return_counts=True)[1], _CAP).sum()) / len(strata)


def _same_batch(events: Events, batch_s: float, hashes: Ints, keep: float) -> npt.NDArray[np.bool_]:
    """Each batch drawn by its own counts, at the level that the batch before calls for."""
    policy = ConceptDriven(by="job", window="60 minutes", slide="30 minutes", time="instant")
    rule = policy.rule()
    sampling = Sampling(rule.name, rule.least, rule.overflow, policy.draw, seed=1)
    kept, plan, strata = np.zeros(len(events), bool), Plan(keep), events.strata
    for number, rows in enumerate(events.batches(batch_s)):
        drawn_from = PartitionStrata(sampling, [(pa.array(strata[rows]), pa.array(hashes[rows]))])
        weights, about = drawn_from.decide(plan, number)
        kept[rows] = weights > 0
        curve = tuple(about[len(ABOUT) :])
        groups = GroupStats(total=len(weights), strata=Strata(int(about[0]), curve))
        plan = policy.plan(Budget(keep, "fixed"), groups)
    return kept


def _history(events: Events, batch_s: float, hashes: Ints, keep: float) -> npt.NDArray[np.bool_]:
    """Each batch by the rates that the one before gave its heavy groups."""
    policy = ConceptDriven(by="job", counts="history")
    kept, plan = np.zeros(len(events), bool), Plan(keep)
    for rows in events.batches(batch_s):
        jobs, codes, counts = np.unique(events.jobs[rows], return_inverse=True, return_counts=True)
        limits = np.array([plan.rate_of(job) for job in jobs.tolist()]) * float(SCALE)
        kept[rows] = hashes[rows] < limits[codes]
        heavy = np.argsort(-counts, kind="stable")[:_HEAVY]
        known = dict(zip(jobs[heavy].tolist(), counts[heavy].tolist(), strict=True))
        plan = policy.plan(Budget(keep, "fixed"), GroupStats(known, len(codes)))
    return kept
