"""``headgate bench coverage``: every query, draw and share, and the tables of what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from headgate.errors import BadArgument
from headgate.spark.estimates.intervals.student import normal_quantile
from headgate_lab.bench.coverage.carried import Carried
from headgate_lab.bench.coverage.combinations import Combinations
from headgate_lab.bench.coverage.draws import DRAWS, Kept, kept_cells, together
from headgate_lab.bench.coverage.intervals import METHODS, intervals
from headgate_lab.bench.coverage.populations import (
    GROUPINGS,
    SHARES_OF_ROWS,
    TUNED,
    Grouping,
    Population,
    population_of,
)
from headgate_lab.bench.coverage.promised import WITHIN, promised
from headgate_lab.bench.coverage.shared_fate import SHARED, shared_fate
from headgate_lab.bench.coverage.shared_totals import shared_totals
from headgate_lab.bench.coverage.shortest import Errors
from headgate_lab.bench.coverage.tally import BANDS, Tally
from headgate_lab.bench.progress import bench_progress

__all__ = ["FULL", "JUDGED", "QUICK", "SHARES", "Size", "batches", "measure", "run", "truth_of"]

#: Kept shares.
SHARES = (0.01, 0.02, 0.05, 0.1)
#: Fewer intervals than this are not judged.
JUDGED = 100
#: Cells that are reckoned with at once.
_CELLS = 20_000
_SHORT = {"pooled over windows": "over windows"}
#: What is tried, and beside it an interval that knows the true variance.
_TRUE = "true variance"
_TRIED = (*METHODS, _TRUE)

Key = tuple[Grouping, str, str, str, str]


@dataclass(frozen=True)
class Size:
    """How many draws, and of which data set; of all without a name."""

    draws: int
    data: str | None = None


FULL, QUICK = Size(200), Size(10)


def run(*, quick: bool, data: str | None = None) -> dict[str, Any]:
    """The bench; `data` names one data set."""
    names = list(dict.fromkeys(g.data for g in GROUPINGS))
    if data is not None and data not in names:
        raise BadArgument(f"no data set {data!r}: one of {', '.join(names)}")
    size = Size((QUICK if quick else FULL).draws, data)
    with bench_progress() as progress:
        return measure(size, progress)


def measure(size: Size, progress: Progress, seed: int = 1) -> dict[str, Any]:
    """All queries, one after the other."""
    queries = [g for g in GROUPINGS if size.data in (None, g.data)]
    task, found = progress.add_task("queries", total=len(queries) * len(DRAWS)), {}
    absent: list[str] = []
    best: dict[tuple[Grouping, str], float] = {}
    carried: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    asked: list[dict[str, Any] | None] = []
    for query in queries:
        people = population_of(query)
        numbers = people is not None and query.value not in SHARES_OF_ROWS
        heavy = Carried.of(people) if numbers and people is not None else None
        both = Combinations(people) if numbers and people is not None else None
        for draw in DRAWS:
            if people is not None:
                errors = Errors()
                found.update(_drawn(query, people, draw, size.draws, seed, errors, heavy, both))
                for band, width in zip(BANDS, errors.widths(BANDS.values()), strict=True):
                    if width is not None:
                        best[query, band] = width
            progress.advance(task)
        where = {"data": query.data, "query": query.name}
        if heavy is not None and both is not None:
            carried += heavy.rows(where, METHODS[1:])
            differences += both.rows_of_differences(where)
            totals += both.row_of_totals(where)
        if people is not None and numbers:
            draws = max(5, size.draws // 10)
            asked += [promised(query, people, within, draws, seed) for within in WITHIN]
        if people is None and query.data not in absent:
            absent.append(query.data)
    result = _result(found, size, absent, best)
    tables = result["context"]["tables"]
    tables["accuracy asked for"] = [row for row in asked if row is not None]
    tables["cells that one row carries"] = carried
    tables["differences between windows"] = differences
    tables["totals over groups"] = totals
    tables.update(_together(size, seed))
    return result


def _together(size: Size, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Rows that share identities: means and sums of groups, and totals over groups."""
    fates: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for query, identity in SHARED:
        people = population_of(query, identity=identity) if size.data in (None, query.data) else None
        if people is not None:
            fates += shared_fate(query, people, identity, SHARES, size.draws, seed)
            total = shared_totals(query, people, identity, SHARES, size.draws, seed)
            totals += [total] if total is not None else []
    return {"rows kept together": fates, "totals over groups that share identities": totals}


def _drawn(
    query: Grouping,
    people: Population,
    draw: str,
    times: int,
    seed: int,
    errors: Errors,
    heavy: Carried | None,
    both: Combinations | None,
) -> dict[Key, Tally]:
    """One query under one draw: a tally for each statistic, method and number of kept rows.

    `errors` gets those of fixed draws, `heavy` the intervals of means, by cell, and `both` too.
    """
    found: dict[Key, Tally] = {}
    share = query.value in SHARES_OF_ROWS
    statistics = ("mean", "sum") if draw == "coins" and not share else ("mean",)
    mean, variance = people.mean(), people.variance()
    for kept in batches(people, draw, times, seed):
        judged = np.flatnonzero((kept.n > 1) & (kept.n < kept.size))
        for statistic in statistics:
            truth, width = truth_of(kept, statistic, mean, variance)
            value = kept.mean * (kept.n * kept.weight if statistic == "sum" else 1.0)
            ends = intervals(kept, statistic, coins=draw == "coins", share=share)
            ends[_TRUE] = {"low": value - 0.5 * width, "high": value + 0.5 * width}
            if draw == "fixed":
                cells = kept.cell[judged].astype(np.float64)
                errors.add(cells, kept.n[judged], (value - truth)[judged], width[judged])
            if statistic == "mean" and heavy is not None:
                heavy.add(kept, draw, {method: ends[method] for method in METHODS[1:]}, truth, width)
            if statistic == "mean" and both is not None:
                both.add(kept, draw, ends, truth, width)
            for band, (least, most) in BANDS.items():
                here = judged[(kept.n[judged] >= least) & (kept.n[judged] < most)]
                if not len(here):
                    continue
                for method in _TRIED:
                    tally = found.setdefault((query, draw, statistic, method, band), Tally())
                    of_these = {end: ends[method][end][here] for end in ("low", "high")}
                    tally.add(of_these, truth[here], width[here])
    return found


def batches(people: Population, draw: str, times: int, seed: int) -> Iterator[Kept]:
    """The draws of all shares, many at a time: fewer and longer arrays."""
    waiting: dict[float, list[Kept]] = {share: [] for share in SHARES}
    for share, kept in kept_cells(people, draw, SHARES, times, seed):
        waiting[share].append(kept)
        if sum(len(one.n) for one in waiting[share]) >= _CELLS:
            yield together(waiting[share])
            waiting[share] = []
    for rest in waiting.values():
        if rest:
            yield together(rest)


def truth_of(
    kept: Kept, statistic: str, mean: npt.NDArray[np.float64], variance: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The truth in each cell, and the width of a normal interval with the true variance."""
    truth, spread = mean[kept.cell], variance[kept.cell]
    both = 2.0 * normal_quantile(0.95)
    if statistic == "mean":
        return truth, both * np.sqrt(spread / kept.n * (1.0 - kept.n / kept.size))
    luck = kept.size * (kept.weight - 1.0) * (spread + np.square(truth))
    return kept.size * truth, both * np.sqrt(luck)


def _result(
    found: dict[Key, Tally], size: Size, absent: list[str], best: dict[tuple[Grouping, str], float]
) -> dict[str, Any]:
    tables = {
        "means, by data set": _by_data(found, "mean", best),
        "sums of coins, by data set": _by_data(found, "sum", {}),
        "means, by query": _by_query(found, best),
    }
    ratios = {}
    for half, names in (("tuned", True), ("held_out", False)):
        for band in BANDS:
            for method in ("plain", "alone", "pooled"):
                shares = [
                    tally.covered
                    for (query, _, statistic, m, b), tally in found.items()
                    if (query.tuned is names and statistic == "mean" and m == method and b == band)
                    and tally.intervals >= JUDGED
                    and tally.covered is not None
                ]
                if shares:
                    ratios[f"{method}_least_{half}_{band}"] = min(shares)
                    ratios[f"{method}_mean_{half}_{band}"] = float(np.mean(shares))
    remarks = [
        f"{size.draws} draws of each query at {', '.join(f'{100 * s:g}' for s in SHARES)} % kept. "
        "Covers: intervals that hold the truth, %, each query counted alike. Width: median, as a "
        "multiple of an interval with the true variance. Queries with fewer than "
        f"{JUDGED} intervals are left out.",
        "True variance: what estimate ∓ 1.96 true standard errors covers on the same draws; its width "
        "is 1. Shortest width: of the narrowest that holds the truth in 95 % of a cell's fixed draws.",
        f"Constants were chosen on {', '.join(TUNED)}; the others were not looked at before.",
    ]
    if absent:
        remarks.append(f"Not here: {', '.join(absent)}.")
    context = {"draws": size.draws, "tables": tables, "remarks": remarks}
    return {"bench": "coverage", "ratios": ratios, "context": context}


def _by_data(
    found: dict[Key, Tally], statistic: str, best: dict[tuple[Grouping, str], float]
) -> list[dict[str, Any]]:
    """By data set, draw and number of kept rows: what every method covers, and how wide it is."""
    rows = []
    for data in dict.fromkeys(query.data for query, *_ in found):
        for draw in DRAWS:
            for band in BANDS:
                part = {
                    (query, method): tally
                    for (query, d, s, method, b), tally in found.items()
                    if (query.data, d, s, b) == (data, draw, statistic, band)
                    and tally.intervals + tally.unknown >= JUDGED
                }
                if part:
                    where = {"data": data, "draw": draw, "rows": band}
                    rows.append({**where, **_cells(part, band, best if draw == "fixed" else {})})
    return rows


def _cells(
    part: dict[tuple[Grouping, str], Tally], band: str, best: dict[tuple[Grouping, str], float]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "half": "tuned" if next(iter(part))[0].tuned else "held out",
        "queries": len({query for query, _ in part}),
        "intervals": sum(t.intervals for (_, m), t in part.items() if m == "plain"),
    }
    for method in METHODS:
        tallies = [tally for (_, m), tally in part.items() if m == method]
        name = _SHORT.get(method, method)
        made[name] = _percent(tally.covered for tally in tallies)
        made[f"{name} width"] = _median(tally.width for tally in tallies)
        if method == "alone":
            unknown = sum(t.unknown for t in tallies) / sum(t.unknown + t.intervals for t in tallies)
            made["alone unknown"] = round(100.0 * unknown, 1)
    known = [tally for (_, method), tally in part.items() if method == _TRUE]
    made[_TRUE] = _percent(tally.covered for tally in known)
    made["shortest width"] = _median(best.get((query, band)) for query in {q for q, _ in part})
    made["empty plain"] = _percent(
        t.empty / t.intervals for (_, m), t in part.items() if m == "plain" and t.intervals
    )
    return made


def _percent(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(100.0 * float(np.mean(known)), 1) if known else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.median(known)), 2) if known else None


def _by_query(found: dict[Key, Tally], best: dict[tuple[Grouping, str], float]) -> list[dict[str, Any]]:
    rows = []
    for query, draw, band in dict.fromkeys((q, d, b) for q, d, s, _, b in found if s == "mean"):
        part = {
            (query, method): tally
            for method in _TRIED
            if (tally := found.get((query, draw, "mean", method, band))) is not None
            and tally.intervals + tally.unknown >= JUDGED
        }
        if part:
            where = {"data": query.data, "query": query.name, "draw": draw, "rows": band}
            rows.append({**where, **_cells(part, band, best if draw == "fixed" else {})})
    return rows
