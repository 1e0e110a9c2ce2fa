"""What a turn came to: the SIC of every query over time, as its root measured it, and how fair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.fairness.jain import jain, mean_jain
from headgate.sites.service.history import History
from headgate.store.folder import read_json
from headgate_lab.demo.federation.plan import Federation

__all__ = ["Goal", "Outcome", "goals", "read_outcome"]


@dataclass(frozen=True)
class Goal:
    """What a run is to show, the figure that it came to, and whether that is enough."""

    goal: str
    found: float
    met: bool


@dataclass(frozen=True)
class Outcome:
    """What one turn, with one kind of shedding, came to."""

    shedding: str
    #: Seconds since the turn's beginning, and every query's SIC then (nan before its first result).
    times_s: list[float]
    sic: dict[str, list[float]]
    #: Source SIC accepted at all sites, a query's mean after the settling.
    accepted: dict[str, float]
    settle_s: float
    #: What a fair allocation could have reached with the capacity that the sites had; None if unknown.
    optimum: dict[str, float] | None = None

    def _settled(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = np.array([self.sic[query] for query in self.sic], np.float64).T
        late = np.array(self.times_s) >= self.settle_s
        return np.nan_to_num(rows[late])

    @property
    def means(self) -> dict[str, float]:
        """Every query's mean SIC after the settling."""
        found = self._settled().mean(axis=0)
        return dict(zip(self.sic, found.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """The figures that `headgate federation demo --json` prints of a turn."""
        means = list(self.means.values())
        accepted = sum(self.accepted.values())
        value = {
            "jain": jain(means),
            "jain_instant": mean_jain(self._settled()),
            "mean_sic": sum(means) / len(means),
            "min_sic": min(means),
            "waste": max(0.0, 1.0 - sum(means) / accepted) if accepted > 0 else 0.0,
            "sic": self.means,
        }
        if self.optimum:
            best = list(self.optimum.values())
            value["optimum"] = {"jain": jain(best), "min_sic": min(best), "sic": self.optimum}
        return value


def goals(outcomes: Mapping[str, Outcome]) -> list[Goal]:
    """How fair Headgate's own shedding is to be: nearly as can be, and a third fairer than random."""
    figures = {name: outcome.to_json() for name, outcome in outcomes.items()}
    found = []
    if "mirror" in figures:
        index = figures["mirror"]["jain"]
        found.append(Goal("Jain's index with mirror at least 0.97", index, index >= 0.97))
        if "random" in figures:
            times = index / figures["random"]["jain"]
            found.append(Goal("at least 1.33 times that with random", times, times >= 1.33))
    return found


def read_outcome(plan: Federation, folder: Path, shedding: str, settle_s: float) -> Outcome:
    """From what the sites left behind."""
    histories = {
        site: list(History(folder / site / "sites" / site / "sic.jsonl").lines()) for site in plan.sites
    }
    begin = min((lines[0]["at"] for lines in histories.values() if lines), default=0.0)
    end = max((lines[-1]["at"] for lines in histories.values() if lines), default=0.0)
    over = folder / "over.json"
    if over.exists():  # what comes after is the shutdown
        end = min(end, over.stat().st_mtime)
    times = [float(t) for t in np.arange(0.0, max(1.0, end - begin), 1.0)]
    sic = {}
    for query in plan.queries:
        lines = histories[plan.root(query).site]
        sic[query] = _sampled(lines, query, "sic", times, begin, told_by=("result", "coordinator"))
    late = [t >= settle_s for t in times]
    accepted = {}
    for query in plan.queries:
        parts = [
            _sampled(histories[f.site], query, "accepted", times, begin) for f in plan.of_query(query)
        ]
        sums = [sum(_zero(v) for v in values) for values in zip(*parts, strict=True)]
        kept = [v for v, counts in zip(sums, late, strict=True) if counts]
        accepted[query] = sum(kept) / len(kept) if kept else 0.0
    return Outcome(shedding, times, sic, accepted, settle_s, _optimum(plan, folder))


def _sampled(
    lines: list[dict[str, Any]],
    query: str,
    what: str,
    times: list[float],
    begin: float,
    told_by: tuple[str, ...] | None = None,
) -> list[float]:
    """The last known value at each time."""
    found, index, value = [], 0, math.nan
    for at in times:
        while index < len(lines) and lines[index]["at"] - begin <= at:
            view = lines[index]["queries"].get(query)
            if view is not None and (told_by is None or view["told_by"] in told_by):
                value = math.nan if view[what] is None else float(view[what])
            index += 1
        found.append(value)
    return found


def _zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _optimum(plan: Federation, folder: Path) -> dict[str, float] | None:
    """Max-min SIC for the load that the sites last had, by linear programme."""
    try:
        import scipy  # noqa: F401  (says so if it is missing)

        from headgate_lab.papers.themis.anchors import Fluid, max_min
    except ImportError:
        return None
    query, node, load, sic, capacity = [], [], [], [], []
    for number, site in enumerate(plan.sites):
        status = read_json(folder / site / "sites" / site / "status.json")
        if status is None:
            return None
        left = plan.capacity[site]
        for gate in status["gates"].values():
            if gate["source"] is None:
                left -= gate["rows_per_s"]
                continue
            query.append(plan.queries.index(gate["query"]))
            node.append(number)
            load.append(max(1e-9, gate["rows_per_s"]))
            sic.append(1.0 / len(plan.of_query(gate["query"])))
        capacity.append(max(1e-6, left))
    fluid = Fluid(np.array(query), np.array(node), np.array(load), np.array(sic), np.array(capacity))
    return dict(zip(plan.queries, max_min(fluid).q_sic.tolist(), strict=True))
