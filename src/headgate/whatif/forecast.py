"""A recording once more under other settings, in virtual time, some times over."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.control import ControllerConfig, FixedRate
from headgate.core.load import LoadSample
from headgate.policies import Policy, Uniform, ValueClasses
from headgate.settings import GateSettings
from headgate.whatif.costs import Costs
from headgate.whatif.microbatch import BatchRun, MicroBatches, Workload
from headgate.whatif.recording import RecordedBatch, Recording

__all__ = ["Forecast", "GroupRows", "Outcome", "Replay", "in_fact", "quantile"]

#: Batches of a recording from which a controller has learned before the first virtual one, where the
#: recording does not begin with the query's first.
_LEARNED_FROM = 100
#: Virtual batches in all that an answer is worth (ten seconds of a core); fewest and most runs of each.
_WORTH, _FEWEST_RUNS, _MOST_RUNS = 40_000, 3, 20


@dataclass(frozen=True)
class Outcome:
    """What became of the rows, and of the batches. A delay is a batch's: that of its oldest row."""

    kept: float
    #: The share of the batches within the target; None where there is no target.
    inside: float | None
    p50_s: float
    p95_s: float
    #: None where nobody measured when rows arrived.
    p95_delay_s: float | None
    longest_s: float


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group: how many came, and how many of them were kept."""

    name: str
    arrived: float
    kept: float


@dataclass(frozen=True)
class Forecast:
    """What settings would have done: the mean of the runs, and the least and the most of each figure."""

    settings: GateSettings | None
    outcome: Outcome
    low: Outcome
    high: Outcome
    runs: int
    groups: tuple[GroupRows, ...]
    #: The batches of the first run, whose prices are those that were found.
    batches: tuple[BatchRun, ...]

    @property
    def target_s(self) -> float | None:
        """The target that was asked about."""
        return None if self.settings is None else self.settings.target_s


class Replay:
    """A recording, what its batches cost, and the policy that chooses rows.

    >>> seen = Recording(
    ...     tuple(RecordedBatch(2.0 * n, 20_000 + 9_000 * (n % 3), 20_000, 1.5) for n in range(60))
    ... )
    >>> from headgate.whatif.costs import given
    >>> replay = Replay(seen, given(0.2, 6e-5, 0.0, 0.05))
    >>> tight, loose = (replay.forecast(GateSettings(hold=target), runs=3) for target in (1, 3))
    >>> tight.outcome.kept < 0.8 < loose.outcome.kept
    True
    """

    def __init__(self, recording: Recording, costs: Costs) -> None:
        self.recording, self.costs = recording, costs
        self._arrivals = recording.arrivals()
        self.policy: Policy = (
            ValueClasses(recording.first_groups) if recording.first_groups else Uniform()
        )

    def usual_runs(self, questions: int) -> int:
        """How often it is worth it to run for each of so many questions: more often where quick."""
        worth = _WORTH // (questions * len(self.recording.batches))
        return max(_FEWEST_RUNS, min(_MOST_RUNS, worth))

    def forecast(
        self,
        settings: GateSettings | None,
        *,
        runs: int = _FEWEST_RUNS,
        tell: Callable[[int], object] = lambda batches: None,
    ) -> Forecast:
        """What these settings would have done; None: every row kept, whatever happens.

        `tell` hears of each run how many virtual batches it had.
        """
        config: ControllerConfig = FixedRate(1.0) if settings is None else settings.controller_config()
        learned = None if settings is None else self._learned(config)
        outcomes: list[Outcome] = []
        sums: dict[int, list[float]] = {key: [0.0, 0.0] for key in self.recording.labels}
        first: tuple[BatchRun, ...] = ()
        rest = [0.0, 0.0]
        for seed in range(runs):
            batches = self._run(config, seed, learned)
            tell(len(batches))
            outcomes.append(_outcome(batches, settings))
            first = first or tuple(batches)
            for batch in batches:
                rest[0] += batch.arrived / runs
                rest[1] += batch.kept / runs
                for key, (arrived, kept) in batch.groups.items():
                    sums[key][0] += arrived / runs
                    sums[key][1] += kept / runs
        return Forecast(
            settings,
            _of_each(outcomes, statistics.fmean),
            _of_each(outcomes, min),
            _of_each(outcomes, max),
            runs,
            self._groups(sums, rest),
            first,
        )

    def _groups(self, sums: Mapping[int, Sequence[float]], all_rows: Sequence[float]) -> tuple[
        GroupRows, ...
    ]:  # fmt: skip
        if not sums:
            return ()
        named = [GroupRows(self.recording.labels[k], a, kept) for k, (a, kept) in sums.items()]
        arrived = all_rows[0] - sum(g.arrived for g in named)
        kept = all_rows[1] - sum(g.kept for g in named)
        return (*named, *([GroupRows("all others", arrived, kept)] if arrived >= 0.5 else []))

    def _run(
        self, config: ControllerConfig, seed: int, learned: Mapping[str, Any] | None
    ) -> list[BatchRun]:
        seen = self.recording
        workload = Workload(
            self._arrivals,
            self.costs.model(seed),
            trigger_s=seen.trigger_s,
            granule_s=seen.granule_s,
            source_cap=seen.source_cap,
            tells_backlog=seen.tells_backlog,
            tells_cap=seen.source_cap is not None,
            mix=seen.mix_at if seen.labels else {},
            seed=seed,
        )
        engine = MicroBatches(workload, config, self.policy, learned)
        downtimes = [(outage.from_s, outage.until_s) for outage in seen.outages]
        return engine.run_until(seen.edges[-1], downtimes, most=4.0 * len(seen.batches) + 1000.0)

    def _learned(self, config: ControllerConfig) -> dict[str, Any] | None:
        """What a gate that ran before would know, from batches like these; None for a first start."""
        seen = [b for b in self.recording.batches if b.arrived > 0 and b.duration_s is not None]
        if self.recording.begins_cold or not seen:
            return None
        seen = seen[:_LEARNED_FROM]
        controller = config.build()
        controller.opening(0.0)
        back = seen[-1].started_at + (seen[-1].duration_s or 0.0)
        for number, batch in enumerate(seen):
            controller.decide(_sample(number, batch, back))
        return controller.snapshot()


def _sample(number: int, batch: RecordedBatch, back: float) -> LoadSample:
    """A recorded batch as a controller sees it, some time before virtual time begins."""
    start, took = batch.started_at - back, batch.duration_s or 0.0
    oldest = None if batch.delay_s is None else start + took - batch.delay_s
    return LoadSample(number, start, took, batch.arrived, batch.kept, oldest, batch.backlog)


def _outcome(batches: Sequence[BatchRun], settings: GateSettings | None) -> Outcome:
    arrived = sum(b.arrived for b in batches)
    durations, delays = [b.duration for b in batches], [b.delay for b in batches]
    held = delays if settings is not None and settings.delay is not None else durations
    target_s = None if settings is None else settings.target_s
    return Outcome(
        kept=sum(b.kept for b in batches) / arrived if arrived else 1.0,
        inside=None if target_s is None else _inside(held, target_s),
        p50_s=quantile(durations, 0.5),
        p95_s=quantile(durations, 0.95),
        p95_delay_s=quantile(delays, 0.95),
        longest_s=max(held, default=0.0),
    )


def in_fact(recording: Recording, settings: GateSettings | None) -> Outcome | None:
    """What was recorded, judged by these settings' target; None of a trace, which has no batches."""
    if not recording.batched:
        return None
    judged = recording.judged
    arrived = sum(b.arrived for b in judged)
    durations = [b.duration_s or 0.0 for b in judged]
    delays = [b.delay_s for b in judged if b.delay_s is not None]
    by_delay = settings is not None and settings.delay is not None
    held = delays if by_delay else durations
    target_s = None if settings is None else settings.target_s
    return Outcome(
        kept=sum(b.kept for b in judged) / arrived if arrived else 1.0,
        inside=None if target_s is None or not held else _inside(held, target_s),
        p50_s=quantile(durations, 0.5),
        p95_s=quantile(durations, 0.95),
        p95_delay_s=quantile(delays, 0.95) if delays else None,
        longest_s=max(held, default=0.0),
    )


def _inside(values: Sequence[float], target_s: float) -> float:
    return sum(v <= target_s for v in values) / len(values) if values else 1.0


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; 0 where there is none.

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _of_each(outcomes: Sequence[Outcome], pick: Callable[[list[float]], float]) -> Outcome:
    """One figure of each kind, of all runs."""

    def picked(name: str) -> float | None:
        values = [getattr(outcome, name) for outcome in outcomes]
        return None if None in values else pick(values)

    return Outcome(**{name: picked(name) for name in Outcome.__dataclass_fields__})  # type: ignore[arg-type]
