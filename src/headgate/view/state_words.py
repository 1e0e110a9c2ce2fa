"""The controller's state in words, and since when it is so."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.store.ledger.record import Record
from headgate.view.facts import Asked, measured_s, target_in_force
from headgate.view.wording import count_text, share_text

__all__ = ["StateWords", "state_words"]

#: Batches whose kept shares are compared to tell whether shedding is on its way out, and by how much
#: the later ones must exceed the earlier ones.
_COMPARED, _RISING = 3, 1.1
#: "released" is said for so many batches after the last that shed.
_REMEMBERED = 30


@dataclass(frozen=True)
class StateWords:
    """A word for the state, and a sentence that explains it to somebody who is new to it."""

    word: str
    sentence: str
    #: The first batch of the latest ones that are in this state, when it began, and whether it may have
    #: been so before: the records that are looked at begin there.
    since_batch: int | None = None
    since_at: float | None = None
    longer: bool = False


def state_words(records: Sequence[Record], asked: Asked) -> StateWords:
    """The state after the last batch."""
    if not records:
        return StateWords("waiting", "No batch has ended yet.")
    last = records[-1]
    first = _first_of_state(records)
    word, sentence = _words(records, last, asked)
    began = records[first]
    return StateWords(word, sentence, began.batch, began.started_at, first == 0 < began.batch)


def _first_of_state(records: Sequence[Record]) -> int:
    last, first = records[-1], len(records) - 1
    while first > 0 and _alike(records[first - 1], last):
        first -= 1
    return first


def _alike(record: Record, last: Record) -> bool:
    return (record.state, record.mode) == (last.state, last.mode)


def _words(records: Sequence[Record], last: Record, asked: Asked) -> tuple[str, str]:
    if last.state == "fault":
        return (
            "fault",
            "The controller or the policy fails; the books go on, and each batch tries again.",
        )
    if last.state == "futile":
        return (
            "futile: the sink is slow",
            "Shedding did not shorten the batches, so it stopped. The time goes elsewhere: look at the "
            "sink, the state store and the stages, or raise the target.",
        )
    if last.state == "fixed":
        return "fixed", f"A fixed share of {share_text(last.plan.default)} is kept, whatever comes."
    if last.mode == "off":
        return "off", "Every row is kept; rows are only measured."
    if last.mode == "monitor" and last.kind != "guard":
        would = count_text(last.would_shed) if last.would_shed else "none"
        return (
            "monitoring",
            f"Every row is kept; in mode shed it would have shed {would} of the last batch's rows.",
        )
    if last.state == "min_keep":
        least = "" if asked.min_keep is None else f" ({share_text(asked.min_keep)})"
        return "at the least share", f"It sheds as much as it may: no less than min keep{least} is kept."
    if last.state == "shedding":
        return _while_shedding(records, last, asked)
    if last.state == "idle":
        return _while_idle(records)
    return last.state or "unknown", last.why or "The controller says no more."


def _while_shedding(records: Sequence[Record], last: Record, asked: Asked) -> tuple[str, str]:
    if _releasing(records):
        return "releasing", "The load falls: from batch to batch more rows are kept."
    value, target_s = measured_s(last, asked.measure), target_in_force(last, asked)
    if target_s is not None and value is not None and value > target_s:
        return "catching up", "It sheds, and the last batch was still over the target."
    held = "so that the target is held" if asked.target_s is not None else "as it was asked to"
    return "holding", f"More comes than fits; it sheds {held}."


def _while_idle(records: Sequence[Record]) -> tuple[str, str]:
    shed_before = [r for r in records[-_REMEMBERED:] if r.shed > 0]
    if shed_before and records[-1].shed == 0:
        return "released", f"Everything is kept again since batch {shed_before[-1].batch + 1:,}."
    if shed_before:
        return "releasing", "The next batch fits whole."
    return "idle", "Everything fits and is kept."


def _releasing(records: Sequence[Record]) -> bool:
    shares = [r.kept / r.arrived for r in records[-2 * _COMPARED :] if r.arrived > 0]
    if len(shares) < 2 * _COMPARED:
        return False
    before, after = shares[:_COMPARED], shares[_COMPARED:]
    rises = all(b >= a for a, b in itertools.pairwise(after))
    return rises and sum(after) > _RISING * sum(before)
