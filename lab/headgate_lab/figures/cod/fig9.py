"""Cod-2018, Figure 9: average and 95th-percentile error, uniform against CoD, at 99 or 98 % shed.

The paper's CoD can be read in ten ways (`headgate_lab.papers.cod.READINGS`); the figure draws each, and
beside its error the share of rows that it really processes, which the paper does not show. Data: packets
(the paper's DEC) at 99 % shed, task events by scheduling class (GCM) and taxi routes (DEBS) at 98 %, and
with these green taxis and events by job, where the paper's promises can be kept. Without `quick` the
real data are also replayed at speed through Spark streams, behind the shipped gates.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate_lab.figures.cod.data import Source, source_of, windows_of
from headgate_lab.figures.cod.policies import (
    ERROR,
    ERROR_AXIS,
    ERROR_P95,
    KEPT,
    KEPT_AXIS,
    MISSING,
    OURS,
    P95_AXIS,
    SAMPLE_KEPT,
    SAMPLE_SHED,
    UNIFORM,
    metrics,
    title_of,
)
from headgate_lab.figures.cod.replay import replayed_on_spark
from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.papers.cod import READINGS

__all__ = ["DataPoint", "points", "replayed", "sweep"]

_DATA = {
    "bellcore": 0.01,
    "gcm_real": 0.02,
    "debs_real": 0.02,
    "green_real": 0.02,
    "gcm_real_job": 0.02,
}


@dataclass(frozen=True)
class DataPoint:
    """One place on the x axis: a data set and the share asked for."""

    source: Source
    keep: float

    @property
    def x(self) -> str:
        """As it is written."""
        return f"{self.source.name} {100 * self.keep:g} %"


@dataclass(frozen=True)
class DrawRun:
    """One draw at one point: an item of the work."""

    point: DataPoint
    seed: int


def points() -> dict[str, DataPoint]:
    """The points by the data set meant; where a file is not here, on the made stream instead of it."""
    return {name: DataPoint(source_of(name), keep) for name, keep in _DATA.items()}


def sweep(runs: int | None, quick: bool) -> Sweep[DrawRun]:
    """Every policy at every place; the paper repeats five times."""
    count, where = how_many(runs, quick, 2, 5), points()
    caption = Caption(
        "cod_fig9",
        title_of("Error at 99 and 98 % shed", (point.source for point in where.values())),
        "data and share asked for",
        (ERROR_AXIS, P95_AXIS, KEPT_AXIS),
    )
    items = [DrawRun(point, seed) for point in where.values() for seed in range(count)]
    xs = {name: point.x for name, point in where.items()}
    return Sweep(caption, count, items, run, lambda samples: _claims(samples, xs))


def run(item: DrawRun) -> list[Sample]:
    """Uniform and every reading over the windows of one point."""
    point = item.point
    windows = windows_of(point.source)
    policies = (UNIFORM, *READINGS)
    return [(point.x, name, metrics(windows, name, point.keep, item.seed)) for name in policies]


def replayed() -> list[Sample]:
    """The same places on a real stream, behind the shipped gates."""
    return replayed_on_spark((point.x, point.source, point.keep) for point in points().values())


def _claims(samples: Samples, xs: dict[str, str]) -> tuple[Claim, ...]:
    def mean(data: str, policy: str, metric: str = ERROR) -> float:
        return samples.mean(xs[data], policy, metric)

    dec = mean("bellcore", OURS) / mean("bellcore", UNIFORM)
    gcm = mean("gcm_real", UNIFORM) / mean("gcm_real", OURS)
    literal = mean("gcm_real", SAMPLE_SHED) / mean("gcm_real", UNIFORM)
    names = ("gcm_real", "debs_real", "green_real", "gcm_real_job")
    missing = max(mean(data, OURS, MISSING) for data in names)
    return (
        Claim("DEC: uniform and CoD are alike (ratio of errors)", 0.7 < dec < 1.4, dec),
        Claim(
            "DEC: CoD's error is below 10 % on average (error)",
            mean("bellcore", OURS) < 0.1,
            mean("bellcore", OURS),
        ),
        Claim(
            "DEC: and in 95 % of the windows (95th percentile)",
            mean("bellcore", OURS, ERROR_P95) < 0.1,
            mean("bellcore", OURS, ERROR_P95),
        ),
        Claim(
            "GCM by class: uniform's error is above 40 % (error)",
            mean("gcm_real", UNIFORM) > 0.4,
            mean("gcm_real", UNIFORM),
        ),
        Claim(
            "GCM by class: CoD's is below 10 %, with equal caps (error of concept-driven)",
            mean("gcm_real", OURS) < 0.1 and mean("gcm_real", OURS, ERROR_P95) < 0.1,
            mean("gcm_real", OURS),
        ),
        Claim(
            "GCM by class: section V to the letter is better than uniform, too (ratio of errors)",
            literal < 2 / 3,
            literal,
        ),
        Claim("GCM by class: CoD is ten times as accurate (ratio of errors)", gcm >= 10, gcm),
        Claim(
            "GCM by job: uniform's error is above 40 % (error)",
            mean("gcm_real_job", UNIFORM) > 0.4,
            mean("gcm_real_job", UNIFORM),
        ),
        Claim(
            "GCM by job: CoD's is below 10 %, from as few rows as asked for (error of concept-driven)",
            mean("gcm_real_job", OURS) < 0.1 and mean("gcm_real_job", OURS, KEPT) < 0.025,
            mean("gcm_real_job", OURS),
        ),
        Claim(
            "DEBS: uniform's error is above 80 % (error)",
            mean("debs_real", UNIFORM) > 0.8,
            mean("debs_real", UNIFORM),
        ),
        Claim(
            "DEBS: CoD's is below 10 %, average and 95th percentile (95th percentile of concept-driven)",
            mean("debs_real", OURS) < 0.1 and mean("debs_real", OURS, ERROR_P95) < 0.1,
            mean("debs_real", OURS, ERROR_P95),
        ),
        Claim(
            "DEBS: CoD processes less than 3 % of the window for it (share kept by concept-driven)",
            mean("debs_real", OURS, KEPT) < 0.03,
            mean("debs_real", OURS, KEPT),
        ),
        Claim(
            "DEBS: so does the sample with absent groups kept (its share kept)",
            mean("debs_real", SAMPLE_KEPT, KEPT) < 0.03,
            mean("debs_real", SAMPLE_KEPT, KEPT),
        ),
        Claim("CoD misses no group (greatest share missing, concept-driven)", missing == 0.0, missing),
    )
