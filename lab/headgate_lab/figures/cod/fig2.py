"""Cod-2018, Figure 2: how much the top ten of a window have in common with the next window's.

The paper's ten are the routes with the highest mean fare, of 15-minute windows that slide by 5. A slide
of a third replaces a third of the rows by itself, and a high mean is most often one dear ride; so the
ten with the most rows stand beside them, and the frequencies of all groups. Bars go from the least to
the greatest of all pairs of neighbours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from headgate_lab.figures.cod.data import Source, source_of, windows_of
from headgate_lab.figures.cod.policies import title_of
from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep
from headgate_lab.papers.cod import WindowRows, aggregate
from headgate_lab.papers.cod.drift import (
    concept_overlap,
    footrule_distance,
    hellinger_distance,
    top_k,
    total_variation,
)

__all__ = ["BY_COUNT", "BY_MEAN", "sweep"]

BY_MEAN, BY_COUNT = "top 10 by mean", "top 10 by count"
OVERLAP, DISTANCE = "concept_overlap", "concept_distance"
VARIATION, HELLINGER = "total_variation", "hellinger_distance"
_DATA = ("debs_real_15min", "green_real", "gcm_real_job", "gcm_real")


@dataclass(frozen=True)
class Drift:
    """One data set: an item of the work."""

    source: Source


def sweep(runs: int | None, quick: bool) -> Sweep[Drift]:
    """Every data set once: nothing is drawn by lot, so runs would be the same."""
    sources = list(dict.fromkeys(source_of(name, every=True) for name in _DATA))
    caption = Caption(
        "cod_fig2",
        title_of("What a window's top ten share with the next", sources),
        "data",
        (
            Axis(OVERLAP, "concept overlap"),
            Axis(DISTANCE, "concept distance (footrule)"),
            Axis(VARIATION, "total variation of all groups"),
        ),
    )
    taxi, jobs, classes = source_of(_DATA[0]).name, source_of(_DATA[2]).name, source_of(_DATA[3]).name
    green = source_of(_DATA[1]).name
    return Sweep(
        caption,
        runs or 1,
        [Drift(source) for source in sources],
        run,
        lambda samples: _claims(samples, taxi, green, jobs, classes),
    )


def run(item: Drift) -> list[Sample]:
    """Every pair of neighbouring windows of a data set, ranked by mean and by count."""
    found: list[Sample] = []
    windows = windows_of(item.source)
    for before, after in itertools.pairwise(windows):
        shares = [dict(zip(w.keys.tolist(), w.counts.tolist(), strict=True)) for w in (before, after)]
        for policy, name in ((BY_MEAN, "mean"), (BY_COUNT, "count")):
            first, second = _ranking(before, name), _ranking(after, name)
            metrics = {
                OVERLAP: concept_overlap(first, second),
                DISTANCE: footrule_distance(first, second),
            }
            if policy == BY_COUNT:
                metrics |= {VARIATION: total_variation(*shares), HELLINGER: hellinger_distance(*shares)}
            found.append((item.source.name, policy, metrics))
    return found


def _ranking(window: WindowRows, name: str) -> list[int]:
    return top_k(window.keys, aggregate(name, window.codes, window.values, window.groups))


def _claims(samples: Samples, taxi: str, green: str, jobs: str, classes: str) -> tuple[Claim, ...]:
    def change(x: str, policy: str) -> float:
        return 1.0 - samples.mean(x, policy, OVERLAP)

    most = 1.0 - min(samples.all(taxi, BY_MEAN, OVERLAP))
    return (
        Claim(
            f"the dearest ten routes change by 30 % on average, to a factor of two (change, {taxi})",
            0.15 <= change(taxi, BY_MEAN) <= 0.6,
            change(taxi, BY_MEAN),
        ),
        Claim(f"and by up to 50 %, no more (greatest change, {taxi})", most <= 0.5, most),
        Claim(
            f"the same on other taxis (average change, {green})",
            0.15 <= change(green, BY_MEAN) <= 0.6,
            change(green, BY_MEAN),
        ),
        Claim(
            "so history misleads a shedder: the ten busiest change by 30 % too "
            f"(average change by count, {green})",
            change(green, BY_COUNT) >= 0.2,
            change(green, BY_COUNT),
        ),
        Claim(
            f"jobs drift as taxis do (average change, {jobs})",
            change(jobs, BY_MEAN) >= 0.3,
            change(jobs, BY_MEAN),
        ),
        Claim(
            f"scheduling classes drift (average change, {classes})",
            change(classes, BY_MEAN) > 0,
            change(classes, BY_MEAN),
        ),
    )
