"""How fast blocks are compared, scored and chosen: one core, CPU time, best of five.

Rates are in comparisons a second: probes times rows of the block, also where an index looks at fewer.
Blocks have 500, 10,000 and 100,000 rows. The sets are those of the paper's experiments (five items of
about a hundred; here 128, so that 1 % of the pairs share two), and for signatures by hash eight items of
50,000. Indexes of a block (bit planes, postings, order of keys) are built before the clock starts, since
many probes share one; `index_ns` is what they cost a row of the block. Dense products use the BLAS of
numpy: its threads wait by spinning, so set OPENBLAS_NUM_THREADS=1 to see what a core does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from headgate.joins.blocks_match import Reach, match
from headgate.joins.choice import choose
from headgate.joins.conditions import Condition, inner_product, overlap, subset
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.rows import KeyRows, Rows, SetRows, VectorRows, WeightedRows, compiled
from headgate_lab.bench.progress import bench_progress

__all__ = ["measure"]

BLOCKS = {"500": 500, "10k": 10_000, "100k": 100_000}
_ALWAYS = Reach(1, 1)
_TWO = overlap("items", at_least=2)


def measure(quick: bool) -> dict[str, Any]:
    """Comparisons a second by kernel and block, nanoseconds a score, milliseconds a choice."""
    work = 2e7 if quick else 2e8
    random = np.random.default_rng(7)
    table: dict[str, Any] = {}
    with bench_progress() as progress:
        task = progress.add_task("kernels", total=len(BLOCKS) + 2)
        for name, size in BLOCKS.items():
            for kernel, rate in _block(random, size, max(20, int(work / size))).items():
                table.setdefault(kernel, {})[name] = rate
            progress.advance(task)
        scores = _scores(random) | {"index_ns": _indexes(random)}
        progress.advance(task)
        chosen = _choice(random)
        progress.advance(task)
    return {
        "comparisons_s": table,
        **scores,
        "choice_ms": chosen,
        "quick": quick,
        "cores": os.cpu_count(),
    }


def _best(call: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of CPU time, after a call that may compile."""
    call()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def _block(random: np.random.Generator, size: int, probes: int) -> dict[str, float]:
    """Comparisons a second of every kernel for blocks of one size."""
    found = {}

    def run(name: str, condition: Condition, probe: Rows, rows: Rows, share: float = 1.0) -> None:
        some = None if share == 1.0 else np.arange(max(1, int(probe.n * share)))
        seconds = _best(lambda: match(condition, probe, rows, some, _ALWAYS))
        found[name] = (probe.n if some is None else len(some)) * rows.n / seconds

    ours, theirs = _sets(random, probes, 128, 5), _sets(random, size, 128, 5)
    run("overlap, pairs written, 1 % match", _TWO, ours, theirs)
    run("overlap, pairs written, .05 % match", overlap("items", at_least=3), ours, theirs)
    run("subset", subset("items"), _sets(random, probes, 128, 2), theirs)
    wide, many = _sets(random, probes, 50_000, 8), _sets(random, size, 50_000, 8)
    run("overlap of 3, 8 items of 50,000 by hash", overlap("items", at_least=3), wide, many)
    run("overlap of 1, 8 items of 50,000 by hash", overlap("items", at_least=1), wide, many, 0.1)
    found |= _one_at_a_time(ours, theirs)

    times = np.zeros(max(size, probes), np.int64)
    keys, stored = random.integers(0, 5000, probes), random.integers(0, 5000, size)
    probe, rows = KeyRows.of(times[:probes], keys), KeyRows.of(times[:size], stored)
    window = compiled().Window(probe.time, rows.time, 1, 1, 0, 0)
    every, kernels = np.arange(probes, dtype=np.int32), compiled()
    every.setflags(write=False)
    nested = _best(lambda: kernels.key_pairs(every, probe.key, rows.key, window))
    found["equality, nested"] = probes * size / nested
    found["equality, sorted block"] = (
        probes * size / _best(lambda: kernels.key_runs(every, probe.key, *rows.sorted, window))
    )

    vectors = [random.normal(size=(count, 100)).astype(np.float32) for count in (probes, size)]
    dense = [VectorRows.of(times[: len(part)], part) for part in vectors]
    run("inner product, dense, 100 numbers", inner_product("v", at_least=25.0), dense[0], dense[1], 0.1)
    weighted = [
        WeightedRows.of(part.time, part.offsets, part.items, random.random(len(part.items)))
        for part in (ours, theirs)
    ]
    sparse = inner_product("w", at_least=1.0)
    run("inner product, sparse, 5 items of 128", sparse, weighted[0], weighted[1])
    return found


def _one_at_a_time(ours: SetRows, theirs: SetRows) -> dict[str, float]:
    """What a batch saves: a compiled call a probe, and numpy a probe."""
    kernels = compiled()
    block = [kernels.SetBlock(x.lo, x.hi, x.lost, x.offsets, x.items) for x in (ours, theirs)]
    window = kernels.Window(ours.time, theirs.time, 1, 1, *theirs.span)
    every = np.arange(ours.n, dtype=np.int32)
    every.setflags(write=False)
    some = every[: max(1, ours.n // 20)]

    def calls() -> None:
        for index in range(len(some)):
            kernels.set_pairs(kernels.OVERLAP, 2, True, some[index : index + 1], *block, window)

    def arrays() -> None:
        for index in some:
            common = np.bitwise_count(theirs.lo & ours.lo[index])
            common += np.bitwise_count(theirs.hi & ours.hi[index])
            np.flatnonzero(common >= 2)

    compared = len(some) * theirs.n
    return {
        "overlap, signatures scanned, 1 % match": ours.n * theirs.n
        / _best(lambda: kernels.set_pairs(kernels.OVERLAP, 2, True, every, *block, window)),
        "overlap, signatures, one compiled call a probe": compared / _best(calls),
        "overlap, numpy, one probe at a time": compared / _best(arrays),
        "overlap, counted only": ours.n * theirs.n
        / _best(lambda: kernels.count_overlaps(2, ours.lo, ours.hi, theirs.lo, theirs.hi)),
    }  # fmt: skip


def _scores(random: np.random.Generator) -> dict[str, Any]:
    """Nanoseconds to score a (probe row, block), and to count a row's items."""
    found: dict[str, Any] = {}
    for name, items, size, need in (("5 of 128", 128, 5, 2), ("8 of 50,000", 50_000, 8, 3)):
        probe, rows = _sets(random, 10_000, items, size), _sets(random, 10_000, items, size)
        counts, condition = ItemCounts.of(rows), overlap("items", at_least=need)
        score = _best(lambda p=probe, c=counts, k=condition: densities(k, p, c))  # type: ignore[misc]
        found[f"score_ns, {name}"] = score / probe.n * 1e9
        # a copy of the rows, since the buckets of items are kept beside them
        fresh = [replace(rows) for _ in range(6)]
        found[f"count_ns, {name}"] = _best(lambda f=fresh: ItemCounts.of(f.pop())) / rows.n * 1e9  # type: ignore[misc]
    return found


def _indexes(random: np.random.Generator) -> dict[str, float]:
    """Nanoseconds a row to build the indexes of a block of 10,000 rows."""
    narrow, wide = _sets(random, 10_000, 128, 5), _sets(random, 10_000, 50_000, 8)
    keys = random.integers(0, 5000, 10_000)
    kernels = compiled("index_kernels")
    calls: dict[str, Callable[[], Any]] = {
        "bit planes, 5 of 128": lambda: kernels.bit_planes(narrow.lo, narrow.hi),
        "postings, 8 of 50,000": lambda: kernels.build_postings(wide.offsets, wide.items),
        "sorted keys": lambda: KeyRows.of(narrow.time, keys).sorted,
    }
    return {name: _best(call) / 10_000 * 1e9 for name, call in calls.items()}


def _choice(random: np.random.Generator) -> float:
    """Milliseconds to choose among 10,000 probe rows x 40 blocks with a tenth of the budget."""
    shares = [random.exponential(0.01, 10_000) for _ in range(40)]
    rows = np.full(40, 10_000)
    return 1e3 * _best(lambda: choose(shares, rows, 4e8, 300.0))


def _sets(random: np.random.Generator, count: int, items: int, size: int) -> SetRows:
    """Sets of so many items, drawn evenly; a few have one less, where an item was drawn twice."""
    flat = random.integers(0, items, count * size)
    return SetRows.of(np.zeros(count, np.int64), np.arange(count + 1) * size, flat)
