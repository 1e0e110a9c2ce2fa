"""Cod-2018, Figure 8: window latency of the three data sets with all cores at work, at 97 % shed.

Packets without groups (the paper's DEC), task events by scheduling class (GCM), taxi routes (DEBS). The
paper says that CoD processes 3 % of a window; on taxi routes none does that keeps a row of each, so
the share really kept is drawn beside the latency. Events by job are there, too: many groups with many
rows each, which is where shedding by group has most to give.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate_lab.figures.cod.data import source_of
from headgate_lab.figures.cod.latency import (
    AGGREGATES,
    AXES,
    LATENCY,
    LATENCY_P95,
    SPARK,
    Replay,
    Size,
    local_session,
    replay,
    scratch_folder,
)
from headgate_lab.figures.cod.policies import KEPT, OURS, UNIFORM, title_of
from headgate_lab.figures.figure import Claim, Drawn, Samples
from headgate_lab.figures.sweep import how_many

__all__ = ["CORES", "FULL", "KEEP", "QUICK", "build", "point_name"]

CORES = 2
KEEP = 0.03
FULL, QUICK = Size(1_000_000, 3, 6), Size(150_000, 1, 2)
#: The data by the paper's names.
_DATA = {"DEC": "bellcore", "GCM": "gcm_real", "DEBS": "debs_real", "GCM by job": "gcm_real_job"}


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Draw it; the paper repeats five times, which `runs` can ask for."""
    count, size = how_many(runs, quick, 1, 2), QUICK if quick else FULL
    sources = {name: source_of(data) for name, data in _DATA.items()}
    samples, done = Samples(), 0
    whole = len(sources) * len(AGGREGATES) * count * size.replays

    def passed() -> None:
        nonlocal done
        done += 1
        progress(done, whole)

    with scratch_folder() as folder, local_session(folder, CORES) as spark:
        for name, source in sources.items():
            for found in replay(spark, Replay(source, KEEP, size), folder, count, passed):
                aggregate, policy, metrics = found
                samples.add(point_name(name, aggregate), policy, metrics)
    return Drawn(
        "cod_fig8",
        title_of(f"Window latency on Spark at {1 - KEEP:.0%} shed, {CORES} cores", sources.values()),
        "data and aggregate",
        count,
        samples.rows(),
        _claims(samples),
        AXES,
    )


def point_name(data: str, aggregate: str) -> str:
    """As it is written on the x axis."""
    return f"{data} {aggregate}"


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def times(data: str, name: str, policy: str, metric: str = LATENCY) -> float:
        """How much longer normal execution takes."""
        x = point_name(data, name)
        return samples.mean(x, SPARK, metric) / samples.mean(x, policy, metric)

    claims = []
    for name in AGGREGATES:
        for data in _DATA:
            claims.append(
                Claim(
                    f"{name}, {data}: CoD has a better average than normal execution (times)",
                    times(data, name, OURS) > 1,
                    times(data, name, OURS),
                )
            )
        best = max(times(data, name, OURS, LATENCY_P95) for data in ("DEC", "GCM", "DEBS"))
        gap = times("GCM", name, OURS) / times("DEC", name, OURS)
        slower = 1 / times("DEBS", name, UNIFORM) * times("DEBS", name, OURS)
        claims += [
            Claim(
                f"{name}: up to 2.25 times faster at the 95th percentile (times, best of the three)",
                best >= 2.25,
                best,
            ),
            Claim(
                f"{name}: shedding gains less on DEC, without groups, than on GCM (ratio of gains)",
                gap > 1,
                gap,
            ),
            Claim(
                f"{name}: uniform is slower than CoD on DEBS (ratio of latencies)", slower > 1, slower
            ),
        ]
    share = samples.mean(point_name("DEBS", "mean"), OURS, KEPT)
    claims.append(Claim("DEBS: CoD processes 3 % of the window (share kept)", share < 0.035, share))
    return tuple(claims)
