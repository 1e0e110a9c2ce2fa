"""A trace as a recording: how many rows came when, and of which groups. It knows nothing of batches."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.errors import BadArgument
from headgate.whatif.recording import RecordedBatch, Recording

__all__ = ["recorded_by_trace"]

#: Lines that are one row each are counted by stretches of so many seconds.
_STRETCH_S = 1.0
_TIME, _ROWS, _GROUP = "time", "rows", "group"
#: The most groups that are told apart.
_MOST_GROUPS = 50


def recorded_by_trace(
    lines: Iterable[Mapping[str, Any]],
    first_groups: Sequence[str] = (),
    since: float | None = None,
    until: float | None = None,
    most: int = 1 << 30,
) -> Recording:
    """Lines with a `time`, and perhaps `rows` that came from then on and the `group` that they are of.

    A time is seconds since any beginning, or ISO 8601. Several lines may have the same time, one for
    each group. Without `rows` each line is one row.
    """
    counts: dict[float, dict[str, int]] = {}
    evenly = True
    for number, line in enumerate(lines, start=1):
        at = _instant(line.get(_TIME), number)
        if (since is not None and at < since) or (until is not None and at > until):
            continue
        rows = 1
        if _ROWS in line:
            rows = _count(line[_ROWS], number)
        else:
            at, evenly = math.floor(at / _STRETCH_S) * _STRETCH_S, False
        group = line.get(_GROUP)
        of_group = counts.setdefault(at, {})
        name = "" if group is None else str(group)
        of_group[name] = of_group.get(name, 0) + rows
    if len(counts) < 2:
        raise BadArgument(
            f"{len(counts)} different times in this trace: give a column 'time' with the beginnings of "
            "stretches of time, and 'rows' that came in each"
        )
    labels = _labels(counts, first_groups)
    keys = {name: key for key, name in labels.items()}
    return Recording.of(
        _stretches(counts, keys, evenly),
        most,
        kind="trace",
        labels=labels,
        first_groups=tuple(first_groups),
    )


def _stretches(
    counts: Mapping[float, Mapping[str, int]], keys: Mapping[str, int], evenly: bool
) -> Iterable[RecordedBatch]:
    times = sorted(counts)
    usual = statistics.median(b - a for a, b in itertools.pairwise(times)) if evenly else _STRETCH_S
    for at, after in itertools.zip_longest(times, times[1:]):
        rows = sum(counts[at].values())
        groups = {keys[name]: n for name, n in counts[at].items() if name in keys}
        yield RecordedBatch(at, rows, rows, groups=groups)
        if after is not None and after - at > 1.5 * usual:
            yield RecordedBatch(at + usual, 0, 0)  # nothing came until then


def _labels(counts: Mapping[float, Mapping[str, int]], first: Sequence[str]) -> dict[int, str]:
    """Keys from 1 on: the valuable groups in their order, then the largest ones."""
    sums: dict[str, int] = {}
    for of_group in counts.values():
        for name, rows in of_group.items():
            if name:
                sums[name] = sums.get(name, 0) + rows
    for name in first:
        if name not in sums:
            known = ", ".join(sorted(sums)[:20]) or "none: the trace has no column 'group'"
            raise BadArgument(f"no group {name!r} in this trace; groups there: {known}")
    others = sorted((name for name in sums if name not in first), key=lambda n: (-sums[n], n))
    return dict(enumerate([*first, *others[: max(0, _MOST_GROUPS - len(first))]], start=1))


def _instant(value: Any, number: int) -> float:
    found = math.nan
    if isinstance(value, datetime):
        found = value.timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str):
        try:
            found = float(value)
        except ValueError:
            try:
                found = datetime.fromisoformat(value.strip()).timestamp()
            except ValueError:
                found = math.nan
    if not math.isfinite(found):
        raise BadArgument(
            f"line {number}: time={value!r} is neither seconds nor a time such as 2026-05-01T08:00:00; "
            "a trace has the columns time, rows and, if you like, group"
        )
    return found


def _count(value: Any, number: int) -> int:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        raise BadArgument(f"line {number}: rows={value!r} is no number of rows, 0 or more")
    return round(found)
