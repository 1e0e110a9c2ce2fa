"""A what-if as a picture: the curve over targets, or one target batch by batch beside what was."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import BadArgument, MissingExtra
from headgate.picture import picture, target_line
from headgate.view.wording import seconds_text, share_text
from headgate.whatif.answer import Answer
from headgate.whatif.forecast import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_plot", "save_plot"]

#: Okabe and Ito's orange and blue, which colour-blind people can tell apart.
_FACT, _ASKED = "#D55E00", "#0072B2"
_KINDS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn, before anybody has waited for it."""
    if path.suffix.lower() not in _KINDS:
        raise BadArgument(f"--plot {str(path)!r}: give a file that ends in {', '.join(_KINDS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plot")
    path.parent.mkdir(parents=True, exist_ok=True)


def save_plot(answer: Answer, path: Path) -> Path:
    """Draw the answer; its folder is made if need be."""
    many = len(answer.forecasts) > 1
    with picture(path, 9, 5.2 if many else 6.4) as figure:
        if many:
            _curve(figure.subplots(), answer)
            title = f"{len(answer.recording.batches):,} recorded batches under other targets"
        else:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
            forecast = answer.forecasts[0]
            _lengths(above, answer, forecast)
            _kept(below, answer, forecast)
            title = (
                f"A target of {seconds_text(forecast.target_s or 0.0)} would have shed "
                f"{share_text(1.0 - forecast.outcome.kept)} of the rows"
            )
        figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold")
    return path


def _curve(axes: Axes, answer: Answer) -> None:
    """The share of rows kept and the share of batches inside, against the target."""
    asked = sorted(answer.forecasts, key=lambda f: f.target_s or 0.0)
    x = [f.target_s or 0.0 for f in asked]
    for name, label, colour in (
        ("kept", "rows kept", _ASKED),
        ("inside", "batches inside the target", _FACT),
    ):
        middle, low, high = (
            [100.0 * (getattr(getattr(f, which), name) or 0.0) for f in asked]
            for which in ("outcome", "low", "high")
        )
        axes.plot(x, middle, color=colour, marker="o", markersize=5, linewidth=1.8, label=label)
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{target:g} s" for target in x])
    axes.minorticks_off()
    axes.set_ylim(0, 105)
    axes.set_ylabel("per cent")
    axes.set_xlabel(f"target; shaded: the least and the most of {asked[0].runs} virtual runs")
    axes.legend(frameon=False, loc="lower right")


def _lengths(axes: Axes, answer: Answer, forecast: Forecast) -> None:
    """What the target is about, batch by batch: durations, or delays."""
    by_delay = forecast.settings is not None and forecast.settings.delay is not None
    recording = answer.recording
    seen = [
        (b.started_at - recording.origin, value)
        for b in recording.judged
        if (value := b.delay_s if by_delay else b.duration_s) is not None
    ]
    if seen:
        axes.plot(*zip(*seen, strict=True), color=_FACT, linewidth=1.2, label="as it was")
    x = [b.start for b in forecast.batches]
    y = [b.delay if by_delay else b.duration for b in forecast.batches]
    axes.plot(x, y, color=_ASKED, linewidth=1.2, label="with the target, one virtual run")
    target_line(axes, forecast.target_s or 0.0)
    what = "Delay of a batch's oldest row" if by_delay else "How long batches take"
    axes.set_title(what, loc="left", fontsize=11)
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper right")


def _kept(axes: Axes, answer: Answer, forecast: Forecast) -> None:
    """The share of its rows that each batch keeps."""
    recording = answer.recording
    if recording.batched:
        seen = [(b.started_at - recording.origin, 100.0 * b.kept / b.arrived) for b in recording.judged]
        axes.plot(*zip(*seen, strict=True), color=_FACT, linewidth=1.2)
    made = [(b.start, 100.0 * b.kept / b.arrived) for b in forecast.batches if b.arrived]
    axes.plot(*zip(*made, strict=True), color=_ASKED, linewidth=1.2)
    axes.set_title("Rows kept", loc="left", fontsize=11)
    axes.set_ylabel("per cent")
    axes.set_ylim(0, 108)
    axes.set_xlabel("seconds since the recording began")
