"""The demo as a picture: how long batches took, how late their rows were, and what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headgate.demo.batches import Side
from headgate.demo.run import DemoResult
from headgate.picture import picture, target_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_plot"]

#: Okabe and Ito's orange and blue, which colour-blind people can tell apart.
_WITHOUT, _WITH = "#D55E00", "#0072B2"


def save_plot(result: DemoResult, path: Path) -> Path:
    """Draw the result into a PNG file; its folder is made if need be."""
    with picture(path, 10, 7.6) as figure:
        durations, delays, kept = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 1.3])
        _durations(durations, result)
        _delays(delays, result)
        _kept(kept, result)
        figure.suptitle(
            f"{result.rows_per_second:,} rows/s into a query that sustains "
            f"{result.capacity_rows_s:,.0f}: {result.load:.1f} times its capacity",
            x=0.012,
            ha="left",
            fontsize=14,
            fontweight="bold",
        )
    return path


def _sides(result: DemoResult) -> tuple[tuple[Side, str, str], tuple[Side, str, str]]:
    return (result.ungated, _WITHOUT, "without a gate"), (result.gated, _WITH, "with a gate")


def _durations(axes: Axes, result: DemoResult) -> None:
    """Each batch as a tooth: it rises for as long as the batch runs."""
    for side, colour, label in _sides(result):
        x, y = [], []
        for batch in side.batches:
            start, end = batch.started_at - side.began_at, batch.ended_at - side.began_at
            x += [start, end, end]
            y += [0.0, batch.duration_s, batch.duration_s if batch.running else 0.0]
        axes.plot(x, y, color=colour, linewidth=1.6, label=label, solid_joinstyle="round")
        axes.fill_between(x, y, color=colour, alpha=0.15, linewidth=0)
        for batch in side.batches:
            if batch.running:
                at = batch.ended_at - side.began_at, batch.duration_s
                axes.plot(*at, marker=">", markersize=8, color=colour)
    _target_line(axes, result)
    axes.set_title("How long the running batch has been running", loc="left", fontsize=11)
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False)


def _target_line(axes: Axes, result: DemoResult) -> None:
    target_line(axes, result.target_s)
    axes.annotate(
        f"target {result.target_s:g} s",
        (1.0, result.target_s),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=10,
    )


def _delays(axes: Axes, result: DemoResult) -> None:
    """The delay of the oldest row, at the end of each batch."""
    for side, colour, _ in _sides(result):
        x = [b.ended_at - side.began_at for b in side.batches]
        y = [b.delay_s for b in side.batches]
        axes.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=4.5)
        if side.batches:
            last = side.batches[-1]
            text = f"{last.delay_s:.0f} s and rising" if side.rising else f"{last.delay_s:.1f} s"
            axes.annotate(
                text,
                (x[-1], y[-1]),
                xytext=(-8, 6),
                textcoords="offset points",
                color=colour,
                fontweight="bold",
                ha="right",
                va="bottom",
            )
    axes.margins(y=0.18)
    axes.set_title("Delay: from a row's arrival to the end of its batch", loc="left", fontsize=11)
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)


def _kept(axes: Axes, result: DemoResult) -> None:
    """The share of its rows that each batch kept."""
    for side, colour, _ in _sides(result):
        ended = [b for b in side.batches if not b.running and b.arrived]
        x = [b.ended_at - side.began_at for b in ended]
        y = [100.0 * b.kept / b.arrived for b in ended]
        axes.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=3.5)
    axes.set_title("Rows kept", loc="left", fontsize=11)
    axes.set_ylabel("per cent")
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100])
    axes.set_xlabel("seconds since the run began")
    axes.set_xlim(left=0)
