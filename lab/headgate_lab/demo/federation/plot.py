"""The SIC of every query over time, one panel for each kind of shedding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.picture import picture
from headgate_lab.demo.federation.outcome import Outcome

__all__ = ["save_plot"]

#: Okabe and Ito's colours, which colour-blind people can tell apart.
_COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999")
_DASHES = ("-", "--", "-.", ":")
_TITLES = {
    "random": "random shedding",
    "balance-sic": "BALANCE-SIC, as published",
    "mirror": "Headgate (mirror)",
}


def save_plot(outcomes: Mapping[str, Outcome], path: Path) -> Path:
    """Draw them into a PNG file; its folder is made if need be."""
    with picture(path, 4.2 * len(outcomes) + 1.8, 4.8) as figure:
        panels = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
        lines = {}
        for axes, (shedding, outcome) in zip(panels, outcomes.items(), strict=True):
            figures = outcome.to_json()
            for number, (query, values) in enumerate(outcome.sic.items()):
                (lines[query],) = axes.plot(
                    outcome.times_s,
                    values,
                    color=_COLOURS[number % len(_COLOURS)],
                    linestyle=_DASHES[number // len(_COLOURS) % len(_DASHES)],
                    linewidth=1.7,
                )
            axes.axvspan(0, outcome.settle_s, color="#F4F4F4", zorder=0)
            title = f"{_TITLES.get(shedding, shedding)}\n"
            title += f"Jain {figures['jain']:.3f}, least {figures['min_sic']:.2f}"
            axes.set_title(title, loc="left", fontsize=11)
            axes.set_xlabel("seconds")
            axes.set_ylim(0, 1)
            axes.set_xlim(0, max(outcome.times_s[-1], 1.0))
        panels[0].set_ylabel("SIC: share of the source information in the result")
        figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False)
        figure.suptitle(
            "Seven queries on three sites with skewed load"
            + ("; the grey part does not count" if len(outcomes) > 1 else ""),
            x=0.012, ha="left", fontsize=13, fontweight="bold",
        )  # fmt: skip
    return path
