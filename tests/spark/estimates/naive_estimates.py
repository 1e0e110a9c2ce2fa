"""Slow, obvious twins of the estimators: one group's values (None for null) and weights, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headgate.spark.estimates.intervals.student import normal_quantile, t_quantile
from headgate.spark.estimates.quantiles import FAN, FREQUENCY

Values = Sequence[float | None]
Estimate = dict[str, float | None]


def kind(w: float) -> str:
    if w == 1.0:
        return "kept"
    units = w * 2**21
    return "counted" if w < 2**20 and units == math.floor(units) and units % 2 == 1 else "coin"


def t(freedom: float, confidence: float) -> float:
    freedom = max(1.0, freedom)
    below = math.floor(freedom)
    low, high = t_quantile(below, confidence), t_quantile(below + 1, confidence)
    return low + (high - low) * (1 / below - 1 / freedom) / (1 / below - 1 / (below + 1))


def v(w: float) -> float:
    return w * (w - 1.0)


def worth(weights: Sequence[float]) -> float:
    """How many rows the variance has."""
    return sum(map(v, weights)) ** 2 / sum(v(w) ** 2 for w in weights)


def whole(weights: Sequence[float]) -> bool:
    return abs(sum(weights) - round(sum(weights))) <= len(weights) * 2.0**-21


def empty() -> Estimate:
    return dict.fromkeys(("estimate", "stderr", "low", "high", "share")) | {"rows": 0}


def moved(x: float, skew: float) -> float:
    """Hall's transformation of t, undone."""
    if abs(skew) < 1e-6:
        return x
    inner = 1.0 + skew * (x - skew / 6.0)
    return 3.0 / skew * (math.copysign(abs(inner) ** (1 / 3), inner) - 1.0)


def careful(
    plain: Estimate, shed: Sequence[tuple[float, float]], coins: float, fixed: float, freedom: float,
    *, skewed: bool = True, confidence: float = 0.95,
) -> Estimate:  # fmt: skip
    """The careful interval beside the plain one: of shed rows (value, weight), and the factors of their
    variance in that of the estimate, for rows whose number is luck and for others."""
    if len(shed) < 2 or plain["stderr"] is None or plain["estimate"] is None:
        return plain
    n, every = worth([w for _, w in shed]), math.fsum(v(w) for _, w in shed)
    centre = math.fsum(v(w) * q for q, w in shed) / every
    square = math.fsum(v(w) * (q - centre) ** 2 for q, w in shed) / every * n / (n - 1)
    middle = math.fsum(q for q, _ in shed) / len(shed)
    second, third = (math.fsum((q - middle) ** k for q, _ in shed) / len(shed) for k in (2, 3))
    cubes, variance = 0.0, plain["stderr"] ** 2
    equal = len({q for q, _ in shed}) == 1
    if equal:
        spread = centre**2 / (n + 1)
        variance += (coins + fixed) * spread
    else:
        spread = square
        cubes = third / second**1.5 * (square * (n - 1) / n) ** 1.5 if skewed else 0.0
    if variance <= 0.0:
        return plain | dict.fromkeys(("stderr", "low", "high"))
    luck = 0.25 * (3 * spread * centre + centre**3)
    skew = (coins * (cubes + luck) + fixed * cubes) * math.sqrt((coins + fixed) / n) / variance**1.5
    q, error = t(freedom, confidence), math.sqrt(variance)
    skew = max(-min(3.0, 6 * q), min(3.0, 6 * q, skew))
    low, high = (plain["estimate"] - error * moved(x, skew) for x in (q, -q))
    return plain | {"stderr": error, "low": low, "high": high}


def careful_mean(y: Values, weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    shed = [(q, w) for q, w in zip(y, weights, strict=True) if q is not None and w > 1.0]
    every = sum(w for q, w in zip(y, weights, strict=True) if q is not None)
    plain = mean(y, weights, confidence)
    n = worth([w for _, w in shed]) if shed else 1.0
    fixed = sum(v(w) for _, w in shed) / every**2 if every else 0.0
    return careful(plain, shed, 0.0, fixed, n - 1, confidence=confidence)


def careful_total(y: Values, weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    coins = [(q, w) for q, w in zip(y, weights, strict=True) if q is not None and kind(w) == "coin"]
    counted = [(q or 0.0, w) for q, w in zip(y, weights, strict=True) if kind(w) == "counted"]
    luck, known = sum(v(w) for _, w in coins), sum(v(w) for _, w in counted)
    if not (len(counted) > 1 and whole([w for _, w in counted])):
        luck, known = luck + known, 0.0
    plain = total(y, weights, confidence)
    parts = []
    for rows, about in ((coins, False), (counted, known > 0.0)):
        if rows:
            n, centre = worth([w for _, w in rows]), 0.0
            if about:
                centre = math.fsum(v(w) * q for q, w in rows) / math.fsum(v(w) for _, w in rows)
            part = math.fsum(v(w) * (q - centre) ** 2 for q, w in rows) * (n / (n - 1) if about else 1)
            parts.append((part, max(1.0, n - 1)))
    bottom = sum(p * p / f for p, f in parts)
    shed = coins + counted
    freedom = worth([w for _, w in shed]) - 1 if shed else 1.0
    if len({q for q, _ in shed}) > 1 or luck > 0.0:
        freedom = sum(p for p, _ in parts) ** 2 / bottom if bottom else freedom
    return careful(plain, shed, luck, known, freedom, confidence=confidence)


def exact(weights: Sequence[float]) -> bool:
    """Whether nothing was shed; rows without a value count, as those they stand for may have one."""
    return all(w <= 1.0 for w in weights)


def answer(
    value: float, stderr: float | None, low: Any, high: Any, weights: Sequence[float]
) -> Estimate:
    rows = len(weights)
    return {"estimate": value, "stderr": stderr, "low": low, "high": high, "rows": rows,
            "share": rows / sum(weights)}  # fmt: skip


def ratio(a: Values, b: Values, weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    rows = [(p, q, w) for p, q, w in zip(a, b, weights, strict=True) if p is not None and q is not None]
    if not rows:
        return empty()
    base = math.fsum(q * w for _, q, w in rows)
    r = math.fsum(p * w for p, _, w in rows) / base
    seen = [w for *_, w in rows]
    shed = [(p - r * q, w) for p, q, w in rows if w > 1.0]
    if len(shed) < 2:
        error, end = (0.0, r) if exact(weights) else (None, None)
        return answer(r, error, end, end, seen)
    if all(kind(w) == "counted" for _, w in shed) and whole([w for _, w in shed]):
        centre = math.fsum(v(w) * e for e, w in shed) / math.fsum(v(w) for _, w in shed)
        shed = [(e - centre, w) for e, w in shed]
    n = worth([w for _, w in shed])
    error = math.sqrt(math.fsum(v(w) * e * e for e, w in shed) * n / (n - 1)) / abs(base)
    half = t(n - 1, confidence) * error
    return answer(r, error, r - half, r + half, seen)


def mean(y: Values, weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    return ratio(y, [1.0] * len(y), weights, confidence)


def total(y: Values, weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    seen = [(q, w) for q, w in zip(y, weights, strict=True) if q is not None]
    if not seen:
        return empty()
    value = math.fsum(q * w for q, w in seen)
    coins = [(q, w) for q, w in seen if kind(w) == "coin"]
    counted = [(q or 0.0, w) for q, w in zip(y, weights, strict=True) if kind(w) == "counted"]
    variance = math.fsum(v(w) * q * q for q, w in coins)
    parts = [(variance, max(1.0, worth([w for _, w in coins]) - 1) if coins else 1.0)]
    if counted:
        n = worth([w for _, w in counted])
        if len(counted) > 1 and whole([w for _, w in counted]):
            centre = math.fsum(v(w) * q for q, w in counted) / math.fsum(v(w) for _, w in counted)
            part = math.fsum(v(w) * (q - centre) ** 2 for q, w in counted) * n / (n - 1)
        else:
            part = math.fsum(v(w) * q * q for q, w in counted)
        parts.append((part, max(1.0, n - 1)))
        variance += part
    weight = [w for _, w in seen]
    if len(coins) + len(counted) < 2 and not exact(weights):
        return answer(value, None, None, None, weight)
    pull = 0.0
    if coins:
        kw = math.fsum(w for _, w in coins)
        pull = math.fsum(v(w) for _, w in coins) / kw * math.fsum(q * w for q, w in coins) / kw
    bottom = sum(p * p / f for p, f in parts)
    z = t(variance**2 / bottom if bottom else 1.0, confidence)
    half = z * math.sqrt(variance + (z * pull / 2) ** 2)
    middle = value + z * z * pull / 2
    return answer(value, math.sqrt(variance), middle - half, middle + half, weight)


def count(weights: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Of all rows: the ends by bisection on the score, not by its solution."""
    if not weights:
        return empty() | {"estimate": 0.0}
    coins = [w for w in weights if kind(w) == "coin"]
    counted = [w for w in weights if kind(w) == "counted"]
    value = math.fsum(weights)
    if not whole(counted):
        coins += counted
    if not coins:
        return answer(round(value), 0.0, round(value), round(value), weights)
    variance = math.fsum(map(v, coins))
    u = variance / math.fsum(coins)
    z = normal_quantile(confidence)

    def inside(n: float) -> bool:
        return (n - value) ** 2 <= z * z * (variance + u * (n - value))

    ends = []
    for direction in (-1.0, 1.0):
        near, far = 0.0, 10.0 * (z * z * u + z * math.sqrt(variance))
        for _ in range(200):
            half = 0.5 * (near + far)
            near, far = (half, far) if inside(value + direction * half) else (near, half)
        ends.append(value + direction * near)
    return answer(value, math.sqrt(variance), max(ends[0], len(weights)), ends[1], weights)


def quantile(y: Values, weights: Sequence[float], p: float, confidence: float = 0.95) -> Estimate:
    rows = sorted((q, w) for q, w in zip(y, weights, strict=True) if q is not None)
    if not rows:
        return empty()
    often = [(q, round(w * FREQUENCY)) for q, w in rows]

    def at(share: float) -> float:
        position = (sum(f for _, f in often) - 1) * share
        pair = []
        for index in (math.floor(position), math.ceil(position)):
            passed = 0
            for q, f in often:
                passed += f
                if index < passed:
                    pair.append(q)
                    break
        return pair[0] + (pair[1] - pair[0]) * (position - math.floor(position))

    def end(reach: float, side: int) -> float | None:
        if reach > 1.0:
            return None
        share = (lambda g: p * (1 - g)) if side < 0 else (lambda g: p + (1 - p) * g)
        i = max(j for j in range(len(FAN) - 1) if FAN[j] <= reach)
        low, high = at(share(FAN[i])), at(min(1.0, share(FAN[i + 1])))
        return low + (high - low) * (reach - FAN[i]) / (FAN[i + 1] - FAN[i])

    seen = [w for _, w in rows]
    shed = [w for w in seen if w > 1.0]
    if len(shed) < 2 and not exact(weights):
        return answer(at(p), None, None, None, seen)
    z = t(worth(shed) - 1 if shed else 1.0, confidence)
    width = z * math.sqrt(p * (1 - p) * sum(map(v, seen))) / sum(seen)
    low, high = end(width / p, -1), end(width / (1 - p), 1)
    error = None if low is None or high is None else (high - low) / (2 * z)
    return answer(at(p), error, low, high, seen)
