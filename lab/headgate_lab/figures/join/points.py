"""Join rules at places along an axis, each run on a stream of its own that all lines of a place share.

A line is a rule and its name; the rule None is the bound, which knows the match density and needs no
run. The first line of a place is the one that the others' improvement is measured against. The first
seconds are not counted: windows fill and the rules learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.policies import BOUND, DROPPED, IMPROVEMENT, OUTPUT, VALUE, metrics
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.papers.join.rules import Rule
from headgate_lab.sim.join.bound import Bound, bound
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.stream import Workload, stream

__all__ = ["Line", "Place", "PlaceRun", "best_of", "lines", "over_places", "run_place"]


@dataclass(frozen=True)
class Line:
    """One line of the figure; the rule None stands for the bound."""

    name: str
    rule: Rule | None


@dataclass(frozen=True)
class Place:
    """One place on the x axis: streams, machine, and who is compared."""

    x: float | str
    workload: Workload
    setup: JoinSetup
    lines: tuple[Line, ...]
    #: Nothing before this second is counted.
    warm_s: float = 60.0
    #: Which of the metrics to give.
    metrics: tuple[str, ...] = (OUTPUT, DROPPED)


@dataclass(frozen=True)
class PlaceRun:
    """One run at one place: an item of the work."""

    place: Place
    seed: int


def lines(*rules: Rule, suffix: str = "", bounded: bool = False) -> tuple[Line, ...]:
    """Rules under their public names, and the bound if asked for; a suffix tells settings apart."""
    found = [Line(rule.name + suffix, rule) for rule in rules]
    return (*found, Line(BOUND + suffix, None)) if bounded else tuple(found)


def over_places(
    caption: Caption,
    places: Iterable[Place],
    count: tuple[int | None, bool, int, int],
    claims: Callable[[Samples], tuple[Claim, ...]],
) -> Sweep[PlaceRun]:
    """Place after place, each with all its runs; `count` is what `how_many` takes."""
    runs = how_many(*count)
    items: Sequence[PlaceRun] = [PlaceRun(place, seed) for place in places for seed in range(runs)]
    return Sweep(caption, runs, items, run_place, claims)


@lru_cache(maxsize=16)
def best_of(workload: Workload, setup: JoinSetup) -> Bound:
    """The bound, once for all runs: it is the workload's, not a stream's."""
    return bound(workload, setup)


def run_place(item: PlaceRun) -> list[Sample]:
    """Every line on the stream of one run."""
    place, found = item.place, list[Sample]()
    arrivals, stop = stream(place.workload, item.seed), place.workload.seconds
    wanted = VALUE if VALUE in place.metrics else OUTPUT
    base: float | None = None
    for line in place.lines:
        if line.rule is None:
            best = best_of(place.workload, place.setup)
            values = {
                OUTPUT: best.output_rate(place.warm_s, stop),
                VALUE: best.utility_rate(place.warm_s, stop),
            }
        else:
            result = run(arrivals, place.setup, line.rule, seed=item.seed)
            values = metrics(result, place.warm_s, stop)
            if wanted == VALUE:
                values[VALUE] = result.utility_rate(place.warm_s, stop)
        kept = {name: value for name, value in values.items() if name in place.metrics}
        if base is None:
            base = values[wanted]
        elif base > 0:
            kept[IMPROVEMENT] = values[wanted] / base - 1.0
        found.append((place.x, line.name, kept))
    return found
