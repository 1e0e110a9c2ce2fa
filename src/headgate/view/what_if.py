"""What if the target had been another one? The answers in words, on the page and in a terminal.

The engine is `headgate.whatif`: the recorded rows come once more in virtual time, at the prices that the
records show, and the shipped controller and policy decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.view.wording import count_text, seconds_text, share_text
from headgate.whatif.answer import Answer, Check, ask
from headgate.whatif.forecast import Forecast, Outcome
from headgate.whatif.ledger_log import recorded_by_ledger, target_that_held
from headgate.whatif.recording import LEAST_BATCHES

__all__ = [
    "LEAST_BATCHES",
    "WhatIf",
    "check_sentence",
    "forecast_sentence",
    "groups_sentence",
    "range_text",
    "what_if",
]

#: More would take longer than somebody waits in front of a page.
MOST_BATCHES, _RUNS = 4000, 3


@dataclass(frozen=True)
class WhatIf:
    """As it was recorded, and in virtual time with the settings that hold and with those asked about."""

    answer: Answer
    #: What was recorded, and the present settings in virtual time.
    recorded: Outcome
    held: Outcome
    target_s: float
    asked_s: float
    #: What was otherwise while the batches ran, in words.
    changed: str = ""

    @property
    def asked(self) -> Outcome:
        """What the target that was asked about would have done."""
        return self.answer.forecasts[0].outcome

    @property
    def sentence(self) -> str:
        """The answer in words."""
        forecast = self.answer.forecasts[0]
        groups = groups_sentence(forecast)
        return (
            f"In these {len(self.answer.recording.batches):,} batches with "
            f"{count_text(self.answer.recording.rows)} rows, a target of {seconds_text(self.asked_s)} "
            f"would have kept about {share_text(self.asked.kept)} of the rows "
            f"({range_text(forecast.low.kept, forecast.high.kept)} in {forecast.runs} virtual runs), "
            f"with {share_text(self.asked.inside or 0.0)} of the batches inside it. "
            + (f"{groups} " if groups else "")
            + f"The target of {seconds_text(self.target_s)} keeps {share_text(self.held.kept)} in the "
            f"same virtual time; {share_text(self.recorded.kept)} were kept in fact"
            + (f", where {self.changed}." if self.changed else ".")
        )


def what_if(records: Sequence[Record], settings: GateSettings, target_s: float) -> WhatIf:
    """The records of a time once more, with another target of the same kind.

    >>> from headgate.core.plan import KEEP_ALL
    >>> batches = [
    ...     Record("g", "q", n, 20_000, 20_000, 0, KEEP_ALL, started_at=100.0 + 2 * n, duration_s=1.5)
    ...     for n in range(60)
    ... ]
    >>> found = what_if(batches, GateSettings(hold="2 seconds"), 1.0)
    >>> found.recorded.kept, found.asked.kept < 0.8 < found.held.kept
    (1.0, True)
    """
    if settings.target_s is None:
        raise BadArgument(
            "a gate with a fixed share has no target to ask about: set hold or delay first"
        )
    recording = recorded_by_ledger(records, MOST_BATCHES)
    kind = "delay" if settings.delay is not None else "hold"
    asked = settings.changed({kind: target_s, "mode": "shed"})
    then, changed = target_that_held(records, settings)
    if then is not None and then.target_of == settings.target_of:
        settings = then
    held = settings.changed({"mode": "shed"})
    answer = ask(recording, [asked], was=held, runs=_RUNS)
    assert answer.check is not None  # a ledger has batches
    held_then = answer.check.foretold.outcome
    assert settings.target_s is not None
    return WhatIf(answer, answer.check.fact, held_then, settings.target_s, target_s, changed)


def range_text(low: float, high: float) -> str:
    """A range of shares; one figure where both are the same.

    >>> range_text(0.031, 0.045), range_text(1.0, 1.0)
    ('3.1 to 4.5 %', '100 %')
    """
    first, last = share_text(low), share_text(high)
    if first == last:
        return first
    return f"{first.removesuffix(' %')} to {last}" if first.endswith(" %") else f"{first} to {last}"


def forecast_sentence(answer: Answer, forecast: Forecast) -> str:
    """What one target would have done, and how sure that is."""
    made, low, high = forecast.outcome, forecast.low, forecast.high
    settings = forecast.settings
    assert settings is not None
    assert settings.target_s is not None
    kind = "a delay of" if settings.delay is not None else "batches of"
    sentence = (
        f"With {kind} at most {seconds_text(settings.target_s)}, "
        f"{share_text(1.0 - made.kept)} of the rows would have been shed "
        f"({range_text(1.0 - high.kept, 1.0 - low.kept)} in {forecast.runs} virtual runs); "
        f"{share_text(made.inside or 0.0)} of the batches would have been inside the target"
    )
    if made.p95_delay_s is not None and low.p95_delay_s is not None and high.p95_delay_s is not None:
        sentence += (
            f", and 95 % of them would have had a delay of at most {seconds_text(made.p95_delay_s)} "
            f"({seconds_text(low.p95_delay_s)} to {seconds_text(high.p95_delay_s)})"
        )
    return f"{sentence}."


def groups_sentence(forecast: Forecast) -> str:
    """From which groups rows would have been shed; empty where groups are not known."""
    parts = [
        f"{share_text(1.0 - group.kept / group.arrived)} of {group.name}"
        for group in forecast.groups
        if group.arrived > 0
    ]
    return f"Shed: {', '.join(parts)}." if parts else ""


def check_sentence(check: Check) -> str:
    """How the model does on what really happened."""
    made, fact = check.foretold.outcome, check.fact
    if check.settings is None:
        return (
            "Check: with every row kept, as it was, the model has batches of "
            f"{seconds_text(made.p50_s)} (95 % up to {seconds_text(made.p95_s)}); in fact they took "
            f"{seconds_text(fact.p50_s)} ({seconds_text(fact.p95_s)})."
        )
    return (
        f"Check: with the target that held, {seconds_text(check.settings.target_s or 0.0)}, the model "
        f"keeps {share_text(made.kept)} with {share_text(made.inside or 0.0)} of the batches inside; in "
        f"fact {share_text(fact.kept)} were kept, with {share_text(fact.inside or 0.0)} inside."
    )
