"""Cod-2018, Figure 7: window latency against the cores at work, normal execution and 98 % shed.

The paper doubles the nodes of a cluster, from one to four; this is one machine, so its cores are
doubled, from one to two. Its packets (DEC) are Bellcore's here, copied until a window has enough rows
for Spark; the query has no groups, and CoD is a uniform sample.

The mean is the paper's query. Spark adds up a core's rows before it moves any, so it costs little more
than reading them, which no shedder behind the source can save; nor does the median of packet sizes, of
which there are few. Storm's windows hold their tuples until they are complete; on Spark that is the
trimmed mean, which stands beside the two.
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
from headgate_lab.figures.cod.policies import OURS, UNIFORM, title_of
from headgate_lab.figures.figure import Claim, Drawn, Samples
from headgate_lab.figures.sweep import how_many

__all__ = ["CORES", "FULL", "KEEP", "QUICK", "build", "point_name"]

CORES = (1, 2)
KEEP = 0.02
FULL, QUICK = Size(4_000_000, 3, 6), Size(400_000, 1, 3)


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Draw it; the paper repeats five times, which `runs` can ask for."""
    count, size = how_many(runs, quick, 1, 2), QUICK if quick else FULL
    source = source_of("bellcore")
    plan, samples, done = Replay(source, KEEP, size), Samples(), 0
    whole = len(CORES) * len(AGGREGATES) * count * size.replays

    def passed() -> None:
        nonlocal done
        done += 1
        progress(done, whole)

    with scratch_folder() as folder:
        for cores in CORES:
            with local_session(folder, cores) as spark:
                for aggregate, policy, metrics in replay(spark, plan, folder, count, passed):
                    samples.add(point_name(aggregate, cores), policy, metrics)
    return Drawn(
        "cod_fig7",
        title_of(f"Window latency on Spark at {1 - KEEP:.0%} shed", [source]),
        "aggregate and cores",
        count,
        samples.rows(),
        _claims(samples),
        AXES,
    )


def point_name(aggregate: str, cores: int) -> str:
    """As it is written on the x axis."""
    return f"{aggregate}, {cores} core{'s' if cores > 1 else ''}"


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def times(aggregate: str, policy: str, metric: str = LATENCY) -> float:
        """How much longer normal execution takes; the least over the cores."""
        at = [point_name(aggregate, cores) for cores in CORES]
        return min(samples.mean(x, SPARK, metric) / samples.mean(x, policy, metric) for x in at)

    claims = []
    for name in AGGREGATES:
        one, all_ = point_name(name, CORES[0]), point_name(name, CORES[-1])
        saved = samples.mean(all_, SPARK, LATENCY) / samples.mean(one, OURS, LATENCY)
        claims += [
            Claim(
                f"{name}: CoD has a better average than normal execution (times, least)",
                times(name, OURS) > 1,
                times(name, OURS),
            ),
            Claim(
                f"{name}: so has uniform (times, least)", times(name, UNIFORM) > 1, times(name, UNIFORM)
            ),
            Claim(
                f"{name}: more than four times better at the 95th percentile, CoD (times, least)",
                times(name, OURS, LATENCY_P95) > 4,
                times(name, OURS, LATENCY_P95),
            ),
            Claim(
                f"{name}: the same, uniform (times, least)",
                times(name, UNIFORM, LATENCY_P95) > 4,
                times(name, UNIFORM, LATENCY_P95),
            ),
            Claim(
                f"{name}: one core with CoD beats all cores without (times, average)", saved > 1, saved
            ),
        ]
    return tuple(claims)
