"""Published figures, drawn again: one file a figure, each with the paper's claims and our verdicts."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from headgate.errors import BadArgument
from headgate.figures.figure import Claim, Drawn, Row, Spread

__all__ = ["NAMES", "Claim", "Drawn", "Row", "Spread", "build"]

#: Every figure: its name, and the module whose `build` draws it.
NAMES = {f"las_fig{number}": f"headgate.figures.las_fig{number}" for number in range(4, 10)}

#: Called after each run with (runs done, runs in all).
Progress = Callable[[int, int], None]


def build(
    name: str, runs: int | None = None, quick: bool = False, progress: Progress | None = None
) -> Drawn:
    """Draw a figure from so many runs a point; `quick` takes few points and few runs."""
    if name not in NAMES:
        raise BadArgument(f"no figure {name!r}: one of {', '.join(NAMES)}")
    if runs is not None and runs < 1:
        raise BadArgument(f"runs={runs}: give at least 1 run for each point")
    drawn: Drawn = importlib.import_module(NAMES[name]).build(runs, quick, progress or (lambda *_: None))
    return drawn
