"""`status`: how every gate of a control store fares, as an object that a notebook shows as a table.

The same facts and words as on the page and in `headgate top`, read once, when it is called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from headgate.store.folder import used_control_folder
from headgate.store.places.place import Place
from headgate.view.facts import measured_s
from headgate.view.gate_status import gates_status
from headgate.view.job import Job
from headgate.view.observer import Observer, View
from headgate.view.wording import clock_text, count_text, seconds_text, share_text

__all__ = ["Status", "status"]

#: The levels as signs that need no colour.
_SIGNS = {"healthy": "\u2713", "shedding": "\u2198", "attention": "!", "trouble": "\u2717"}
_HEADS = ("gate", "query", "state", "last batch", "target", "rows/s", "kept", "shed in all", "why")
#: Batches in the small chart, and its size.
_CHARTED, _WIDE, _HIGH = 60, 120, 24
_CELL = "text-align:left;padding:2px 10px 2px 0;border-bottom:1px solid rgba(128,128,128,.4)"


def status(control: str | os.PathLike[str] | Place, *, clock: Callable[[], float] = time.time) -> Status:
    """How every gate, guard and join of a control store fares now, and why.

    In a notebook it shows itself as a table with a small chart for each query, and elsewhere as text.
    It is a look and does not follow: call it again for another.

    >>> import headgate as hg, tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     hg.status(empty)
    Traceback (most recent call last):
    headgate.errors.ControlFolderError: no gate has used the folder ...
    """
    place = used_control_folder(control)
    return Status(Observer(place, clock).look(), place)


@dataclass(frozen=True, repr=False)
class Status:
    """One look at a control store.

    >>> import headgate as hg, pathlib, tempfile
    >>> from headgate.settings import GateSettings
    >>> from headgate.store.settings_file import SettingsFile
    >>> with tempfile.TemporaryDirectory() as control:
    ...     _ = SettingsFile(pathlib.Path(control), "rides").declare(GateSettings(hold=2))
    ...     status = hg.status(control)  # a gate was built, and no query runs yet
    >>> isinstance(status, hg.Status), status.level
    (True, 'waiting')
    """

    _view: View
    _place: Place = field(compare=False)

    @property
    def level(self) -> str:
        """The worst of all queries: healthy, shedding, attention, trouble, waiting or stopped."""
        return self._view.verdict.level

    @property
    def sentence(self) -> str:
        """Why it is so."""
        return self._view.verdict.sentence

    def to_json(self) -> list[dict[str, Any]]:
        """Every gate as `headgate status --json` prints it, read anew and judged as of this look."""
        return gates_status(self._place, self._view.at)

    def __repr__(self) -> str:
        lines = [f"{self.level}: {self.sentence}"]
        for job in self._view.jobs:
            told = [f"{head} {text}" for head, text in zip(_HEADS[3:-1], _cells(job)[3:-1], strict=True)]
            lines.append(f"  {job.name} ({job.facts.query[:8]}): {job.state.word}; {', '.join(told)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table of its own, in the notebook's colours, whatever they are; every text is escaped."""
        view = self._view
        signs = escape(_SIGNS.get(self.level, "\u2022"))
        heads = "".join(f'<th scope="col" style="{_CELL}">{escape(head)}</th>' for head in _HEADS)
        return (
            f"<div><p><strong>{signs} {escape(self.level)}</strong>: {escape(self.sentence)}</p>"
            f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{''.join(_row(job) for job in view.jobs)}</tbody></table>"
            f"<p><small>{escape(view.control)} at {escape(clock_text(view.at, view.at))}"
            f"{f'; {view.older} older queries are not shown' if view.older else ''}</small></p></div>"
        )


def _cells(job: Job) -> list[str]:
    asked = job.facts.asked
    share = job.kept_share
    unit = "" if job.unit == "rows" else f" {job.unit}"
    return [
        job.name,
        job.facts.query[:8],
        f"{_SIGNS.get(job.verdict.level, chr(0x2022))} {job.state.word}",
        "-" if job.measured_s is None else seconds_text(job.measured_s),
        asked.target or ("-" if asked.target_s is None else seconds_text(asked.target_s)),
        "-" if job.arrived_per_s is None else count_text(job.arrived_per_s) + unit,
        "-" if share is None else share_text(share),
        count_text(job.books.shed) + unit,
        job.verdict.sentence,
    ]


def _row(job: Job) -> str:
    cells = [escape(text) for text in _cells(job)]
    cells[3] += _chart(job)
    styles = [f"{_CELL};white-space:nowrap"] * (len(cells) - 1) + [_CELL]
    made = (f'<td style="{style}">{cell}</td>' for style, cell in zip(styles, cells, strict=True))
    return "<tr>" + "".join(made) + "</tr>"


def _chart(job: Job) -> str:
    """The latest batches against the target, in the colour of the text."""
    asked = job.facts.asked
    values = [v for v in _measured(job) if v is not None]
    if len(values) < 2:
        return ""
    top = max(*values, asked.target_s or 0.0) or 1.0
    step = _WIDE / (len(values) - 1)
    points = " ".join(f"{i * step:.1f},{_HIGH - _HIGH * v / top:.1f}" for i, v in enumerate(values))
    line = ""
    if asked.target_s is not None:
        y = f"{_HIGH - _HIGH * asked.target_s / top:.1f}"
        line = (
            f'<line x1="0" y1="{y}" x2="{_WIDE}" y2="{y}" stroke="currentColor" '
            'stroke-opacity=".5" stroke-dasharray="3 3"/>'
        )
    told = escape(f"the last {len(values)} batches, at most {seconds_text(max(values))}", quote=True)
    return (
        f'<br><svg role="img" aria-label="{told}" width="{_WIDE}" height="{_HIGH + 2}" '
        f'viewBox="0 -1 {_WIDE} {_HIGH + 2}">{line}'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _measured(job: Job) -> Iterator[float | None]:
    for record in job.facts.records[-_CHARTED:]:
        yield measured_s(record, job.facts.asked.measure)
