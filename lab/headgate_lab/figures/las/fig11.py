"""Las-2020, Figure 11: real tweets, which cost more or less by whom they mention, on a real query.

The paper's tweets of 2014 are not public; these are tweets of the US Congress of early 2020
(tweets_congress_2020q1), and their most mentioned handles are sorted into media, politicians and others
by what they are known as. They have 98 different durations up to 166 ms, 57 % of them 1 ms, mean 4.2 ms
(the paper's: 110, 152 ms, 36 %, 9.7 ms). As in the paper a mention costs 25, 5 or 1 ms by its class, a
tweet the sum of its mentions (1 ms without any), the key is the mentions, and under-provisioning is 0 %:
arrivals are as far apart as a mean tweet takes. tau is 2 s, because on Spark a row waits about a batch
(paper: 32 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from headgate_lab.figures.data_folder import data_file
from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples
from headgate_lab.figures.las.policies import DROPPED, DROPPED_AXIS, FULL, LAS, OURS, STRAW
from headgate_lab.figures.on_spark import COMPLETION, guarded_runs, windows_of
from headgate_lab.papers.las import LasSettings
from headgate_lab.spark.trace_source import Trace

__all__ = ["build"]

_TAU = 2.0
# fmt: off
_MEDIA = frozenset((
    "msnbc", "cnn", "foxnews", "nytimes", "washingtonpost", "npr", "cspan", "politico", "thehill",
    "usatoday", "wsj", "abc", "cbsnews", "nbcnews", "foxbusiness", "axios", "reuters", "ap",
    "bloomberg", "time", "newsmax", "oann", "breitbartnews", "dailycaller", "vox", "buzzfeednews",
    "latimes", "chicagotribune", "bostonglobe", "telemundo", "univision", "univisionnews", "cnbc",
    "pbs", "newshour", "facethenation", "meetthepress", "thisweekabc", "foxnewssunday", "maddow",
    "hardball", "morning_joe", "foxandfriends", "seanhannity", "marialvaradofox", "marthamaccallum",
    "teamcavuto", "cnnsotu", "realclearnews", "dcexaminer", "nro", "dailysignal", "theatlantic",
    "newyorker", "propublica", "apnews", "cspanwj", "youtube", "facebook",
))
_OFFICE = (
    "rep",
    "sen",
    "gov",
    "potus",
    "vp",
    "speaker",
    "leader",
    "house",
    "senate",
    "whitehouse",
    "gop",
)
_NAMED = frozenset((
    "realdonaldtrump", "joebiden", "berniesanders", "mike_pence", "stevescalise", "petebuttigieg",
    "ewarren", "aoc", "kamalaharris", "amyklobuchar", "mikebloomberg", "thedemocrats", "dnc",
    "betoorourke", "hillaryclinton", "barackobama", "andrewyang", "tomsteyer", "tulsigabbard",
    "lindseygrahamsc", "marcorubio", "tedcruz",
))
# fmt: on
_COST = {"media": 0.025, "politicians": 0.005, "others": 0.001}
_WINDOWS = 12
_POLICIES = {
    STRAW: "straw-man",
    LAS: LasSettings(window=256, epsilon=0.001),
    FULL: "full-knowledge",
    OURS: "balanced",
}


def build(runs: int | None, quick: bool, progress: Callable[[int, int], None]) -> Drawn:
    """Run the tweets through a guard under every policy, and draw what came out."""
    count, seconds = runs or 1, 30.0 if quick else 90.0
    path = data_file("tweets_congress_2020q1.parquet")
    samples = Samples()
    for name, _, found in guarded_runs(
        _POLICIES, count, lambda s: _trace(path, s, seconds), _TAU, progress
    ):
        for number, values in enumerate(windows_of(found, _WINDOWS), 1):
            samples.add(round(seconds * number / _WINDOWS, 1), name, values)
    return Drawn(
        "las_fig11",
        f"Tweets on Spark, tau = {_TAU:g} s",
        "seconds",
        count,
        samples.rows(),
        _claims(samples),
        (Axis(COMPLETION, "average completion latency (s)", log=True), DROPPED_AXIS),
        _TAU,
    )


def class_of(handle: str) -> str:
    """Media, politicians, or others."""
    if handle in _MEDIA or handle.endswith(("news", "tv", "radio")):
        return "media"
    if handle in _NAMED or handle.startswith(_OFFICE) or handle.endswith("press"):
        return "politicians"
    return "others"


def _trace(path: Path, seed: int, seconds: float) -> Trace:
    """A stretch of the tweets, in order; another seed is another stretch."""
    import pyarrow.parquet as pq

    mentions = pq.read_table(path, columns=["mentions"]).column("mentions").to_pylist()
    mentions = mentions[20_000 * seed :]
    costs = [max(_COST["others"], sum(_COST[class_of(m)] for m in found or ())) for found in mentions]
    mean = float(np.mean(costs))
    count = min(len(costs), int(seconds / mean))
    keys = [" ".join(sorted(found or ())) for found in mentions[:count]]
    return Trace(np.arange(count) * mean, keys, costs[:count])


def _claims(samples: Samples) -> tuple[Claim, ...]:
    xs = [row.x for row in samples.rows() if row.policy == LAS][_WINDOWS // 3 :]

    def mean(policy: str, metric: str) -> float:
        found = [samples.mean(p, policy, metric) for p in xs if samples.has(p, policy, metric)]
        return float(np.mean(found)) if found else 0.0

    near = mean(LAS, COMPLETION) / mean(FULL, COMPLETION)
    apart = mean(STRAW, COMPLETION) / mean(LAS, COMPLETION)
    straw, las = mean(STRAW, DROPPED), mean(LAS, DROPPED)
    ours, fewer = mean(OURS, COMPLETION), 1 - mean(OURS, DROPPED) / max(1e-9, mean(FULL, DROPPED))
    return (
        Claim("LAS's latency is close to Full Knowledge's (ratio)", 0.5 < near < 1.5, near),
        Claim("Straw-Man's is at least ten times LAS's (ratio)", apart >= 10, apart),
        Claim("Straw-Man drops next to nothing (ratio)", straw < 0.02, straw),
        Claim("LAS drops 5 to 10 % (ratio)", 0.05 <= las <= 0.1, las),
        Claim("ours: near tau (completion, s)", ours < 1.5 * _TAU, ours),
        Claim("ours: fewer drops than Full Knowledge (saving)", fewer > 0.25, fewer),
    )
