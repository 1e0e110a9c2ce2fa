"""How queries fare that share sites: the SIC of each, and how equal they are."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.fairness.jain import jain
from headgate.store.folder import folders_in, read_json
from headgate.store.places.place import Place

__all__ = ["QueryShare", "SiteView", "Sites", "sites_in"]

#: A site leaves its status every second (in an object store every ten): one that has not for so long is
#: not there.
SILENT_S = 30.0


@dataclass(frozen=True)
class QueryShare:
    """A query at a site."""

    site: str
    query: str
    #: The share of its source information that reached its result; None before anybody measured.
    sic: float | None
    told_by: str
    accepted: float
    weight: float
    refused: str = ""


@dataclass(frozen=True)
class SiteView:
    """A site, as it last wrote."""

    name: str
    age_s: float
    stopped: bool
    overloaded: bool
    capacity: float
    #: "rows/s" or "cores".
    unit: str
    coordinator: str = ""

    @property
    def silent(self) -> bool:
        """Whether nothing has been heard of it for long."""
        return not self.stopped and self.age_s > SILENT_S


@dataclass(frozen=True)
class Sites:
    """All sites of a control store."""

    sites: tuple[SiteView, ...]
    shares: tuple[QueryShare, ...]
    #: Jain's index over the queries with a SIC: 1 is equal, 1/n is one who has all.
    jain: float | None


def sites_in(control: Place, now: float) -> Sites | None:
    """What the sites left there; None where there are none. Raises OSError where it cannot be read."""
    names = folders_in(control / "sites")
    found: list[tuple[SiteView, list[QueryShare]]] = []
    for name in names:
        # Cut off by a crash, or of another version: the next second writes it again.
        with contextlib.suppress(ValueError, TypeError, AttributeError, LookupError):
            value = read_json(control / "sites" / name / "status.json")
            if isinstance(value, dict):
                found.append((_site(value, now), _shares(value)))
    if not found:
        return None
    shares = tuple(share for _, of_site in found for share in of_site)
    best: dict[str, QueryShare] = {}
    for share in shares:  # a query may be at several sites, and has one SIC
        if share.sic is not None and (share.query not in best or share.told_by == "coordinator"):
            best[share.query] = share
    values = [(s.sic, s.weight) for s in best.values() if s.sic is not None and s.weight > 0]
    index = jain([sic for sic, _ in values], [weight for _, weight in values]) if values else None
    return Sites(tuple(site for site, _ in found), shares, index)


def _shares(value: Mapping[str, Any]) -> list[QueryShare]:
    return [
        QueryShare(
            site=str(value.get("site", "")),
            query=str(query),
            sic=None if view.get("sic") is None else float(view["sic"]),
            told_by=str(view.get("told_by", "")),
            accepted=float(view.get("accepted", 0.0)),
            weight=float(view.get("weight", 1.0)),
            refused=str(view.get("refused") or ""),
        )
        for query, view in value.get("queries", {}).items()
    ]


def _site(value: Mapping[str, Any], now: float) -> SiteView:
    in_rows = value.get("rows_per_s") is not None
    coordinator = value.get("coordinator") or [""]
    return SiteView(
        name=str(value.get("site", "")),
        age_s=max(0.0, now - float(value.get("at", 0.0))),
        stopped=bool(value.get("stopped", False)),
        overloaded=bool(value.get("overloaded", False)),
        capacity=float(value.get("capacity", 0.0)),
        unit="rows/s" if in_rows else "cores",
        coordinator=str(coordinator[0]),
    )
