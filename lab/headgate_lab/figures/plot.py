"""A figure as a picture, in the paper's axes: a panel for each metric, bars from least to greatest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.picture import picture, target_line
from headgate_lab.figures.figure import Axis, Drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_plot"]

#: Okabe and Ito's palette, which colour-blind people can tell apart.
_COLOURS = (
    "#999999",
    "#E69F00",
    "#D55E00",
    "#000000",
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#CC79A7",
    "#8B5A00",
    "#4B0082",
    "#808000",
    "#F0E442",
)
_MARKERS = "osD^vP*Xhp<>"
#: Letters of the legend's labels that fit side by side.
_ROW = 112
#: So many named points have their labels upright.
_CROWDED = 8


def save_plot(drawn: Drawn, path: Path) -> Path:
    """Draw a figure into a file; its folder is made if need be."""
    with picture(path, 9, 3.6 * len(drawn.axes) + 0.6) as figure:
        panels = figure.subplots(len(drawn.axes), 1, sharex=True, squeeze=False)[:, 0]
        for panel, axis in zip(panels, drawn.axes, strict=True):
            _panel(panel, drawn, axis)
        panels[0].set_title(f"{drawn.title} ({drawn.how_often})", loc="left", fontweight="bold")
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            frameon=False,
            fontsize=9,
            ncols=max(1, min(4, _ROW // max(map(len, labels), default=1))),
        )
        panels[-1].set_xlabel(drawn.x_label)
    return path


def _panel(panel: Axes, drawn: Drawn, axis: Axis) -> None:
    xs = list(dict.fromkeys(row.x for row in drawn.rows))
    named = any(isinstance(x, str) for x in xs)
    policies = list(dict.fromkeys(row.policy for row in drawn.rows))
    for index, policy in enumerate(policies):
        rows = [r for r in drawn.rows if r.policy == policy and axis.metric in r.metrics]
        if not rows:
            continue
        x: list[Any] = [xs.index(r.x) if named else r.x for r in rows]
        found = [r.metrics[axis.metric] for r in rows]
        means = [axis.scale * s.mean for s in found]
        below = [axis.scale * max(0.0, s.mean - s.min) for s in found]
        above = [axis.scale * max(0.0, s.max - s.mean) for s in found]
        panel.errorbar(
            x,
            means,
            yerr=[below, above],
            label=policy,
            color=_COLOURS[index % len(_COLOURS)],
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=5,
            linewidth=1.4,
            elinewidth=0.8,
            capsize=2,
        )
    if axis.metric.endswith("latency_s") and drawn.target_s is not None:
        target_line(panel, axis.scale * drawn.target_s)
    if axis.log:
        panel.set_yscale("log")
    if drawn.x_log:
        panel.set_xscale("log")
    if named:
        turned: dict[str, Any] = {}
        if len(xs) > _CROWDED:
            turned = {"rotation": 60, "ha": "right", "fontsize": 8}
        panel.set_xticks(range(len(xs)), [str(x) for x in xs], **turned)
    panel.set_ylabel(axis.label)
