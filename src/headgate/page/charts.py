"""A job's two charts, as plain values that plotly.js draws: the delay against its target, and the rows.

Colours are names of the style sheet's variables (``--kept``); the page's script looks them up, so that
light and dark are the style sheet's business alone. Times are of the server's zone, as all words on the
page are.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from headgate.view.facts import Measure, measured_s, targets_in_force
from headgate.view.job import Job
from headgate.view.wording import count_text, seconds_text

__all__ = ["charts_of"]

_MEASURES: dict[Measure, str] = {
    "duration": "How long batches take",
    "delay": "Delay of the oldest row",
    "queue": "How long rows wait",
    "": "How long batches take",
}


def charts_of(job: Job) -> dict[str, dict[str, Any]]:
    """By the name of the place where it is drawn; none before there is a batch."""
    records = job.facts.records
    if not records:
        return {}
    times = [_instant(r.started_at + r.duration_s) for r in records]
    return {f"delay-{job.key}": _delay(job, times), f"rows-{job.key}": _rows(job, times)}


def _delay(job: Job, times: list[str]) -> dict[str, Any]:
    asked = job.facts.asked
    values = [measured_s(r, asked.measure) for r in job.facts.records]
    name = _MEASURES[asked.measure]
    shown = [None if v is None else round(v, 4) for v in values]
    data: list[dict[str, Any]] = [
        _line(times, shown, name, "--measured", "%{y:.2f} s"),
    ]
    said = f"{name}, batch by batch."
    known = [v for v in values if v is not None]
    if known:
        said += f" Last {seconds_text(known[-1])}, longest {seconds_text(max(known))}."
    targets = targets_in_force(job.facts.records, asked)
    held = [t for t in targets if t is not None]
    if held:
        data.append(_target(times, targets))
    if asked.target_s is not None:
        said += f" The target is {seconds_text(asked.target_s)}.{_changed(job, targets)}"
    most = max([*known, *held, asked.target_s or 0.0, 0.001])
    return {"data": data, "title": name, "unit": "seconds", "most": 1.1 * most, "said": said}


def _target(times: list[str], targets: Sequence[float | None]) -> dict[str, Any]:
    """What was to be held in each batch: a line of steps, of which only the corners are needed."""
    corners = [
        index
        for index, target in enumerate(targets)
        if index in (0, len(targets) - 1) or target != targets[index - 1] or target != targets[index + 1]
    ]
    drawn = _line([times[i] for i in corners], [targets[i] for i in corners], "target", "--target", "")
    # A batch stands where it ended: its target holds from the end of the one before to there.
    drawn["line"] |= {"dash": "dash", "shape": "vh"}
    return {**drawn, "hoverinfo": "skip"}


def _changed(job: Job, targets: Sequence[float | None]) -> str:
    """When the target was last changed, for those who do not see the line's steps."""
    steps = [at for at, (was, now) in enumerate(itertools.pairwise(targets), 1) if was != now]
    if not steps:
        return ""
    was = targets[steps[-1] - 1]
    before = "none or another kind" if was is None else seconds_text(was)
    return f" Before batch {job.facts.records[steps[-1]].batch:,} it was {before}."


def _rows(job: Job, times: list[str]) -> dict[str, Any]:
    records = job.facts.records
    unit = job.unit
    kept = _line(times, [r.kept for r in records], f"{unit} kept", "--kept", "%{y:,} kept")
    shed = _line(times, [r.shed for r in records], f"{unit} shed", "--shed", "%{y:,} shed")
    for one in (kept, shed):
        one |= {"stackgroup": "rows", "line": {"color": one["line"]["color"], "shape": "vh", "width": 0}}
        one["fillcolor"] = one["line"]["color"]
    said = (
        f"{unit.capitalize()} kept and shed, batch by batch. Of the last {len(records)} batches "
        f"{count_text(sum(kept['y']))} were kept and {count_text(sum(shed['y']))} shed."
    )
    title = f"{unit.capitalize()} of each batch"
    return {"data": [kept, shed], "title": title, "unit": unit, "most": None, "said": said}


def _line(times: list[str], values: list[Any], name: str, colour: str, hover: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": times,
        "y": values,
        "name": name,
        "line": {"color": colour, "width": 2},
        "hovertemplate": f"{hover}<extra></extra>",
    }


@lru_cache(maxsize=16_384)
def _instant(at: float) -> str:
    """As plotly.js reads it; most batches of a refresh were in the one before."""
    try:
        whole = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):  # a time that no clock shows is nowhere on the axis
        return ""
    return f"{whole}.{int(at % 1 * 1000):03d}"
