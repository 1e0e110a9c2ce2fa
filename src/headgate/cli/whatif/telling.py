"""The answer of `headgate whatif` in words, as a table, and as JSON."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from rich.table import Table

from headgate.cli.tables import console, table
from headgate.cli.whatif.input import WhatIfInput
from headgate.view.what_if import (
    check_sentence,
    forecast_sentence,
    groups_sentence,
    range_text,
)
from headgate.view.wording import count_text, seconds_text, share_text
from headgate.whatif.answer import Answer
from headgate.whatif.costs import Costs
from headgate.whatif.forecast import Forecast, Outcome
from headgate.whatif.recording import Recording

__all__ = ["as_json", "tell"]


def tell(input_: str, read: WhatIfInput, answer: Answer) -> None:
    """Print the answer for people."""
    out = console()

    def say(text: str, style: str | None = None) -> None:
        out.print(text, soft_wrap=True, markup=False, style=style)

    recording = answer.recording
    whose = f" of gate {read.gate}" if read.gate else ""
    say(
        f"{input_}: {len(recording.batches):,} {'batches' if recording.batched else 'stretches'}"
        f"{whose}, {_when(recording)}, {count_text(recording.rows)} rows"
    )
    if len(answer.forecasts) == 1:
        forecast = answer.forecasts[0]
        say(forecast_sentence(answer, forecast))
        groups = groups_sentence(forecast)
        say(groups or "From which groups is not known: they were not counted.")
        fact = answer.fact_for(forecast)
        if fact is not None:
            say(_fact_sentence(fact))
    else:
        out.print(_sweep_table(answer))
    say(_cost_sentence(answer.costs))
    if answer.check is not None:
        say(check_sentence(answer.check))
    for warning in answer.warnings:
        say(f"Note: {warning}.", "yellow")


def _when(recording: Recording) -> str:
    first, last = recording.batches[0].started_at, recording.batches[-1].started_at
    if first < 1e8:  # seconds since a beginning of the trace's own
        return seconds_text(recording.span_s)
    began, ended = (time.localtime(t) for t in (first, last))
    same_day = began[:3] == ended[:3]
    return (
        f"{time.strftime('%d %b %Y %H:%M:%S', began)} to "
        f"{time.strftime('%H:%M:%S' if same_day else '%d %b %H:%M:%S', ended)}"
    )


def _fact_sentence(fact: Outcome) -> str:
    text = f"In fact {share_text(1.0 - fact.kept)} of the rows were shed"
    if fact.inside is not None:
        text += f" and {share_text(fact.inside)} of the batches were inside that target"
    if fact.p95_delay_s is not None:
        text += f", 95 % with a delay of at most {seconds_text(fact.p95_delay_s)}"
    return f"{text}."


def _cost_sentence(costs: Costs) -> str:
    fixed, kept, arrived = costs.usual()
    return (
        f"A batch takes {seconds_text(fixed)}, {1e6 * kept:.3g} µs for each row kept and "
        f"{1e6 * arrived:.2g} µs for each that arrives; batches miss that by {100 * costs.noise:.0f} %."
    )


def _sweep_table(answer: Answer) -> Table:
    made = table(None, "target", "kept", "<in all runs", "inside", "p95 batch", "p95 delay", "longest")
    for forecast in answer.forecasts:
        found, delay = forecast.outcome, forecast.outcome.p95_delay_s
        made.add_row(
            seconds_text(forecast.target_s or 0.0),
            share_text(found.kept),
            range_text(forecast.low.kept, forecast.high.kept),
            share_text(found.inside or 0.0),
            seconds_text(found.p95_s),
            "" if delay is None else seconds_text(delay),
            seconds_text(found.longest_s),
        )
    return made


def as_json(input_: str, read: WhatIfInput, answer: Answer, picture: str | None) -> dict[str, Any]:
    """The answer for programs, as docs/json.md has it."""
    recording, costs = answer.recording, answer.costs
    fixed, kept, arrived = costs.usual()
    check = answer.check
    return {
        "input": {
            "given": input_,
            "kind": recording.kind,
            "gate": read.gate,
            "query": read.query,
            "batches": len(recording.batches),
            "left_out": recording.left_out,
            "rows": recording.rows,
            "first_at": recording.batches[0].started_at,
            "last_at": recording.batches[-1].started_at,
            "trigger_s": recording.trigger_s,
            "source_cap": recording.source_cap,
            "outages": len(recording.outages),
            "groups": list(recording.labels.values()),
        },
        "cost": {
            "fixed_s": fixed,
            "per_kept_s": kept,
            "per_arrived_s": arrived,
            "noise": costs.noise,
            "fitted": costs.covariance is not None,
            "untold": dict(costs.untold),
        },
        "forecasts": [_forecast_json(answer, forecast) for forecast in answer.forecasts],
        "check": None
        if check is None
        else {
            "target_s": None if check.settings is None else check.settings.target_s,
            "foretold": asdict(check.foretold.outcome),
            "in_fact": asdict(check.fact),
            "fits": check.fits,
        },
        "warnings": list(answer.warnings),
        "plot": picture,
    }


def _forecast_json(answer: Answer, forecast: Forecast) -> dict[str, Any]:
    settings, fact = forecast.settings, answer.fact_for(forecast)
    return {
        "target": "delay" if settings is not None and settings.delay is not None else "hold",
        "target_s": forecast.target_s,
        "runs": forecast.runs,
        "mean": asdict(forecast.outcome),
        "low": asdict(forecast.low),
        "high": asdict(forecast.high),
        "groups": [
            {"group": g.name, "arrived": round(g.arrived), "kept": round(g.kept)}
            for g in forecast.groups
        ],
        "in_fact": None if fact is None else asdict(fact),
        "sentence": forecast_sentence(answer, forecast),
    }
