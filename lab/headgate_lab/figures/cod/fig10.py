"""Cod-2018, Figure 10: error against the share of the window asked for, and the share really processed.

The paper's x axis can only be the share asked for, the size of its concept sample: on taxi routes no
shedder that forwards 2 % of the rows has less than 97 % error, as there are more routes than that. So
each place has two numbers, the error and the share really kept. *share_for_uniform_error* is the share
with which our hard budget is as accurate as uniform with half of the rows: how much less data it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate_lab.figures.cod.data import Source, source_of, windows_of
from headgate_lab.figures.cod.fig9 import DataPoint
from headgate_lab.figures.cod.policies import (
    ERROR,
    ERROR_AXIS,
    HARD,
    KEPT,
    KEPT_AXIS,
    OURS,
    SAMPLE_KEPT,
    UNIFORM,
    metrics,
    title_of,
)
from headgate_lab.figures.cod.replay import replayed_on_spark
from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.papers.cod import WindowRows

__all__ = ["EQUAL", "SHARES", "replayed", "sweep"]

SHARES = (0.02, 0.10, 0.25, 0.50)
EQUAL = "share_for_uniform_error"
_DATA = ("debs_real", "green_real", "gcm_real_job", "gcm_real")
_POLICIES = (UNIFORM, SAMPLE_KEPT, OURS, HARD)


@dataclass(frozen=True)
class ShareRun:
    """One draw of one data set at all shares: an item of the work."""

    source: Source
    seed: int


def sweep(runs: int | None, quick: bool) -> Sweep[ShareRun]:
    """Every policy at every share of every data set; the paper repeats five times."""
    count = how_many(runs, quick, 2, 5)
    sources = {name: source_of(name) for name in _DATA}
    caption = Caption(
        "cod_fig10",
        title_of("Error against the share asked for", sources.values()),
        "data and share asked for",
        (ERROR_AXIS, KEPT_AXIS),
    )
    items = [ShareRun(s, seed) for s in dict.fromkeys(sources.values()) for seed in range(count)]
    return Sweep(caption, count, items, run, lambda samples: _claims(samples, sources))


def run(item: ShareRun) -> list[Sample]:
    """All shares, and the share that equals uniform's half."""
    windows, found = windows_of(item.source), []
    for keep in SHARES:
        x = DataPoint(item.source, keep).x
        for name in _POLICIES:
            values = metrics(windows, name, keep, item.seed)
            if (name, keep) == (UNIFORM, SHARES[-1]):
                half = values[ERROR]
            found.append((x, name, values))
    x, name, values = found[-1]
    return [*found[:-1], (x, name, values | {EQUAL: _equal_share(windows, half, item.seed)})]


def replayed() -> list[Sample]:
    """The same places on a real stream, behind the shipped gates."""
    sources = [source_of(name) for name in _DATA]
    return replayed_on_spark((DataPoint(s, keep).x, s, keep) for s in sources for keep in SHARES)


def _equal_share(windows: Sequence[WindowRows], error: float, seed: int) -> float:
    """The least share with which the hard budget has at most this error, to within 3 %."""
    low, high = min(1.0 / window.rows for window in windows), 1.0
    while high / low > 1.03:
        middle = float(np.sqrt(low * high))
        better = metrics(windows, HARD, middle, seed)[ERROR] <= error
        low, high = (low, middle) if better else (middle, high)
    return high


def _claims(samples: Samples, sources: dict[str, Source]) -> tuple[Claim, ...]:
    def at(data: str, keep: float, policy: str, metric: str = ERROR) -> float:
        return samples.mean(DataPoint(sources[data], keep).x, policy, metric)

    line = [at("debs_real", keep, UNIFORM) for keep in SHARES]
    fit = np.polyval(np.polyfit(SHARES, line, 1), SHARES)
    bend = float(np.abs(fit - line).max())
    flat = max(at("debs_real", keep, SAMPLE_KEPT) for keep in SHARES)
    claims = [
        Claim(
            "DEBS: uniform's error falls almost linearly (greatest distance from a line)",
            bend < 0.05 and line == sorted(line, reverse=True),
            bend,
        ),
        Claim(
            "DEBS: CoD's error is low from 2 % on, absent groups kept (greatest error)",
            flat < 0.1,
            flat,
        ),
        Claim(
            "DEBS: and it processes what was asked for (share kept at 2 % asked for)",
            at("debs_real", SHARES[0], SAMPLE_KEPT, KEPT) < 0.03,
            at("debs_real", SHARES[0], SAMPLE_KEPT, KEPT),
        ),
    ]
    for data in _DATA:
        ours, half = at(data, SHARES[0], OURS), at(data, SHARES[-1], UNIFORM)
        less = SHARES[-1] / at(data, SHARES[0], OURS, KEPT)
        claims.append(
            Claim(
                f"25 times less data for a better result, {sources[data].name}: concept-driven asked "
                "for 2 % against uniform's 50 % (how much less it really keeps)",
                ours < half and less >= 24.5,
                less,
            )
        )
    for data in _DATA:
        share = at(data, SHARES[-1], HARD, EQUAL)
        claims.append(
            Claim(
                f"25 times less data for an equal result, {sources[data].name}, hard budget "
                "(how much less)",
                SHARES[-1] / share >= 25,
                SHARES[-1] / share,
            )
        )
    return tuple(claims)
