"""Is it flat? Each gauge's second half against itself, in words and numbers, and drawn over time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from headgate.picture import picture
from tests.soak.gauges import Reading

__all__ = ["Verdict", "draw", "verdicts"]

#: What each gauge may gain from the third fifth of a run to its last fifth: a share, and an amount that
#: is noise at any level (the JVM's caches fill slowly, a segment of the ledger is full or new).
_MAY_GAIN = {
    "heap": (0.10, 15.0),
    "python_rss": (0.05, 10.0),
    "threads": (0.0, 3.0),
    "java_threads": (0.05, 6.0),
    "open_files": (0.0, 5.0),
    "java_open_files": (0.05, 10.0),
    "control_files": (0.10, 20.0),
    "control_mib": (0.15, 2.0),
}


@dataclass(frozen=True)
class Verdict:
    """One gauge over a run."""

    gauge: str
    first: float
    middle: float
    last: float
    allowed: float

    @property
    def flat(self) -> bool:
        """Whether it stopped growing."""
        return self.last <= self.allowed


def verdicts(readings: Sequence[Reading]) -> list[Verdict]:
    """The third fifth of the run against its last fifth, each by its median."""
    fifth = max(1, len(readings) // 5)
    middle, last = readings[2 * fifth : 3 * fifth], readings[-fifth:]
    found = []
    for gauge, (share, amount) in _MAY_GAIN.items():
        before = statistics.median(getattr(r, gauge) for r in middle)
        after = statistics.median(getattr(r, gauge) for r in last)
        first = float(getattr(readings[0], gauge))
        found.append(Verdict(gauge, first, before, after, before * (1 + share) + amount))
    return found


_TITLES = {
    "heap": "driver's heap after a collection, MiB",
    "python_rss": "Python's resident memory, MiB",
    "threads": "threads of Python",
    "java_threads": "threads of the JVM",
    "open_files": "open files of Python",
    "java_open_files": "open files of the JVM",
    "control_files": "files in the control folder",
    "control_mib": "control folder, MiB",
}


def draw(readings: Sequence[Reading], path: Path, title: str) -> None:
    """Eight small pictures over the batches."""
    assert set(_TITLES) == {f.name for f in fields(Reading)} - {"seconds", "batches"}
    with picture(path, 11, 9) as figure:
        figure.suptitle(title)
        for axes, (gauge, label) in zip(figure.subplots(4, 2).flat, _TITLES.items(), strict=True):
            axes.plot(
                [r.batches for r in readings], [getattr(r, gauge) for r in readings], color="#2F6DB5"
            )
            axes.set_ylim(bottom=0)
            axes.set_title(label, fontsize=10, loc="left")
        axes.set_xlabel("batches")
