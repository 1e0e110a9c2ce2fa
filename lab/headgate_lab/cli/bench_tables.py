"""A benchmark's result as tables: what `headgate bench` prints without ``--json``."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from headgate.cli.plumbing import print_json
from headgate.cli.tables import console, table

__all__ = ["show"]


def show(result: dict[str, Any], as_json: bool) -> None:
    """The one JSON object; or the context's tables if it has any, the ratios, and its remarks."""
    if as_json:
        print_json(result)
        return
    out, context = console(), result.get("context", {})
    for title, rows in context.get("tables", {}).items():
        out.print(_rows(title, rows))
    out.print(_table(result))
    for remark in context.get("remarks", ()):
        out.print(remark, soft_wrap=True)


def _table(result: dict[str, Any]) -> Table:
    made = table(f"bench {result.get('bench', '')}", "<ratio", "value")
    for name, value in result.get("ratios", {}).items():
        made.add_row(str(name), _cell(value))
    return made


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    names = list(rows[0]) if rows else []
    text = [n for n in names if isinstance(rows[0][n], str)]
    made = table(title, *[f"<{n}" if n in text else n for n in names])
    for row in rows:
        made.add_row(*[_cell(row[n]) for n in names])
    return made


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
