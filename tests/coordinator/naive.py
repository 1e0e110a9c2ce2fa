"""A slow and obvious coordinator: the rules again, with plain loops over everything, and no records."""

from __future__ import annotations

from typing import Any

from headgate.sites.wire.protocol import QueryReport


class NaiveCoordinator:
    """Knows (query, site) -> what was said and when; works out the rest each time it is asked."""

    def __init__(self, lease_s: float, forget_s: float) -> None:
        self.lease_s, self.forget_s = lease_s, forget_s
        self.sites: dict[str, dict[str, Any]] = {}
        self.parts: dict[tuple[str, str], dict[str, Any]] = {}
        self.root: dict[str, str] = {}
        self.sic: dict[str, tuple[float, float]] = {}
        self.gone: dict[str, set[str]] = {}

    def hear(self, site: str, incarnation: str, seq: int, now: float) -> str | None:
        """Why a message is refused as a whole, if it is."""
        known = self.sites.get(site)
        if known is None:
            self.sites[site] = {"who": incarnation, "seq": seq, "heard": now, "old": set(), "here": True}
            return None
        if known["who"] == incarnation:
            if seq <= known["seq"]:
                return "replayed"
            known.update(seq=seq, heard=now, here=True)
            return None
        if incarnation in known["old"]:
            return "replaced"
        if self.lives(site, now):
            return "site-taken"
        known["old"].add(known["who"])
        known.update(who=incarnation, seq=seq, heard=now, here=True)
        return None

    def lives(self, site: str, now: float) -> bool:
        known = self.sites.get(site)
        return known is not None and known["here"] and now - known["heard"] <= self.lease_s

    def forget(self, now: float) -> None:
        for query, site in list(self.parts):
            if now - self.parts[query, site]["heard"] > self.forget_s:
                self.drop(query, site)

    def drop(self, query: str, site: str) -> None:
        part = self.parts.pop((query, site))
        self.gone.setdefault(query, set()).update(part["sources"])
        if self.root.get(query) == site:
            del self.root[query]
        if not self.hosts(query):
            for of_query in (self.gone, self.root, self.sic):
                of_query.pop(query, None)  # type: ignore[attr-defined]

    def hosts(self, query: str) -> dict[str, dict[str, Any]]:
        return {site: part for (name, site), part in self.parts.items() if name == query}

    def declared(self, query: str, but: str = "") -> set[str] | None:
        for site, part in self.hosts(query).items():
            if part["of"] is not None and site != but:
                return set(part["of"])
        return None

    def sources(self, query: str) -> int:
        held = {source for part in self.hosts(query).values() for source in part["sources"]}
        declared = self.declared(query)
        if declared is None:
            return len(held)
        return len([s for s in declared if s in held or s not in self.gone.get(query, set())])

    def part(self, query: str, site: str, said: QueryReport, now: float) -> bool:
        """Is the site believed?"""
        others = {name: p for name, p in self.hosts(query).items() if name != site}
        for source in said.sources:
            if any(source in p["sources"] and self.lives(name, now) for name, p in others.items()):
                return False
        declared = self.declared(query, but=site)
        if said.of is not None and declared is not None and set(said.of) != declared:
            return False
        known = declared if said.of is None else set(said.of)
        still = {s for p in others.values() for s in p["sources"]} - set(said.sources)
        if known is not None and not (still | set(said.sources)) <= known:
            return False
        holder = self.root.get(query)
        if said.root and holder not in (None, site) and self.lives(str(holder), now):
            return False
        gone = self.gone.setdefault(query, set())
        before = self.parts.get((query, site))
        if before is not None:
            gone |= set(before["sources"])
        gone -= set(said.sources)
        for p in others.values():
            p["sources"] = [s for s in p["sources"] if s not in said.sources]
        self.parts[query, site] = {"sources": list(said.sources), "of": said.of, "heard": now}
        if self.declared(query) is None:
            gone.clear()
        else:
            gone &= self.declared(query) or set()
        if said.root:
            self.root[query] = site
        elif holder == site:
            del self.root[query]
        if said.result_sic is not None:
            self.sic[query] = (said.result_sic, now)
        return True

    def leave(self, site: str) -> None:
        for query, name in list(self.parts):
            if name == site:
                self.drop(query, site)
        self.sites[site]["here"] = False
