"""Tables as the commands print them: narrow on a terminal, whole in a pipe."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["console", "table"]

#: A pipe has no width; nothing is cut there.
_PIPE_WIDTH = 160


def console() -> Console:
    """A console that writes to standard output.

    It prints what it is given: reasons, states and names of groups are other people's words, and may
    have square brackets in them. Colours are for `rich.text.Text`.
    """
    found = Console(highlight=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=_PIPE_WIDTH)


def table(title: str | None, *columns: str) -> Table:
    """An empty table; a column whose name begins with ``<`` is text and the others are figures."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in columns:
        made.add_column(
            name.removeprefix("<"), justify="left" if name.startswith("<") else "right", no_wrap=True
        )
    return made
