"""One message and its reply: what a site and a coordinator say to each other about once a second.

A query's coordinator collects the SIC of the query's results and tells every site that hosts a part of
the query (updateSIC in themis-2016, Algorithm 1; section 6). The paper sends one message of 30 bytes
for each query fragment every 250 ms. Here a site sends one *report* of all its queries, and the answer
to it is the update: sites need no open port, a site that cannot be reached is one that does not ask,
and a thousand queries cost one round trip. Also ours, and in the report: which sources a site holds,
because SIC divides by the sources of the whole query (Eq. 1) and no site knows the other sites'.

Whoever reads a message trusts nothing in it: names, numbers, sizes and fields are checked, and what is
wrong with one query does not touch another. What is wrong with the message as a whole is a
`CoordinatorRefused`, on either side of the wire.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeGuard

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused

__all__ = [
    "MAX_PRIORITY",
    "MAX_SIC",
    "MAX_SOURCES",
    "MAX_WEIGHT",
    "VERSION",
    "Leave",
    "QueryReport",
    "QueryUpdate",
    "Reply",
    "Report",
    "check_name",
    "leave_to_json",
    "listed",
    "read_leave",
    "read_reply",
    "read_report",
    "reply_to_json",
    "report_to_json",
]

VERSION = 1
#: SIC of more than 1 is honest: counts of the trailing window are behind a rate that rises. A rate that
#: rises k times at once gives k / (k - 1) ln k at most: 2.6 for the paper's bursts (k = 10), and 4.0 for
#: k = 50. More than that is a mistake or a lie.
MAX_SIC = 4.0
MAX_WEIGHT = 1e6
MAX_PRIORITY = 1_000_000
#: Sources of one query, over all sites.
MAX_SOURCES = 4096

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_INCARNATION = re.compile(r"[0-9a-f]{32}")
_MAX_SEQ = 2**53  # JSON numbers are exact up to here in every language


@lru_cache(1 << 16)  # the same names come every second
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_name(kind: str, name: object) -> str:
    """The name, if it can be one: the same rule for sites, queries and sources."""
    if not isinstance(name, str) or not _is_name(name):
        raise BadArgument(
            f"{kind} name {_shown(name)}: use 1 to 64 letters, digits, '_', '-' or '.', "
            "beginning with a letter or a digit"
        )
    return name


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What a site says of one query that it hosts a part of.

    >>> QueryReport(sources=("rome-cpu",), root=True, result_sic=0.31).result_sic
    0.31
    """

    #: The query's sources that this site holds: all of them, in every report.
    sources: tuple[str, ...] = ()
    #: All sources of the query, wherever they are; None leaves the count to what sites hold.
    of: tuple[str, ...] | None = None
    #: Does the query's result come out here?
    root: bool = False
    #: The SIC of the query's result over the last source time window (Eq. 4); only a root has one.
    result_sic: float | None = None
    #: The source SIC that this site accepted for the query in the last source time window.
    accepted_sic: float | None = None
    #: A query of weight 2 is entitled to twice the SIC; the root's word counts.
    weight: float = 1.0
    #: A higher priority is served whole before a lower one gets anything; the root's word counts.
    priority: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", _source_names("sources", self.sources))
        if self.of is not None:
            object.__setattr__(self, "of", _source_names("of", self.of))
            strangers = set(self.sources).difference(self.of)
            if strangers:
                raise BadArgument(
                    f"source {min(strangers)!r} is unknown: the query's sources are "
                    f"{listed(self.of)}; correct the source's name, or declare all sources of the query"
                )
        if not isinstance(self.root, bool):
            raise BadArgument(f"root={_shown(self.root)}: give True or False")
        _check_sic("result_sic", self.result_sic)
        _check_sic("accepted_sic", self.accepted_sic)
        if self.result_sic is not None and not self.root:
            raise BadArgument(
                f"result_sic={self.result_sic!r} from a site that is not the query's root: only the "
                "site where the result comes out knows it; report it there, with root=True"
            )
        if not (_is_number(self.weight) and 0 < self.weight <= MAX_WEIGHT):
            raise BadArgument(
                f"weight={_shown(self.weight)}: give a number above 0, up to {MAX_WEIGHT:,.0f}"
            )
        if type(self.priority) is not int or abs(self.priority) > MAX_PRIORITY:
            raise BadArgument(
                f"priority={_shown(self.priority)}: give a whole number from {-MAX_PRIORITY:,} to "
                f"{MAX_PRIORITY:,}"
            )

    def to_json(self) -> dict[str, Any]:
        """The report as JSON for the wire."""
        return {
            "sources": list(self.sources),
            "of": None if self.of is None else list(self.of),
            "root": self.root,
            "result_sic": self.result_sic,
            "accepted_sic": self.accepted_sic,
            "weight": self.weight,
            "priority": self.priority,
        }

    @classmethod
    def from_json(cls, value: object) -> QueryReport:
        """From the wire; raises `BadArgument` for anything that is not one."""
        if not isinstance(value, dict):
            raise BadArgument(f"{_shown(value)} where an object with the fields of a query belongs")
        _check_fields(
            value, ("sources", "of", "root", "result_sic", "accepted_sic", "weight", "priority")
        )
        return cls(**value)


@dataclass(frozen=True, slots=True)
class QueryUpdate:
    """What a coordinator says of one query: updateSIC of Algorithm 1."""

    #: The last SIC that the query's root reported; None before the first.
    sic: float | None
    #: Seconds since the coordinator heard it.
    age_s: float | None
    #: Sources of the whole query: \\|S| of Eq. 1.
    sources: int
    weight: float
    priority: int
    #: The source SIC that all sites together accepted in the last source time window; None while a site
    #: has not said. Ours: it is there at once, where the result's takes windows and hops.
    accepted: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A coordinator's answer to a report: an update for each query, or why there is none."""

    queries: Mapping[str, QueryUpdate] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """A report as a coordinator read it: what is well formed, and why the rest is not."""

    site: str
    incarnation: str
    seq: int
    queries: Mapping[str, QueryReport]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leave:
    """A site leaves some of its queries (`queries`), or all of them and the federation (None)."""

    site: str
    incarnation: str
    seq: int
    queries: tuple[str, ...] | None = None


def report_to_json(report: Report) -> dict[str, Any]:
    """The body of ``POST /v1/report``."""
    return {
        "v": VERSION,
        "site": report.site,
        "incarnation": report.incarnation,
        "seq": report.seq,
        "queries": {name: query.to_json() for name, query in report.queries.items()},
    }


def leave_to_json(leave: Leave) -> dict[str, Any]:
    """The body of ``POST /v1/leave``."""
    queries = None if leave.queries is None else list(leave.queries)
    return {
        "v": VERSION,
        "site": leave.site,
        "incarnation": leave.incarnation,
        "seq": leave.seq,
        "queries": queries,
    }


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """The body of the answer to a report."""
    return {
        "v": VERSION,
        "queries": {
            name: {
                "sic": update.sic,
                "age_s": update.age_s,
                "sources": update.sources,
                "weight": update.weight,
                "priority": update.priority,
                "accepted": update.accepted,
            }
            for name, update in reply.queries.items()
        },
        "refused": dict(reply.refused),
    }


def read_report(body: bytes, max_queries: int = 4096) -> Report:
    """A report from the wire; a query that is malformed is in `refused`, the rest holds."""
    value = _envelope(body, ("v", "site", "incarnation", "seq", "queries"), ("queries",))
    found = value["queries"]
    if not isinstance(found, dict):
        raise _bad(f"queries is {_shown(found)}: give an object with a field for each query")
    if len(found) > max_queries:
        raise CoordinatorRefused(
            f"{len(found):,} queries in one report: at most {max_queries:,}; run the site as two sites",
            status=413,
            code="too-large",
        )
    queries: dict[str, QueryReport] = {}
    refused: dict[str, str] = {}
    for name, entry in found.items():
        try:
            queries[check_name("query", name)] = QueryReport.from_json(entry)
        except BadArgument as error:
            refused[name[:64]] = str(error)
    return Report(value["site"], value["incarnation"], value["seq"], queries, refused)


def read_leave(body: bytes) -> Leave:
    """A site's leave from the wire."""
    value = _envelope(body, ("v", "site", "incarnation", "seq", "queries"), ())
    names = value.get("queries")
    if names is not None:
        if not isinstance(names, list):
            raise _bad(f"queries is {_shown(names)}: give a list of names, or null for all")
        try:
            names = tuple(check_name("query", name) for name in names)
        except BadArgument as error:
            raise _bad(str(error)) from None
    return Leave(value["site"], value["incarnation"], value["seq"], names)


def read_reply(body: bytes) -> Reply:
    """A coordinator's answer from the wire; raises `CoordinatorGone` for what is none.

    A coordinator is trusted more than a site, but a reply decides what is shed: nothing but numbers in
    range may come through, whoever answers at that address.
    """
    try:
        value = _parsed(body)
        if not isinstance(value, dict) or value.get("v") != VERSION:
            raise ValueError("no reply of this version")
        queries = {
            check_name("query", name): _read_update(entry) for name, entry in value["queries"].items()
        }
        refused = {str(name): str(reason) for name, reason in value["refused"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CoordinatorGone(
            f"what answers is no coordinator of protocol {VERSION} ({error}): check the address, and "
            "that site and coordinator run the same version of Headgate"
        ) from None
    return Reply(queries, refused)


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for a message: sorted, and not more than a few.

    >>> listed(["b", "a"]), listed("abcdefghij", most=2)
    ("'a', 'b'", "'a', 'b' and 8 more")
    """
    ordered = sorted(names)
    text = ", ".join(repr(name) for name in ordered[:most])
    return text if len(ordered) <= most else f"{text} and {len(ordered) - most} more"


def _read_update(value: Any) -> QueryUpdate:
    sic, age, sources = value["sic"], value["age_s"], value["sources"]
    weight, priority = value["weight"], value["priority"]
    accepted = value.get("accepted")
    _check_sic("sic", sic)
    _check_sic("accepted", accepted)
    if age is not None and not (_is_number(age) and age >= 0):
        raise ValueError(f"age_s={_shown(age)}")
    if (sic is None) != (age is None):
        raise ValueError(f"sic={_shown(sic)}, age_s={_shown(age)}")
    if type(sources) is not int or not 0 <= sources <= MAX_SOURCES:
        raise ValueError(f"sources={_shown(sources)}")
    if not (_is_number(weight) and 0 < weight <= MAX_WEIGHT):
        raise ValueError(f"weight={_shown(weight)}")
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise ValueError(f"priority={_shown(priority)}")
    return QueryUpdate(sic, age, sources, float(weight), priority, accepted)


def _envelope(body: bytes, fields: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    """Check and return what reports and leaves have in common."""
    try:
        value = _parsed(body)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the body is no JSON that can be read ({str(error)[:200]})") from None
    if not isinstance(value, dict):
        raise _bad(f"the body is {_shown(value)}: give a JSON object")
    if type(value.get("v")) is not int or value["v"] != VERSION:
        raise CoordinatorRefused(
            f"protocol {_shown(value.get('v'))}: this coordinator speaks protocol {VERSION}; run the "
            "same version of Headgate on both sides",
            code="other-version",
        )
    try:
        _check_fields(value, fields)
        check_name("site", value.get("site"))
    except BadArgument as error:
        raise _bad(str(error)) from None
    incarnation, seq = value.get("incarnation"), value.get("seq")
    if not isinstance(incarnation, str) or not _INCARNATION.fullmatch(incarnation):
        raise _bad(f"incarnation {_shown(incarnation)}: give 32 hexadecimal digits in lower case")
    if type(seq) is not int or not 1 <= seq <= _MAX_SEQ:
        raise _bad(f"seq {_shown(seq)}: give a whole number from 1 to 2^53")
    for name in required:
        if name not in value:
            raise _bad(f"the field {name!r} is missing")
    return value


def _parsed(body: bytes) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a field stands twice in one object")
        return found

    return json.loads(body, parse_constant=refuse, object_pairs_hook=once)


def _source_names(kind: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, list | tuple | set | frozenset):
        raise BadArgument(f"{kind}={_shown(names)}: give a list of names")
    if len(names) > MAX_SOURCES:
        raise BadArgument(f"{len(names):,} names in {kind}: a query has at most {MAX_SOURCES:,} sources")
    found = tuple(check_name("source", name) for name in names)
    if len(set(found)) != len(found):
        raise BadArgument(f"a name stands twice in {kind}: name each source once")
    return found


def _check_sic(name: str, value: object) -> None:
    if value is not None and not (_is_number(value) and 0 <= value <= MAX_SIC):
        raise BadArgument(
            f"{name}={_shown(value)}: SIC is from 0 to {MAX_SIC:g} (1 when nothing was shed, for a "
            "moment more after a burst), or None where it is not known yet"
        )


def _check_fields(value: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [name for name in value if name not in known]
    if unknown:
        raise BadArgument(f"unknown field {_shown(unknown[0])}: the fields are {', '.join(known)}")


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _shown(value: object) -> str:
    """A value for a message, of bounded length: it may come from anybody."""
    if isinstance(value, dict | list | tuple | set | frozenset):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 400:  # Python does not write the longest ones
        return f"a whole number of {value.bit_length():,} bits"
    text = repr(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 100 else text[:100] + "..."


def _bad(reason: str) -> CoordinatorRefused:
    return CoordinatorRefused(reason, status=400, code="bad-report")
