"""Questions to a recording, their answers, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.settings import GateSettings
from headgate.whatif.costs import Costs, fitted
from headgate.whatif.forecast import Forecast, Outcome, Replay, in_fact, quantile
from headgate.whatif.recording import Recording

__all__ = ["Answer", "Check", "ask", "targets_to_try"]

#: How far the model may be off on what was recorded before it is said to fit badly.
_FAIR_KEPT, _FAIR_TIME = 0.1, 1.5
#: Batches so much larger or smaller than any that was recorded are extrapolated, and how many of them
#: are worth a word; and a doubt about their mean that is.
_BEYOND, _SOME, _DOUBT = 1.2, 0.05, 0.15
_SHORT = 60


@dataclass(frozen=True)
class Check:
    """The model on what was really done: the same settings in virtual time and in fact."""

    settings: GateSettings | None
    foretold: Forecast
    fact: Outcome

    @property
    def fits(self) -> bool:
        """Whether the model tells what happened."""
        if self.settings is not None:
            return abs(self.foretold.outcome.kept - self.fact.kept) <= _FAIR_KEPT
        ratio = max(0.01, self.foretold.outcome.p95_s) / max(0.01, self.fact.p95_s)
        return 1.0 / _FAIR_TIME <= ratio <= _FAIR_TIME


@dataclass(frozen=True)
class Answer:
    """What each of the settings would have done with a recording, beside what was done."""

    recording: Recording
    costs: Costs
    forecasts: tuple[Forecast, ...]
    check: Check | None
    warnings: tuple[str, ...]

    def fact_for(self, forecast: Forecast) -> Outcome | None:
        """What was recorded, judged by a forecast's target."""
        return in_fact(self.recording, forecast.settings)


def ask(
    recording: Recording,
    asked: Sequence[GateSettings],
    *,
    costs: Costs | None = None,
    was: GateSettings | None = None,
    runs: int | None = None,
    tell: Callable[[int], object] = lambda batches: None,
) -> Answer:
    """What these settings would have done; `was` are those that held, where rows were shed.

    `costs` are for a trace, which does not tell them. `tell` hears of every virtual run how many batches
    it had.
    """
    if costs is None:
        costs = fitted(recording, _reference_s(asked, was))
    replay = Replay(recording, costs)
    if runs is None:
        runs = replay.usual_runs(len(asked) + 1)
    forecasts = tuple(replay.forecast(settings, runs=runs, tell=tell) for settings in asked)
    check = _check(replay, was, runs, tell)
    return Answer(recording, costs, forecasts, check, tuple(_warnings(replay, forecasts, check)))


def _reference_s(asked: Sequence[GateSettings], was: GateSettings | None) -> float:
    known = [s.target_s for s in ((was,) if was is not None else asked) if s.target_s is not None]
    return max(known, default=math.inf)


def _check(
    replay: Replay, was: GateSettings | None, runs: int, tell: Callable[[int], object]
) -> Check | None:
    fact = in_fact(replay.recording, was)
    if fact is None or (was is None and replay.recording.shed > 0):
        return None
    return Check(was, replay.forecast(was, runs=runs, tell=tell), fact)


def targets_to_try(recording: Recording, costs: Costs, points: int = 7) -> list[float]:
    """Targets from hardly more than an empty batch takes to what keeps nearly everything.

    >>> from headgate.whatif.recording import RecordedBatch
    >>> seen = Recording(tuple(RecordedBatch(n, 100, 100, 2.0) for n in range(30)))
    >>> from headgate.whatif.costs import given
    >>> targets_to_try(seen, given(0.2, 0.01, 0.0, 0.1))
    [0.3, 0.45, 0.67, 1.0, 1.5, 2.3, 3.4]
    """
    fixed = costs.usual()[0]
    low = max(0.05, 1.5 * fixed)
    longest = quantile([b.duration_s for b in recording.judged if b.duration_s is not None], 0.95)
    high = min(64.0 * low, max(6.0 * low, 1.7 * longest))
    step = (high / low) ** (1.0 / (points - 1))
    return list(dict.fromkeys(float(f"{low * step**i:.2g}") for i in range(points)))


def _warnings(replay: Replay, forecasts: Sequence[Forecast], check: Check | None) -> list[str]:
    recording, costs = replay.recording, replay.costs
    found = list(recording.remarks)
    if recording.left_out:
        found.append(f"only the latest {len(recording.batches):,} batches were read, "
                     f"{recording.left_out:,} before them were not")  # fmt: skip
    found += [text for _, text in costs.untold]
    if check is not None and not check.fits:
        found.append(
            "the model does not tell what happened in fact (see the check): the job is not as the "
            "model takes it to be, so do not rely on this answer"
        )
    found += _extrapolated(costs, forecasts)
    if recording.batched:
        found += _unseen_bursts(recording, forecasts)
        if len(recording.judged) < _SHORT:
            found.append(f"{len(recording.judged)} batches are few: the shares are rough")
        if recording.trigger_s == 0.0 and recording.told_trigger_s is None:
            found.append(
                "no interval of a trigger shows: batches are taken to follow each other at once; give "
                "--trigger if the query has one"
            )
    return found


def _extrapolated(costs: Costs, forecasts: Sequence[Forecast]) -> list[str]:
    """Where virtual batches have sizes that no recorded one had."""
    found = []
    for forecast in forecasts:
        batches = forecast.batches
        larger = sum(b.kept > _BEYOND * costs.most_kept for b in batches)
        smaller = sum(_BEYOND * b.kept < costs.fewest_kept for b in batches)
        if larger > _SOME * len(batches):
            found.append(
                f"at {forecast.target_s:g} s {larger:,} of {len(batches):,} batches would have kept "
                f"more rows than any recorded one ({costs.most_kept:,}): what such batches take is "
                "extrapolated"
            )
        if smaller > _SOME * len(batches):
            found.append(
                f"at {forecast.target_s:g} s {smaller:,} of {len(batches):,} batches would have kept "
                f"fewer rows than any recorded one ({costs.fewest_kept:,}): what such batches take is "
                "extrapolated"
            )
        middle = sorted(batches, key=lambda b: b.kept)[len(batches) // 2] if batches else None
        doubt = 0.0 if middle is None else costs.doubt(middle.kept, middle.arrived)
        if doubt > _DOUBT and not (larger or smaller):
            found.append(
                f"at {forecast.target_s:g} s what a batch takes is known to ± {100 * doubt:.0f} % only"
            )
    return found


def _unseen_bursts(recording: Recording, forecasts: Sequence[Forecast]) -> list[str]:
    gaps = sorted(b - a for a, b in zip(recording.edges, recording.edges[1:], strict=False))
    usual = gaps[len(gaps) // 2]
    targets = [f.target_s for f in forecasts if f.target_s is not None]
    if targets and usual > 4.0 * min(targets):
        return [
            f"half of the recorded batches cover {usual:.1f} s and more, in which rows are taken to "
            "have come evenly: shorter bursts are not seen"
        ]
    return []
