"""What is inside a guard and a join: prices, what keys cost, how complete results are."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.store.ledger.record import Record
from headgate.view.facts import JobFacts
from headgate.view.wording import count_text, seconds_text, share_text

__all__ = ["Insides", "insides"]

#: A guard's reasons for dropping a row, in words.
_REASONS = {
    "price": "dropped: dearer than the price",
    "latency": "dropped: they would have waited too long",
    "chance": "dropped by chance",
    "dead_letter": "handed to the dead letters: the function failed on them",
    "failed": "kept, though the function failed on them",
}


@dataclass(frozen=True)
class Insides:
    """Named figures, and one table where there is one."""

    title: str
    figures: tuple[tuple[str, str], ...]
    table_title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def insides(facts: JobFacts) -> Insides | None:
    """Of a guard or a join whose last batch is known; a gate has its plan."""
    if not facts.records:
        return None
    last = facts.records[-1]
    if facts.kind == "guard":
        return _guard(facts, last)
    return _join(last) if facts.kind == "join" else _drawn_groups(last)


def _guard(facts: JobFacts, last: Record) -> Insides:
    measures, inside = last.found.measures, facts.guard
    figures = [
        ("rows waited on average", seconds_text(measures.get("queue_ms", 0.0) / 1000.0)),
        ("longest wait", seconds_text(measures.get("longest_queue_ms", 0.0) / 1000.0)),
        ("cost of a row", _cost(measures.get("cost_ms", 0.0) / 1000.0)),
    ]
    if inside is not None and inside.prices_s:
        low, high = min(inside.prices_s), max(inside.prices_s)
        price = _cost(high) if low == high else f"{_cost(low)} to {_cost(high)}"
        figures.append(("price: dearer rows are dropped first", price))
    for name, count in last.found.groups.items():
        figures.append((f"rows {_REASONS.get(name, name)}", count_text(count)))
    if inside is None or not inside.dearest:
        return Insides("Inside the guard", tuple(figures))
    rows = tuple((f"{key:016x}", _cost(mean), count_text(uses)) for key, mean, uses in inside.dearest)
    columns = ("key (hash)", "mean cost", "times seen")
    return Insides("Inside the guard", tuple(figures), "The dearest keys", columns, rows)


def _join(last: Record) -> Insides:
    found = last.found.measures
    figures = [
        ("pairs found", count_text(found.get("pairs", 0.0))),
        ("pairs missed, estimated", count_text(found.get("pairs_missed", 0.0))),
    ]
    if "completeness" in found:
        error = share_text(found.get("completeness_error", 0.0))
        figures.append(("completeness", f"{share_text(found['completeness'])} ± {error}"))
    figures += [
        ("rows taken in", count_text(found.get("rows_kept", 0.0))),
        ("rows left out", count_text(found.get("rows_shed", 0.0))),
        ("rows too late", count_text(found.get("late_rows", 0.0))),
        ("time for comparing", seconds_text(found.get("compare_s", 0.0))),
        ("state", f"{count_text(found.get('state_bytes', 0.0))}B"),
    ]
    if "work" in found:
        figures.append(("work that a task may do", f"{count_text(found['work'])} units"))
    rows = tuple(
        (count_text(pairs), count_text(missed), f"{share_text(share)} ± {share_text(error)}")
        for _, pairs, missed, share, error in last.found.windows[-5:]
    )
    columns = ("pairs found", "missed", "completeness")
    return Insides("Inside the join", tuple(figures), "The latest windows", columns, rows)


def _drawn_groups(last: Record) -> Insides | None:
    found = last.found.measures
    if "groups" not in found:
        return None
    figures = [
        ("groups in the last batch", count_text(found["groups"])),
        ("groups that kept no row", count_text(found.get("groups_yielded", 0.0))),
        ("share that one row of each group takes", share_text(found.get("one_row_each", 0.0))),
    ]
    return Insides("Inside the groups", tuple(figures))


def _cost(seconds: float) -> str:
    """A cost may be far below a millisecond."""
    return f"{1e6 * seconds:.0f} µs" if seconds < 0.000_995 else f"{1000 * seconds:.3g} ms"
