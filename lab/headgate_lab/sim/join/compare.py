"""Selection rules side by side, as shares of the clairvoyant bound.

Scenarios are those on which rules were first compared, two that nothing was tuned on (other skew, shift
and windows; unequal rates and a jump), and the minute after a burst. Every row is one (scenario,
capacity, rule): what came out a second, as a share of the bound, and against `Directed`, the published
system as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headgate.joins.conditions import Overlap
from headgate_lab.papers.join.rules import (
    Cells,
    Content,
    Directed,
    RandomDrop,
    RateAdaptive,
    Rule,
    TimeCorrelated,
    UtilityDriven,
)
from headgate_lab.sim.join.bound import bound
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.stream import Workload, stream

__all__ = ["CAPACITIES", "RULES", "SCENARIOS", "NamedRule", "Scenario", "compare"]

#: Comparisons a second: where samples are few, and what fits most statements of the paper.
CAPACITIES = (225_000.0, 600_000.0)
#: Figure 8's rates, and a minute more.
BURST = ((60.0, 100.0), (75.0, 500.0), (105.0, 300.0), (165.0, 100.0))
STEADY = ((150.0, 500.0),)
QUICK = ("steady, skew .6", "after the burst", "shift jumps", "unequal rates, one jump")


@dataclass(frozen=True)
class Scenario:
    """A workload and what is counted of it."""

    name: str
    workload: Workload
    at_least: int = 3
    windows_s: tuple[float, float] = (20.0, 20.0)
    utilities: tuple[float, ...] = (1.0,)
    #: Seconds that count.
    span_s: tuple[float, float] = (30.0, 1e9)
    #: Not looked at when half lives, priors and margins were picked.
    held_out: bool = False


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("steady, skew .6", Workload(rates=STEADY)),
    Scenario("steady, skew .8", Workload(rates=STEADY, skew=0.8)),
    Scenario("overlap of 4", Workload(rates=STEADY, skew=0.8), at_least=4),
    Scenario("no shift", Workload(rates=STEADY, skew=0.8, shift_s=0.0)),
    Scenario("bursts", Workload(rates=BURST, skew=0.8)),
    Scenario("after the burst", Workload(rates=BURST), span_s=(105.0, 165.0)),
    Scenario(
        "shift jumps",
        Workload(
            rates=((240.0, 500.0),),
            skew=0.8,
            shift_s=((0.0, 25.0), (60.0, 5.0), (120.0, 33.0), (180.0, 15.0)),
        ),
    ),
    Scenario(
        "three types",
        Workload(rates=STEADY, skew=0.8, types=(1.0, 2.0, 3.0)),
        utilities=(1.0, 1 / 2, 1 / 3),
    ),
    Scenario(
        "skew .7, windows 15 and 30",
        Workload(rates=((150.0, 400.0),), skew=0.7, shift_s=38.0, cycle_s=50.0),
        windows_s=(15.0, 30.0),
        held_out=True,
    ),
    Scenario(
        "unequal rates, one jump",
        Workload(
            rates=((180.0, 300.0),),
            second_rates=((180.0, 700.0),),
            skew=0.65,
            shift_s=((0.0, 31.0), (100.0, 12.0)),
        ),
        held_out=True,
    ),
)


@dataclass(frozen=True)
class NamedRule:
    """A rule, and its name among its own variants."""

    rule: Rule
    label: str = field(default="")

    @property
    def name(self) -> str:
        """As it stands in the rows."""
        return self.label or self.rule.name


RULES: tuple[NamedRule, ...] = (
    NamedRule(RandomDrop()),
    NamedRule(RateAdaptive()),
    NamedRule(TimeCorrelated()),
    NamedRule(Directed()),
    NamedRule(UtilityDriven()),
    NamedRule(UtilityDriven(decay=0.8), "utility, counts kept"),
    NamedRule(UtilityDriven(decay=0.8, capacity_control=True), "utility, counts kept, capacity control"),
    NamedRule(Cells()),
    NamedRule(Content()),
)


def compare(
    quick: bool = False,
    *,
    seeds: int = 2,
    scenarios: Sequence[Scenario] | None = None,
    rules: Sequence[NamedRule] = RULES,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """One row a (scenario, capacity, rule); quick: the larger capacity, one seed, four scenarios.

    `rules` must have `RandomDrop` and `Directed`, with which the others are compared.
    """
    if scenarios is None:
        scenarios = [one for one in SCENARIOS if not quick or one.name in QUICK]
    rows: list[dict[str, Any]] = []
    for scenario in scenarios:
        streams = [stream(scenario.workload, 1 + seed) for seed in range(1 if quick else seeds)]
        for capacity in CAPACITIES[1:] if quick else CAPACITIES:
            setup = JoinSetup(
                Overlap("items", "items", scenario.at_least), scenario.windows_s,
                capacity=capacity, utilities=scenario.utilities,
            )  # fmt: skip
            start, stop = scenario.span_s
            most = bound(scenario.workload, setup).utility_rate(start, stop)
            found = {
                named.name: float(
                    np.mean([
                        run(one, setup, named.rule, seed).utility_rate(start, stop)
                        for seed, one in enumerate(streams)
                    ])
                )
                for named in rules
            }  # fmt: skip
            found["bound"] = most
            for name, rate in found.items():
                rows.append(
                    {
                        "scenario": scenario.name,
                        "held_out": scenario.held_out,
                        "capacity": capacity,
                        "policy": name,
                        "output_utility": rate,
                        "share_of_bound": rate / most,
                        "over_directed": rate / found[Directed.name],
                        "over_random_drop": rate / found[RandomDrop.name],
                    }
                )
            if progress:
                progress(f"{scenario.name}, {capacity / 1000:.0f}k comparisons/s")
    return rows
