"""Published figures, drawn again: one file a figure, each with the paper's claims and our verdicts."""

from __future__ import annotations

import importlib

from headgate.errors import BadArgument
from headgate_lab.figures.figure import Claim, Drawn, Row, Spread
from headgate_lab.figures.runner import Progress, Runner, in_process

__all__ = ["MEASURED", "NAMES", "SWEEPS", "Claim", "Drawn", "Row", "Spread", "build"]


def _module(name: str) -> str:
    """Where a figure is: ``las_fig4`` is figure 4 of the paper `las`."""
    paper, _, figure = name.partition("_")
    return f"headgate_lab.figures.{paper}.{figure}"


#: Figures in virtual time, by name: modules whose `sweep(runs, quick)` says what any runner can do.
SWEEPS = {
    name: _module(name)
    for name in (
        *(f"las_fig{number}" for number in range(4, 10)),
        *("cod_fig2", "cod_fig9", "cod_fig10"),
        *(f"join_fig{number}" for number in (5, *range(7, 18))),
        *(f"themis_fig{number}" for number in range(6, 15)),
        "themis_sec75",
    )
}

#: Figures measured on a query of their own: modules whose `build(runs, quick, progress)` runs it.
MEASURED = {
    name: _module(name)
    for name in ("las_fig10", "las_fig11", "cod_fig7", "cod_fig8", "join_headlines", "themis_sec76")
}

#: Every figure.
NAMES = SWEEPS | MEASURED


def build(
    name: str,
    runs: int | None = None,
    quick: bool = False,
    progress: Progress | None = None,
    runner: Runner = in_process,
) -> Drawn:
    """Draw a figure from so many runs a point; `quick` takes few points and few runs."""
    if name not in NAMES:
        raise BadArgument(f"no figure {name!r}: one of {', '.join(NAMES)}")
    if runs is not None and runs < 1:
        raise BadArgument(f"runs={runs}: give at least 1 run for each point")
    module, tell = importlib.import_module(NAMES[name]), progress or (lambda *_: None)
    if name in SWEEPS:
        sweep = module.sweep(runs, quick)
        results = list(runner(sweep.run, sweep.items, tell))
        if hasattr(module, "replayed") and not quick:
            results.append(module.replayed())
        drawn: Drawn = sweep.draw(results)
    else:
        drawn = module.build(runs, quick, tell)
    return drawn
