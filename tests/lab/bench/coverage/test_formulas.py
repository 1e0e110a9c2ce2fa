"""The formulas as SQL text and on arrays give the same numbers, without Spark."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headgate.spark.estimates.earlier import known_texts
from headgate.spark.estimates.intervals.algebra import SqlAlgebra, terms
from headgate.spark.estimates.intervals.answers import careful_or_exact, share_or
from headgate.spark.estimates.intervals.borrowing import (
    FIRST,
    SECOND,
    borrowed,
    first_terms,
    second_terms,
)
from headgate.spark.estimates.intervals.careful import alone, share_ends
from headgate.spark.estimates.pooled import answer_text
from headgate.spark.estimates.remembering import KNOWN, LASTING, lasting_of
from headgate.spark.estimates.sql import FIELDS, SAMPLE
from headgate_lab.bench.coverage.arrays import ArrayAlgebra
from headgate_lab.bench.coverage.draws import Kept
from headgate_lab.bench.coverage.history import with_earlier
from headgate_lab.bench.coverage.intervals import sample_of, summed
from tests.spark.estimates.sql_reckoner import reckon

OPS = ArrayAlgebra()
#: Where only the ends are compared.
NO_ERROR = {"stderr": np.full(200, np.nan)}


def samples(rows: int) -> Any:
    """What groups' rows may look like: few and many, equal, zeros, skewed both ways."""
    rng = np.random.default_rng(2)
    n = rng.integers(2, 60, rows).astype(float)
    square = rng.lognormal(0.0, 2.0, rows) * (rng.random(rows) < 0.7)
    centre = rng.normal(3.0, 4.0, rows) * (rng.random(rows) < 0.9)
    third = rng.normal(0.5, 2.0, rows) * square**1.5
    coins, fixed = rng.random(rows) * (rng.random(rows) < 0.5), rng.random(rows) / n
    variance = coins * (square + centre**2) + fixed * square
    values = (n, n - 1.0, centre, square, third, coins, fixed, variance)
    return SimpleNamespace(**dict(zip(SAMPLE, values, strict=True)))


def same(found: dict[str, Any], expected: dict[str, Any], at: int) -> None:
    for name in ("stderr", "low", "high"):
        number = float(expected[name][at])
        assert (found[name] is None) == math.isnan(number), (name, at, found[name], number)
        if found[name] is not None:
            assert found[name] == pytest.approx(number, rel=2e-5, abs=2e-5), (name, at)


def finish(error: Any, low: Any, high: Any) -> Any:
    return OPS.answer({"stderr": error, "low": low, "high": high})


def test_a_groups_own_interval() -> None:
    s = samples(120)
    with np.errstate(all="ignore"):
        expected = alone(OPS, s.centre, s, finish)
    text = careful_or_exact("m.shed", 0.95, coins="r.coins", freedom="r.freedom")
    unknown = 0
    for i in range(120):
        one = {name: float(getattr(s, name)[i]) for name in SAMPLE}
        shape = one["third"] / (one["square"] * (1 - 1 / one["n"])) ** 1.5 if one["square"] else 0.0
        moments = {"rows": 9, "shed": 9, "thinned": 9, "w": 90.0, "skew": shape, "least": 0.0}
        moments |= {"most": 1.0 if one["square"] else 0.0}
        said = reckon(text, {"m": moments, "r": one | {"value": one["centre"]}})
        assert tuple(said) == FIELDS
        same(said, expected, i)
        unknown += said["low"] is None
        assert said["low"] is None or said["low"] < said["estimate"] < said["high"]
    assert 0 < unknown < 12
    few = {"rows": 9, "shed": 0, "thinned": 0, "w": 9.0, "skew": 0.0, "least": None, "most": None}
    whole = dict.fromkeys(SAMPLE, None) | {"value": 3.0}
    exact = reckon(text, {"m": few, "r": whole})
    assert (exact["stderr"], exact["low"], exact["high"], exact["sample"]) == (0.0, 3.0, 3.0, None)
    unseen = reckon(text, {"m": few | {"thinned": 5}, "r": whole})
    assert (unseen["estimate"], unseen["stderr"], unseen["low"]) == (3.0, None, None), "nulls were shed"
    single = reckon(text, {"m": few | {"shed": 1, "thinned": 1}, "r": whole | {"n": 1.0, "centre": 3.0}})
    assert single["stderr"] is single["low"] is None
    assert single["sample"]["n"] == 1.0


def test_the_interval_of_a_share() -> None:
    text = share_or("NOTHING", 0.95)
    for share in (0.0, 0.2, 1.0):
        n, weight, kept = 12, 5.0, 8
        value = (share * n * weight + kept) / (n * weight + kept)
        moments = {"kind": "boolean", "shed": n, "rows": n + kept, "w": n * weight + kept}
        moments |= {"v": n * weight * (weight - 1), "least": share > 0.9, "most": share > 0.0}
        row = {"value": value, "centre": share, "variance": 0.01}
        said = reckon(text, {"m": moments, "r": row, "NOTHING": None})
        low, high = share_ends(OPS, share, (1 - 1 / weight) / n, 1.959964)
        part = n * weight / (n * weight + kept)
        assert said["low"] == pytest.approx(value + part * (low - share), rel=1e-6)
        assert said["high"] == pytest.approx(value + part * (high - share), rel=1e-6)
        assert said["stderr"] == (0.1 if share == 0.2 else pytest.approx((high - low) * part / 3.919928))
        assert -1e-12 < said["low"] < said["high"] < 1.0 + 1e-12
    other = reckon(text, {"m": moments | {"kind": "double"}, "r": row, "NOTHING": 7})
    assert other == 7


def test_an_interval_with_the_pools_help() -> None:
    s, pool = samples(80), np.arange(80) // 20

    def summed(parts: dict[str, Any]) -> Any:
        return SimpleNamespace(
            **{
                k: np.bincount(pool, np.nan_to_num(np.broadcast_to(v, 80)))[pool]
                for k, v in parts.items()
            }
        )

    with np.errstate(all="ignore"):
        first = summed(first_terms(OPS, s))
        second = summed(second_terms(OPS, s, first))
        own = alone(OPS, s.centre, s, finish)
        expected = borrowed(OPS, s.centre, s, first, second, finish, own)
    text = answer_text("e0", "p1", "p2", 0.95)
    for i in range(80):
        sample = {name: float(getattr(s, name)[i]) for name in SAMPLE}
        estimate = dict.fromkeys(FIELDS) | {"estimate": sample["centre"], "sample": sample, "rows": 4}
        sums = {
            "p1": {name: float(getattr(first, name)[i]) for name in FIRST},
            "p2": {name: float(getattr(second, name)[i]) for name in SECOND},
        }
        said = reckon(text, {"e0": estimate, **sums})
        same(said, expected, i)
        assert (said["estimate"], said["rows"], said["sample"]) == (sample["centre"], 4, sample)
        assert said["low"] < said["estimate"] < said["high"]
    alike = reckon(text, {"e0": estimate | {"sample": None, "low": 1.0}, **sums})
    assert alike["low"] == 1.0


def test_an_interval_with_the_help_of_earlier_windows() -> None:
    """Eight windows of ten groups: the list of a group's earlier samples as SQL, and lags of arrays."""
    rng = np.random.default_rng(6)
    n = rng.integers(1, 9, 80).astype(float)
    m2 = rng.lognormal(1.0, 1.0, 80) * (rng.random(80) < 0.8) * (n > 1)
    weight = np.where(rng.random(80) < 0.9, 8.0, 1.0)
    groups, windows = np.arange(80) % 10, np.arange(80) // 10
    mean = rng.normal(5.0, 2.0, 10)[groups] + rng.normal(0.0, 0.5, 80)
    kept = Kept(
        np.arange(80), windows, n, n * weight, mean, m2, m2**1.5 * rng.normal(0.5, 1.0, 80), weight,
        np.zeros(80, np.int64),
    )  # fmt: skip
    s = sample_of(kept, "mean", coins=False)
    samples = [
        None
        if weight[i] == 1.0
        else {name: None if np.isnan(x := float(getattr(s, name)[i])) else x for name in SAMPLE}
        for i in range(80)
    ]
    measured, free = with_earlier(kept, groups, "mean", coins=False)
    with np.errstate(all="ignore"):
        first = summed(first_terms(OPS, s), windows, weight > 1.0, FIRST)
        second = summed(second_terms(OPS, s, first), windows, weight > 1.0, SECOND)
    texts = known_texts("e0.sample", "past")
    pool = answer_text("e0", "p1", "p2", 0.95, "known", "lasting")
    own = answer_text("e0", "none1", "none2", 0.95, "known", "lasting")
    moved = 0
    parts = lasting_of(SqlAlgebra(0.95), terms("e0.sample", SAMPLE), terms("known", KNOWN))
    every: dict[int, dict[str, Any]] = {}
    for i in range(80):
        if samples[i] is None:
            continue
        past = [samples[j] for j in range(i % 10, i, 10) if samples[j] is not None]
        ends = {end: float(measured["alone"][end][i]) for end in ("low", "high")}
        ends = {end: None if math.isnan(x) else x for end, x in ends.items()} | {"stderr": 1.0}
        names: dict[str, Any] = {"past": past}
        names["e0"] = dict.fromkeys(FIELDS) | {"estimate": mean[i], "sample": samples[i]} | ends
        for step in texts:
            names |= {name: reckon(text, names) for name, text in step.items()}
        names["known"] = names["past_known"]
        every[i] = names | {"lent": {name: reckon(str(part), names) for name, part in parts.items()}}
    for i, names in every.items():
        if n[i] < 2:
            continue
        like = [other["lent"] for j, other in every.items() if j // 10 == i // 10]
        names["lasting"] = {name: sum(one[name] or 0.0 for one in like) for name in LASTING}
        assert tuple(names["known"]) == KNOWN
        assert names["past_earlier"]["free"] == pytest.approx(free[i])
        names["p1"] = {name: float(getattr(first, name)[i]) for name in FIRST}
        names["p2"] = {name: float(getattr(second, name)[i]) for name in SECOND}
        names |= {"none1": dict.fromkeys(FIRST, 0.0), "none2": dict.fromkeys(SECOND, 0.0)}
        same(reckon(pool, names) | {"stderr": None}, measured["pooled, earlier"] | NO_ERROR, i)
        said = reckon(own, names)
        if names["known"]["earlier"] > 0.0:
            same(said | {"stderr": None}, measured["earlier"] | NO_ERROR, i)
            moved += 1
        else:
            assert (said["low"], said["high"]) == (names["e0"]["low"], names["e0"]["high"])
    assert moved > 40
