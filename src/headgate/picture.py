"""How every picture looks, and the file that it goes into."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["picture", "target_line"]

_INK = "#333333"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@contextlib.contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """An empty figure, in inches; what was drawn is written at the end, the folder made if need be."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def target_line(axes: Axes, y: float) -> None:
    """A dashed line at a target."""
    axes.axhline(y, color=_INK, linewidth=1.2, linestyle=(0, (5, 3)))
