"""Themis-2016, Figure 14: bursty sources and wide-area latencies.

Two-fragment queries on 4 nodes; 5 ms against 50 ms between nodes; in a tenth of its seconds a source
gives ten times as much. How many queries there are is not stated: 150, at Figure 8's capacity. Bursts
make 1.9 times the load, so a mean SIC that does not change means that the paper's sources gave less in
between, or that Equation 1 counted what a source should have sent: the last point has the same mean rate
with bursts as without.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.figures.themis.points import Point, PointRun, over_points
from headgate_lab.figures.themis.policies import (
    BALANCE,
    JAIN,
    JAIN_AXIS,
    MEAN,
    MEAN_AXIS,
    MIN,
    MIN_AXIS,
    MIRROR,
    NODE_TUPLES,
    RANDOM,
)
from headgate_lab.sim.themis.deployment import Deployment
from headgate_lab.sim.themis.layout import Timing

__all__ = ["sweep"]

LAN, WAN, BURSTS, BOTH, SAME = "LAN", "WAN", "LAN, bursts", "WAN, bursts", "same mean rate"
_TIMINGS = {
    LAN: Timing(),
    WAN: Timing(latency_s=0.05),
    BURSTS: Timing(burst_share=0.1),
    BOTH: Timing(latency_s=0.05, burst_share=0.1),
    SAME: Timing(latency_s=0.05, burst_share=0.1, burst_keeps_mean=True),
}
_CAPTION = Caption(
    "themis_fig14",
    "Bursts and wide-area latencies",
    "network and sources",
    (MEAN_AXIS, MIN_AXIS, JAIN_AXIS),
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every network with every kind of source; with bursts the optimum is not known."""
    span = (30.0, 15.0) if quick else (120.0, 30.0)
    points = [
        Point(
            x,
            Deployment(4, None, 150, (2,), node_tuples_s=NODE_TUPLES, timing=timing),
            *span,
            bounded=not timing.burst_share,
        )
        for x, timing in _TIMINGS.items()
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 3), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def change(x: str, policy: str = BALANCE) -> float:
        return samples.mean(x, policy, MEAN) / samples.mean(LAN, policy, MEAN) - 1.0

    fair = min(samples.mean(x, BALANCE, JAIN) for x in _TIMINGS)
    bursty = samples.mean(BOTH, MIRROR, MEAN) / samples.mean(BOTH, BALANCE, MEAN) - 1.0
    least = samples.mean(BOTH, MIRROR, MIN) / samples.mean(BOTH, BALANCE, MIN) - 1.0
    worse = samples.mean(BOTH, BALANCE, MEAN) / samples.mean(BOTH, RANDOM, MEAN) - 1.0
    return (
        Claim("fair in every set-up (least Jain)", fair > 0.97, fair),
        Claim("50 ms between nodes change no mean SIC (change)", abs(change(WAN)) < 0.02, change(WAN)),
        Claim("bursts change no mean SIC (change)", abs(change(BOTH)) < 0.1, change(BOTH)),
        Claim(
            "they do not where they keep the mean rate (change)", abs(change(SAME)) < 0.1, change(SAME)
        ),
        Claim("with bursts the mean SIC is above random shedding's (gain)", worse > 0, worse),
        Claim("ours: mirror's mean SIC with bursts, over BALANCE-SIC's (gain)", bursty > 0, bursty),
        Claim("ours: its least SIC (gain)", least > 0, least),
    )
