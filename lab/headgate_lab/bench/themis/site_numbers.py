"""``headgate bench site-numbers``: does what a site achieves depend on its tuned numbers?

Every number of `SiteTuning` (and how long reports take, `delay_s`) is halved and doubled, one at a
time, on sites of several kinds (`headgate_lab.sim.themis.site_kinds`), in virtual time and with the same
draws. A number near 1 is a factor or a share close to the whole, so its distance from 1 is halved and
doubled. A number that is flat at both ends is taken to be flat in between; of the others 0.7 and 1.4
times the default show whether it is a slope or a step.

Two figures of each run. *least*: the lowest time average of a query's SIC, divided by its weight, beside
that with the default. *in time*: the share of batches that end within their target, averaged over the
streams, less that with the default. One site alone varies from seed to seed by some 5 %, the mean over
all of them by a quarter of that: one seed is enough. A number is called flat if the mean over all sites
stays within 5 % and 0.03 of the default's at every factor, and no site loses more than a quarter or 0.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from headgate.sites.tuning import SiteTuning
from headgate_lab.bench.progress import bench_progress
from headgate_lab.sim.themis.site_kinds import KINDS, SiteKind
from headgate_lab.sim.themis.virtual_site import VirtualSite

__all__ = ["BETWEEN", "FACTORS", "Figures", "numbers", "run", "scaled", "sweep", "tuned", "watch"]

FACTORS = (0.5, 2.0)
#: Only for numbers that are not flat.
BETWEEN = (0.7, 1.4)
#: No virtual site has a coordinator, and its plans cost nothing.
_NOT_HERE = ("exchange.longest_pause_s", "exchange.longest_wait_s")
_DELAY = "delay_s"


@dataclass(frozen=True)
class Figures:
    """What one site achieved."""

    least: float
    in_time: float


def numbers(tuning: SiteTuning | None = None) -> dict[str, float]:
    """Every number that is varied, by name (``capacity.late``), and its default."""
    return {name: value for name, value in _leaves(tuning or SiteTuning()) if name not in _NOT_HERE}


def _leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    for one in fields(config):
        value = getattr(config, one.name)
        if is_dataclass(value):
            yield from _leaves(value, f"{prefix}{one.name}.")
        else:
            yield prefix + one.name, value


def scaled(value: float, factor: float) -> float:
    """The value for a factor; whole numbers stay whole, and those near 1 move away from it.

    >>> scaled(0.2, 0.5), scaled(16, 0.7), round(scaled(1.04, 2.0), 6), round(scaled(0.95, 2.0), 6)
    (0.1, 11, 1.08, 0.9)
    """
    if isinstance(value, int):
        return max(1, round(value * factor))
    return 1.0 + (value - 1.0) * factor if abs(value - 1.0) < 0.31 else value * factor


def tuned(name: str, value: float) -> SiteTuning:
    """The defaults with one number changed."""
    room, _, last = name.rpartition(".")
    tuning = SiteTuning()
    change: dict[str, Any] = {last: value}
    if room:
        change = {room: replace(getattr(tuning, room), **change)}
    return replace(tuning, **change)


def watch(kind: SiteKind, seed: int, **settings: Any) -> Figures:
    """Run one site, and say what it achieved after its beginning."""
    site = VirtualSite(kind.streams(), kind.cores, noise_seed=seed, **{**kind.settings, **settings})
    site.run(kind.seconds)
    sics = site.mean_sic(kind.warm_s)
    of_sources = {stream.query for stream in site.streams if stream.brings is None}
    least = min(sics[query] / site.allocator.state.weight(query) for query in of_sources)
    inside = [site.inside(stream, kind.warm_s) for stream in site.streams]
    return Figures(least, sum(inside) / len(inside))


def sweep(
    names: Sequence[str], kinds: Mapping[str, SiteKind], factors: Sequence[float], seeds: int
) -> list[dict[str, Any]]:
    """A row for each number: how far its runs are from the same runs with the default."""
    defaults = {**numbers(), _DELAY: 1.0}
    with bench_progress() as progress:
        task = progress.add_task("defaults", total=(1 + len(names) * len(factors)) * len(kinds))

        def figures(name: str, factor: float) -> dict[str, Figures]:
            progress.update(task, description=f"{name} x{factor:g}")
            found = {}
            for title, kind in kinds.items():
                changed = _changed(name, factor, kind)
                runs = [watch(kind, seed, **changed) for seed in range(seeds)]
                least = math.fsum(one.least for one in runs) / seeds
                found[title] = Figures(least, math.fsum(one.in_time for one in runs) / seeds)
                progress.advance(task)
            return found

        base = figures(_DELAY, 1.0)
        return [
            _row(name, defaults[name], base, {factor: figures(name, factor) for factor in factors})
            for name in names
        ]


def _changed(name: str, factor: float, kind: SiteKind) -> dict[str, Any]:
    if name == _DELAY:
        return {_DELAY: factor * kind.settings.get(_DELAY, 2.0)}
    return {"tuning": tuned(name, scaled(numbers()[name], factor))}


def _row(
    name: str, default: float, base: Mapping[str, Figures], runs: Mapping[float, Mapping[str, Figures]]
) -> dict[str, Any]:
    """The means over all sites by factor, and the site that loses most."""
    least = {f: {k: one.least / base[k].least for k, one in found.items()} for f, found in runs.items()}
    in_time = {
        f: {k: one.in_time - base[k].in_time for k, one in found.items()} for f, found in runs.items()
    }
    mean_least = {f: math.fsum(found.values()) / len(found) for f, found in least.items()}
    mean_time = {f: math.fsum(found.values()) / len(found) for f, found in in_time.items()}
    lowest = min((v, f"{k} x{f:g}") for f, found in least.items() for k, v in found.items())
    latest = min((v, f"{k} x{f:g}") for f, found in in_time.items() for k, v in found.items())
    same = all(found == base for found in runs.values())
    flat = (
        all(abs(v - 1.0) <= 0.05 for v in mean_least.values())
        and all(abs(v) <= 0.03 for v in mean_time.values())
        and lowest[0] >= 0.75
        and latest[0] >= -0.2
    )
    return {
        "number": name,
        "default": default,
        "verdict": "no effect" if same else "flat" if flat else "not flat",
        **{f"least_x{f:g}": v for f, v in mean_least.items()},
        **{f"in_time_x{f:g}": v for f, v in mean_time.items()},
        "lowest": lowest[0],
        "lowest_at": lowest[1],
        "latest": latest[0],
        "latest_at": latest[1],
    }


def run(*, quick: bool) -> dict[str, Any]:
    """All numbers on all kinds of sites; quick: on every third kind, and nothing in between."""
    kinds = dict(list(KINDS.items())[::3]) if quick else KINDS
    rows = sweep([*numbers(), _DELAY], kinds, FACTORS, seeds=1)
    tables = {"each number beside its default": rows}
    steep = [row["number"] for row in rows if row["verdict"] == "not flat"]
    if steep and not quick:
        tables["nearer to the default, where that is not flat"] = sweep(steep, kinds, BETWEEN, seeds=1)
    verdicts = [row["verdict"] for row in rows]
    return {
        "bench": "site-numbers",
        "ratios": {
            "numbers": len(rows),
            "flat": verdicts.count("flat") / len(rows),
            "no_effect": verdicts.count("no effect") / len(rows),
            "not_flat": verdicts.count("not flat") / len(rows),
        },
        "context": {"kinds": list(kinds), "factors": list(FACTORS), "tables": tables},
    }
