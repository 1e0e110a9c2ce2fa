"""The peers as a picture: how late rows were, and what was kept of them, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.picture import picture, target_line
from headgate_lab.bench.hold.setting import Ran

__all__ = ["save_plot"]

#: Okabe and Ito's palette, which colour-blind people can tell apart.
_COLOURS = {"nothing": "#D55E00", "cap": "#E69F00", "filter": "#009E73", "headgate": "#0072B2"}


def save_plot(runs: Mapping[str, Ran], load: float, target_s: float, path: Path) -> Path:
    """Draw the runs of one load into a file; its folder is made if need be."""
    with picture(path, 10, 6.4) as figure:
        delays, kept = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.3])
        for peer, ran in runs.items():
            colour = _COLOURS[peer]
            batches = ran.answered.batches
            x = [b.ended_at - ran.began for b in batches]
            delays.plot(x, [b.delay_s for b in batches], color=colour, marker="o", label=peer)
            ended = [b for b in batches if not b.running and b.arrived]
            shares = [100.0 * b.kept / b.arrived for b in ended]
            kept.plot([b.ended_at - ran.began for b in ended], shares, color=colour, marker="o")
        target_line(delays, target_s)
        delays.set_yscale("log")
        delays.set_title("Delay of a batch's oldest row, at its end", loc="left", fontsize=11)
        delays.set_ylabel("seconds")
        delays.legend(loc="upper left", frameon=False)
        kept.set_title("Rows kept", loc="left", fontsize=11)
        kept.set_ylabel("per cent")
        kept.set_ylim(0, 108)
        kept.set_xlabel("seconds since the first row")
        figure.suptitle(
            f"The same rows at {load:g} times capacity", x=0.012, ha="left", fontweight="bold"
        )
    return path
