"""Tables as the commands print them: narrow on a terminal, whole in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from headgate.view.wording import plain

__all__ = ["console", "long_table", "rates_of_their_own", "table"]

#: A pipe has no width; nothing is cut there.
_PIPE_WIDTH = 160


def console() -> Console:
    """A console that writes to standard output.

    It prints what it is given: reasons, states and names of groups are other people's words, and may
    have square brackets in them, or characters that a terminal obeys (`plain`). Colours are for
    `rich.text.Text`.
    """
    found = Console(highlight=False, markup=False)
    if not found.is_terminal:
        found = Console(highlight=False, markup=False, width=_PIPE_WIDTH)
    found.push_render_hook(_PlainText())
    return found


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


def long_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Text:
    """The same of hundreds of rows, laid out at once: what `Table` does for each cell takes a second."""
    names = [name.removeprefix("<") for name in columns]
    cells = [names, *rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(names))]
    places = [str.ljust if name.startswith("<") else str.rjust for name in columns]

    def line(row: Sequence[str]) -> str:
        placed = zip(places, row, widths, strict=True)
        return " " + "  ".join(place(cell, width) for place, cell, width in placed)

    rule = " " + "─" * (sum(widths) + 2 * len(widths) - 2)
    head, *rest = (line(row).rstrip() for row in cells)
    return Text("\n".join([head, rule, *rest]), no_wrap=True, overflow="ellipsis")


def rates_of_their_own(where: str) -> str:
    """What a ``+n`` behind a keep rate means; `where` says who lists them."""
    return f"+1 behind a keep rate: one class or group has a rate of its own (+2: two); {where}"


class _PlainText(RenderHook):
    """Lets a console print a mark for each character that a terminal would obey; colours remain."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Each, with what it prints made plain."""
        return [_Plain(one) for one in renderables]


class _Plain:
    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for one in console.render(self._inner, options):
            yield one if one.control else Segment(plain(one.text), one.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._inner)
