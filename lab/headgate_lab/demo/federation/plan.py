"""Who runs what: the sites, the queries of Table 1 cut into fragments, and where these run.

A site's capacity is given in rows a second, as the paper's is: three Sparks with eleven streams leave
two cores little to overload. Each source sends as much as every other. Paris has most of the capacity
and Oslo little, and two queries end in Oslo; so a shedder that knows no queries gives those a twentieth,
and the one that is all in Paris half. There is an allocation in which all have the same SIC: queries
with a part in Paris live on that part, and leave Rome and Oslo to those that have nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headgate.errors import BadArgument

__all__ = ["FEDERATION", "LINKS", "Federation", "Fragment"]

#: The columns of a link, by the query's kind.
LINKS = {
    "avg-all": "at timestamp, total double, readings bigint, _sic double",
    "top5": "at timestamp, id int, value double, _sic double",
    "cov": "at timestamp, pairs bigint, x double, y double, xy double, _sic double",
}


@dataclass(frozen=True)
class Fragment:
    """One stream: a part of a query, at a site."""

    query: str
    kind: str
    site: str
    #: The fragments of the same query, by site, whose rows come here.
    takes: tuple[str, ...] = ()
    #: Where its rows go; None at the query's root.
    gives: str | None = None

    @property
    def name(self) -> str:
        """Its name: the query's, at the site."""
        return f"{self.query}-{self.site}"

    @property
    def source(self) -> str:
        """The name of its own source."""
        return f"{self.query}-at-{self.site}"


@dataclass(frozen=True)
class Federation:
    """The whole of it."""

    fragments: tuple[Fragment, ...]
    #: Rows a second that each site can process, all its fragments together.
    capacity: Mapping[str, float] = field(default_factory=dict)
    #: Readings a second of every source, and how costly a kept one is (rounds of arithmetic).
    rows_per_s: int = 1000
    rounds: int = 100
    trigger_s: float = 12.0
    stw_s: float = 72.0
    #: A tenth of the time a node sends so many times as much.
    burst_factor: int = 1
    burst_share: float = 0.1
    seed: int = 7

    def __post_init__(self) -> None:
        for name in ("trigger_s", "stw_s", "rows_per_s", "rounds"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise BadArgument(f"{name}={value!r}: a finite number above 0")

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites, in the order in which fragments name them."""
        return tuple(dict.fromkeys(f.site for f in self.fragments))

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of all queries, each once."""
        return tuple(dict.fromkeys(f.query for f in self.fragments))

    def of_query(self, query: str) -> tuple[Fragment, ...]:
        """The fragments that one query is made of."""
        return tuple(f for f in self.fragments if f.query == query)

    def root(self, query: str) -> Fragment:
        """Where a query's results come out."""
        return next(f for f in self.of_query(query) if f.gives is None)

    def depth(self, fragment: Fragment) -> int:
        """How many links the longest way to this fragment has."""
        before = [f for f in self.of_query(fragment.query) if f.site in fragment.takes]
        return 1 + max(map(self.depth, before)) if before else 0

    def to_json(self) -> dict[str, Any]:
        """For the processes of the sites."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Federation:
        """The federation that `to_json` wrote."""
        fragments = tuple(Fragment(**{**f, "takes": tuple(f["takes"])}) for f in value["fragments"])
        return replace(cls(fragments), **{k: v for k, v in value.items() if k != "fragments"})


def _single(query: str, kind: str, site: str) -> Fragment:
    return Fragment(query, kind, site)


#: Rome and Paris have four fragments each, Oslo has three.
FEDERATION = Federation(
    fragments=(
        _single("rome-avg", "avg", "rome"),
        _single("rome-max", "max", "rome"),
        _single("paris-count", "count", "paris"),
        _single("oslo-avg", "avg", "oslo"),
        # A tree with its root in Oslo, and two chains.
        Fragment("avg-all", "avg-all", "rome", gives="oslo"),
        Fragment("avg-all", "avg-all", "paris", gives="oslo"),
        Fragment("avg-all", "avg-all", "oslo", takes=("rome", "paris")),
        Fragment("top-5", "top5", "rome", gives="paris"),
        Fragment("top-5", "top5", "paris", takes=("rome",)),
        Fragment("cov", "cov", "paris", gives="oslo"),
        Fragment("cov", "cov", "oslo", takes=("paris",)),
    ),
    capacity={"rome": 650.0, "paris": 2000.0, "oslo": 350.0},
)
