"""The gates and queries of the control folder that a command is given."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import BadArgument
from headgate.store.ledger.records import gates_in, queries_of
from headgate.store.places.place import Place

__all__ = ["GateQuery", "gate_queries"]


@dataclass(frozen=True)
class GateQuery:
    """A gate, and a query that ran behind it."""

    gate: str
    query: str


def gate_queries(control: Place, gate: str | None, query: str | None) -> list[GateQuery]:
    """The gates and queries in the folder, or those named; a query by its first characters, too."""
    gates = gates_in(control)
    if gate is not None and gate not in gates:
        raise BadArgument(f"no gate {gate!r} in this control folder; gates there: {', '.join(gates)}")
    found = [
        GateQuery(name, known)
        for name in ([gate] if gate else gates)
        for known in queries_of(control, name)
    ]
    chosen = [pair for pair in found if query is None or pair.query.startswith(query)]
    if query is not None and not chosen:
        known_ids = ", ".join(sorted({pair.query for pair in found})) or "none yet"
        raise BadArgument(f"no query {query!r} in this control folder; queries there: {known_ids}")
    return chosen
