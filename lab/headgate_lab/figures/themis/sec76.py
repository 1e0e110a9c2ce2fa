"""Themis-2016, section 7.6: what a decision costs, measured here on the mixed case of Figure 10.

Offers are recorded while the simulated federation runs (18 nodes, up to 2,000 fragments, capacity 0.2),
and then every shedder decides about the same ones, on this machine's clock. The paper's prototype took
0.088 ms a batch and its random shedder 0.079 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples
from headgate_lab.figures.themis.policies import BALANCE, MIRROR, RANDOM
from headgate_lab.sim.themis.deployment import Deployment, draw
from headgate_lab.sim.themis.federation import run
from headgate_lab.sim.themis.shedders import (
    Balance,
    Kept,
    Mirrored,
    NodeShedder,
    Offer,
    Random,
    Shedding,
    Site,
)

__all__ = ["DECISION", "PER_BATCH", "build"]

DECISION, PER_BATCH, OF_INTERVAL = "decision_ms", "batch_us", "interval_share"
COMPILED = f"{BALANCE}, compiled"
#: A message of a coordinator, and the SIC value of a batch (section 7.6), in bytes.
_MESSAGE, _SIC = 30, 10


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Time the decisions on this machine, and draw them."""
    count = runs or (1 if quick else 5)
    sizes = (200, 400) if quick else (500, 1000, 2000)
    shedders: list[tuple[str, Shedding]] = [
        (RANDOM, Random()),
        (BALANCE, Balance(is_compiled=False)),
        (COMPILED, Balance()),
        (MIRROR, Mirrored()),
    ]
    samples = Samples()
    for at, fragments in enumerate(sizes):
        deployment = Deployment(18, fragments)
        book = _Book(Balance())
        run(deployment, book, 12.0, seed=0)
        sites = [(site, offers[-16:]) for site, offers in book.pages]
        for turn in range(count):
            for name, shedding in shedders:
                samples.add(fragments, name, _timed(shedding, sites, deployment.timing.interval_s))
            progress(at * count + turn + 1, len(sizes) * count)
    return Drawn(
        "themis_sec76",
        "What a decision of one of 18 nodes costs",
        "fragments of all nodes",
        count,
        samples.rows(),
        _claims(samples, sizes[-1]),
        (Axis(DECISION, "a decision (ms)", log=True), Axis(PER_BATCH, "a batch (µs)", log=True)),
    )


@dataclass(frozen=True)
class _Pages:
    """A shedder that keeps what it was offered."""

    shedder: NodeShedder
    offers: list[Offer]

    def keep(self, offer: Offer) -> Kept:
        self.offers.append(replace(offer, reported=offer.reported.copy()))
        return self.shedder.keep(offer)


class _Book:
    """A shedding that notes all offers, node by node."""

    def __init__(self, shedding: Shedding) -> None:
        self._shedding, self.name = shedding, shedding.name
        self.pages: list[tuple[Site, list[Offer]]] = []

    def build(self, site: Site, random: np.random.Generator) -> NodeShedder:
        page = _Pages(self._shedding.build(site, random), [])
        self.pages.append((site, page.offers))
        return page


def _timed(
    shedding: Shedding, sites: list[tuple[Site, list[Offer]]], interval_s: float
) -> dict[str, float]:
    random = np.random.default_rng(68)
    shedders = [(shedding.build(site, random), offers) for site, offers in sites]
    for shedder, offers in shedders:  # the first decision loads and compiles
        shedder.keep(offers[0])
    spent, decisions, batches = 0.0, 0, 0
    for shedder, offers in shedders:
        for offer in offers:
            begin = time.perf_counter()
            shedder.keep(offer)
            spent += time.perf_counter() - begin
            decisions += 1
            batches += int(offer.batches.sum()) + len(offer.derived.sic)
    return {
        DECISION: 1e3 * spent / decisions,
        PER_BATCH: 1e6 * spent / batches,
        OF_INTERVAL: spent / decisions / interval_s,
    }


def _claims(samples: Samples, fragments: int) -> tuple[Claim, ...]:
    def mean(policy: str, metric: str = DECISION) -> float:
        return samples.mean(fragments, policy, metric)

    deployment = Deployment(18, fragments)
    layout = draw(deployment, 0)
    tuples_s = float(layout.source_rate.sum())
    messages_s = len(layout.feeds) / deployment.timing.interval_s
    # Bytes for each source tuple, of which the payload alone is at least a number: 8.
    bytes_ = (messages_s * _MESSAGE + tuples_s / deployment.batch * _SIC) / tuples_s
    more = mean(BALANCE) / mean(RANDOM) - 1.0
    return (
        Claim("BALANCE-SIC takes 11 % longer than random shedding (more)", 0.0 < more < 0.25, more),
        Claim(
            "which does not matter (share of the shedding interval)",
            mean(BALANCE, OF_INTERVAL) < 0.02,
            mean(BALANCE, OF_INTERVAL),
        ),
        Claim("SIC values and messages are few bytes (for each source tuple)", bytes_ < 0.8, bytes_),
        Claim(
            "ours: mirror takes less than 2 % of the interval (share)",
            mean(MIRROR, OF_INTERVAL) < 0.02,
            mean(MIRROR, OF_INTERVAL),
        ),
    )
