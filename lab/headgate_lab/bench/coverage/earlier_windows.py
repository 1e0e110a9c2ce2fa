"""``headgate bench earlier-windows``: what a group's earlier windows add to its error bars.

The queries of ``headgate bench coverage`` that have windows to look back on, and some with shorter
windows, over more rows of each file. Only cells are judged whose group kept two rows or more in one of
the ten windows before, so that all methods are seen where they differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.progress import Progress

from headgate.spark.estimates.earlier import MOST_WINDOWS
from headgate_lab.bench.coverage.coverage import JUDGED, batches, truth_of
from headgate_lab.bench.coverage.draws import DRAWS
from headgate_lab.bench.coverage.history import METHODS, with_earlier
from headgate_lab.bench.coverage.populations import (
    GROUPINGS,
    SHARES_OF_ROWS,
    TUNED,
    Grouping,
    Population,
    population_of,
)
from headgate_lab.bench.coverage.tally import BANDS, Tally
from headgate_lab.bench.progress import bench_progress

__all__ = ["QUERIES", "markdown", "measure", "run"]

#: Rows of a population: enough that a group has windows to look back on.
ROWS = 300_000
#: Draws, full and quick.
_DRAWS, _FEWER = 12, 2
#: Fewer windows than this are no history.
_LEAST_WINDOWS = 3

_CALLS = {
    "alone": "`hg.mean`",
    "pooled": '`hg.pooled("window")`',
    "earlier": "earlier windows alone",
    "pooled, earlier": '`hg.pooled("window", by=...)`',
}
QUERIES = (
    *[g for g in GROUPINGS if g.value not in SHARES_OF_ROWS],
    Grouping("PlanetLab CPU", "cpu_pct", ("vm",), 7200.0),
    Grouping("tweets", "text_len", ("account",), 5 * 86400.0),
    Grouping("DEBS taxis", "fare_usd", ("pickup_cell",), 300.0),
    Grouping("green taxis", "fare_usd", ("pu_zone",), 86400.0),
)


def run(*, quick: bool) -> dict[str, Any]:
    """The bench."""
    with bench_progress() as progress:
        return measure(_FEWER if quick else _DRAWS, progress)


def measure(draws: int, progress: Progress, seed: int = 1) -> dict[str, Any]:
    """All queries that have windows to look back on."""
    task = progress.add_task("queries", total=len(QUERIES))
    found: dict[tuple[Grouping, str, str], Tally] = {}
    short: list[str] = []
    for query in QUERIES:
        people = population_of(query, ROWS)
        if people is None or len(np.unique(people.windows)) < _LEAST_WINDOWS:
            short.append(f"{query.data}: {query.name}")
        else:
            _drawn(query, people, draws, seed, found)
        progress.advance(task)
    return _result(found, draws, short)


def _drawn(
    query: Grouping,
    people: Population,
    draws: int,
    seed: int,
    found: dict[tuple[Grouping, str, str], Tally],
) -> None:
    groups = np.arange(len(people.windows)) if people.groups is None else people.groups
    mean, variance = people.mean(), people.variance()
    for draw in DRAWS:
        for kept in batches(people, draw, draws, seed):
            ends, free = with_earlier(kept, groups, "mean", coins=draw == "coins")
            truth, width = truth_of(kept, "mean", mean, variance)
            judged = (kept.n > 1) & (kept.n < kept.size) & (free > 0)
            for band, (least, most) in BANDS.items():
                here = np.flatnonzero(judged & (kept.n >= least) & (kept.n < most))
                for method in METHODS:
                    tally = found.setdefault((query, band, method), Tally())
                    tally.add(
                        {e: ends[method][e][here] for e in ("low", "high")}, truth[here], width[here]
                    )


def _result(
    found: dict[tuple[Grouping, str, str], Tally], draws: int, short: list[str]
) -> dict[str, Any]:
    def row(where: dict[str, Any], queries: list[Grouping], band: str) -> dict[str, Any] | None:
        known = [q for q in queries if found[q, band, "alone"].intervals >= JUDGED]
        if not known:
            return None
        cells: dict[str, Any] = {"queries": len(known)}
        cells["intervals"] = sum(found[q, band, "alone"].intervals for q in known)
        for method in METHODS:
            shares = [found[q, band, method].covered or 0.0 for q in known]
            widths = [w for q in known if (w := found[q, band, method].width) is not None]
            cells[method] = round(100.0 * float(np.mean(shares)), 1)
            cells[f"{method} width"] = round(float(np.median(widths)), 2) if widths else None
        return {**where, "rows": band, "half": "tuned" if queries[0].tuned else "held out", **cells}

    queries = list(dict.fromkeys(query for query, *_ in found))
    by_data = [
        row({"data": data}, [q for q in queries if q.data == data], band)
        for data in dict.fromkeys(q.data for q in queries)
        for band in BANDS
    ]
    by_query = [row({"data": q.data, "query": q.name}, [q], band) for q in queries for band in BANDS]
    tables = {
        "earlier windows, by data set": [r for r in by_data if r is not None],
        "earlier windows, by query": [r for r in by_query if r is not None],
    }
    ratios = {}
    for half in ("tuned", "held out"):
        for band in BANDS:
            rows = [
                r for r in tables["earlier windows, by query"] if (r["half"], r["rows"]) == (half, band)
            ]
            pairs = [(r["pooled, earlier width"], r["pooled width"]) for r in rows if r["pooled width"]]
            if pairs:
                name = f"{half.replace(' ', '_')}_{band}"
                ratios[f"width_{name}"] = float(np.median([new / old for new, old in pairs]))
                ratios[f"least_{name}"] = min(r["pooled, earlier"] for r in rows) / 100.0
                ratios[f"least_without_{name}"] = min(r["pooled"] for r in rows) / 100.0
    remarks = [
        f"{draws} draws of each query, up to {ROWS:,} rows, both draws; cells whose group had two kept "
        f"rows in one of {MOST_WINDOWS} windows before. Covers in %, width as a multiple of that with "
        "the true variance (median). ratio width_*: with earlier windows over without, median query.",
        f"Constants were chosen on {', '.join(TUNED)}.",
    ]
    if short:
        remarks.append(f"Without three windows, or not here: {'; '.join(short)}.")
    context = {"draws": draws, "tables": tables, "remarks": remarks}
    return {"bench": "earlier-windows", "ratios": ratios, "context": context}


def markdown(result: dict[str, Any]) -> str:
    """The table of docs/estimates.md."""
    lines = [
        f"| data | kept rows | {' | '.join(_CALLS[m] for m in METHODS)} |",
        "|---" * (len(METHODS) + 2) + "|",
    ]
    for row in result["context"]["tables"]["earlier windows, by data set"]:
        name = row["data"] if row["half"] == "held out" else f"{row['data']} *"
        cells = [
            f"{row[m]:.1f}" + (f" ({row[f'{m} width']:.1f})" if row[f"{m} width"] is not None else "")
            for m in METHODS
        ]
        lines.append(f"| {name} | {row['rows']} | {' | '.join(cells)} |")
    return "\n".join(lines)
