"""A view as HTML: Jinja2 templates that escape all they are given, with the words of `headgate.view`."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from headgate.page.asking import hours_of
from headgate.settings import MODES
from headgate.view.facts import target_in_force
from headgate.view.job import Job
from headgate.view.observer import View
from headgate.view.wording import ago_text, clock_text, count_text, seconds_text, share_text

__all__ = ["LEVELS", "render_page", "render_panels"]

#: A level in a word or two, as the badges show it; the colour only repeats it.
LEVELS = {
    "healthy": "Healthy",
    "shedding": "Shedding, and holding",
    "attention": "Needs a look",
    "trouble": "In trouble",
    "waiting": "Waiting",
    "stopped": "Stopped",
    "unknown": "Unknown",
}
#: Batches in the table beside the charts.
_TABLE = 12


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("headgate.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(count=count_text, share=share_text, seconds=seconds_text, ago=ago_text)
    made.globals.update(levels=LEVELS, modes=MODES)
    return made


def render_panels(view: View, *, read_only: bool) -> str:
    """What changes from look to look: the verdict, the jobs, the sites."""
    return _environment().get_template("panels.html").render(_context(view, read_only))


def render_page(
    view: View | None, *, read_only: bool, refresh_s: float, styles_left_out: str = ""
) -> str:
    """The whole page; without a view only its frame, for whoever has still to give a token.

    `styles_left_out` is the id of styles that plotly.js is to believe in the page already.
    """
    context = {"view": None} if view is None else _context(view, read_only)
    frame = {"refresh_ms": round(1000 * refresh_s), "styles_left_out": styles_left_out}
    return _environment().get_template("page.html").render(context | frame)


def _context(view: View, read_only: bool) -> dict[str, Any]:
    return {
        "view": view,
        "read_only": read_only,
        "zone": time.strftime("%Z"),
        "clock": lambda at: clock_text(at, view.at),
        "hours": lambda job: hours_of(job, view.at),
        "table": _table,
        "target_name": _target_name,
        "named_by_verdict": _named_by_verdict,
    }


def _named_by_verdict(view: View) -> Job | None:
    """The query that the first line is about, where there are several: its card may be far below."""
    said = view.verdict
    about = (
        job
        for job in view.jobs
        if job.verdict.level == said.level
        and said.sentence.startswith(f"{job.name}: {job.verdict.sentence}")
    )
    return next(about, None) if len(view.jobs) > 1 else None


def _table(job: Job) -> list[dict[str, Any]]:
    """The latest batches, newest first: what the charts show, for whoever cannot see them."""
    return [
        {
            "record": record,
            "target_s": target_in_force(record, job.facts.asked),
        }
        for record in reversed(job.facts.records[-_TABLE:])
    ]


def _target_name(job: Job) -> str:
    """The setting that holds the target: what a change on the page is written to."""
    asked = job.facts.asked
    return "rate" if asked.rate is not None else "delay" if asked.measure == "delay" else "hold"
