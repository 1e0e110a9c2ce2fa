"""Is the job healthy? One level and one sentence, for a query and for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.store.lease import GONE_S
from headgate.store.ledger.record import Record
from headgate.view.facts import Asked, JobFacts, measured_s, targets_in_force
from headgate.view.state_words import StateWords
from headgate.view.wording import ago_text, seconds_text, share_text

__all__ = ["JUDGED", "LEVELS", "Level", "Verdict", "inside_share", "judge", "judge_all"]

Level = Literal["healthy", "shedding", "attention", "trouble", "waiting", "stopped", "unknown"]
#: The worst first.
LEVELS: tuple[Level, ...] = (
    "trouble",
    "unknown",
    "attention",
    "shedding",
    "healthy",
    "waiting",
    "stopped",
)
#: Batches that are judged; of fewer than half of them inside the target it is said that it is not held.
JUDGED, _HELD = 10, 0.5
#: A batch that has run for so many targets is worth a word.
_LONG = 3.0


@dataclass(frozen=True)
class Verdict:
    """A level, and why."""

    level: Level
    sentence: str


def inside_share(records: Sequence[Record], asked: Asked) -> float | None:
    """The share of these batches that held the target of their time; None where there was none."""
    held = [
        value <= target_s
        for r, target_s in zip(records, targets_in_force(records, asked), strict=True)
        if r.arrived > 0 and target_s is not None and (value := measured_s(r, asked.measure)) is not None
    ]
    return sum(held) / len(held) if held else None


def judge(facts: JobFacts, state: StateWords, now: float) -> Verdict:
    """The worst that is to be said of one gate, guard or join in one query."""
    if facts.fault:
        return Verdict("trouble", f"What the store has of it cannot be read: {facts.fault}.")
    return (
        _of_its_driver(facts, now)
        or _of_its_books(facts)
        or _of_its_settings(facts)
        or _of_its_target(facts, state, now)
        or Verdict("healthy", state.sentence)
    )


def _of_its_driver(facts: JobFacts, now: float) -> Verdict | None:
    if facts.holder is not None and facts.holder.released:
        if facts.holder.failed:
            return Verdict("trouble", "The query failed; nobody runs it now.")
        return Verdict("stopped", "The query was stopped.")
    age = facts.heartbeat_age_s
    if age is None:
        return None if facts.records else Verdict("waiting", "No query has run yet.")
    if age >= GONE_S:
        closed = facts.asked.on_failure == "closed" and facts.asked.mode == "shed"
        fails = "keeps only its min keep" if closed else "keeps every row"
        running = "" if facts.kind == "guard" else f" A query that still runs {fails}."
        return Verdict(
            "trouble", f"No driver has been heard of for {ago_text(age)}: nobody steers it.{running}"
        )
    if facts.records:
        return None
    said = "The query runs; no batch has ended yet."
    return Verdict("waiting", said if facts.first_batch is None else facts.first_batch.words(now))


def _of_its_books(facts: JobFacts) -> Verdict | None:
    last = facts.records[-1]
    if last.origin in ("fail-open", "fail-closed"):
        kept = "every row" if last.origin == "fail-open" else "only min keep"
        return Verdict(
            "trouble",
            f"The last batch could not get its plan and failed {last.origin[5:]}: it kept {kept}.",
        )
    judged = facts.records[-JUDGED:]
    if any(not r.balanced for r in judged):
        return Verdict("trouble", "The books do not balance: run `headgate ledger verify`.")
    doubtful = [r for r in judged if r.evidence.doubt]
    if doubtful:
        return Verdict(
            "attention",
            f"The counts of {len(doubtful)} of the last {len(judged)} batches are doubtful: "
            f"{doubtful[-1].evidence.doubt}.",
        )
    return None


def _of_its_settings(facts: JobFacts) -> Verdict | None:
    if facts.asked.fault:
        return Verdict("trouble", f"Its settings cannot be read: {facts.asked.fault}.")
    return None


def _of_its_target(facts: JobFacts, state: StateWords, now: float) -> Verdict | None:
    asked, records = facts.asked, facts.records
    last, target_s = records[-1], asked.target_s
    if last.state in ("fault", "futile"):
        return Verdict("trouble", state.sentence)
    if facts.running_since is not None and target_s is not None:
        lasts = now - facts.running_since
        if lasts > max(10.0, _LONG * target_s):
            return Verdict(
                "attention",
                f"Batch {last.batch + 1:,} has been running for {seconds_text(lasts)}; the target is "
                f"{seconds_text(target_s)}.",
            )
    judged = records[-JUDGED:]
    inside = inside_share(judged, asked)
    shed = sum(r.shed for r in judged)
    arrived = sum(r.arrived for r in judged)
    if inside is not None and inside < _HELD and target_s is not None:
        how_many = f"{share_text(1 - inside)} of the last {len(judged)} batches"
        said = f"The target of {seconds_text(target_s)} is not held: {how_many} were over it"
        if asked.mode in ("off", "monitor") and facts.kind != "guard":
            return Verdict("attention", f"{said}. Nothing is shed, because the mode is {asked.mode}.")
        return Verdict("trouble", f"{said}. {state.sentence}")
    if last.state == "min_keep":
        return Verdict("attention", state.sentence)
    if shed and (last.shed or last.state != "idle"):  # what is over is in the books, and no verdict
        share = share_text(shed / arrived) if arrived else ""
        what = "comparisons" if facts.kind == "join" else "rows"
        held = "" if inside is None else f"; {share_text(inside)} of these batches met the target"
        over = f"{share} of the {what} of the last {len(judged)} batches were shed{held}."
        return Verdict("shedding", over[0].upper() + over[1:])
    return None


def judge_all(verdicts: Sequence[tuple[str, Verdict]]) -> Verdict:
    """The page's first line: how many are well, and the worst of the others."""
    if not verdicts:
        return Verdict("waiting", "No gate has used this control store yet.")
    running = [(name, v) for name, v in verdicts if v.level not in ("stopped", "waiting")]
    if not running:
        stopped = sum(v.level == "stopped" for _, v in verdicts)
        if stopped == len(verdicts):
            return Verdict("stopped", "No query is running.")
        return Verdict("waiting", "No batch has ended yet.")
    worst = min((v.level for _, v in running), key=LEVELS.index)
    at_worst = [(name, v) for name, v in running if v.level == worst]
    if worst == "healthy":
        are = "is" if len(running) == 1 else "are"
        return Verdict("healthy", f"{_queries(len(running))} {are} healthy: nothing is shed.")
    name, first = at_worst[0]
    more = f" {_queries(len(at_worst) - 1)} more like this." if len(at_worst) > 1 else ""
    return Verdict(worst, f"{name}: {first.sentence}{more}")


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count} queries"
