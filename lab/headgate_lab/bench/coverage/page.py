"""The table of docs/estimates.md, from the bench's result."""

from __future__ import annotations

from typing import Any

__all__ = ["markdown"]

_METHODS = ("plain", "alone", "pooled", "over windows")


def markdown(result: dict[str, Any]) -> str:
    """By data set and number of kept rows, both draws together: what covers, and how wide it is.

    The narrowest interval that would do stands in the last column, where there were draws enough.
    """
    rows = result["context"]["tables"]["means, by data set"]
    told = any(row["shortest width"] is not None for row in rows)
    names = ["plain t", "`hg.mean`", '`hg.pooled("window")`', "`hg.pooled()`", "true variance"]
    names = ["data", "kept rows", *names, *(["shortest"] if told else [])]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for data, band in dict.fromkeys((row["data"], row["rows"]) for row in rows):
        here = [row for row in rows if (row["data"], row["rows"]) == (data, band)]
        name = data if here[0]["half"] == "held out" else f"{data} *"
        cells = [_cell(here, method) for method in _METHODS] + [_mean(here, "true variance", 1)]
        cells += [_mean(here, "shortest width", 2)] if told else []
        lines.append(f"| {name} | {band} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(rows: list[dict[str, Any]], name: str, digits: int) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return f"{sum(known) / len(known):.{digits}f}" if known else ""


def _cell(rows: list[dict[str, Any]], method: str) -> str:
    shares = [row[method] for row in rows if row[method] is not None]
    widths = [row[f"{method} width"] for row in rows if row[f"{method} width"] is not None]
    if not shares:
        return ""
    width = f" ({sum(widths) / len(widths):.1f})" if widths else ""
    return f"{sum(shares) / len(shares):.1f}{width}"
