"""Kernels are compiled before a batch needs them; and content scores are one thing in two places."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.joins.conditions import equal, inner_product, overlap, predicate, subset, superset
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.rows import SetRows
from headgate.joins.warm_up import warm_up
from headgate_lab.papers.join.content import item_table, scores

CONDITIONS = [
    overlap("x", at_least=3),
    subset("x"),
    superset("x"),
    equal("x"),
    inner_product("x", at_least=0.5),
    predicate(lambda a, b: True, "x"),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: type(c).__name__)
def test_every_condition_warms_up(condition) -> None:
    warm_up(condition)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_compiled_scores_are_those_of_the_pure_code(k) -> None:
    random = np.random.default_rng(k)
    sets = [
        frozenset(random.choice(100, random.integers(0, 7), replace=False).tolist()) for _ in range(80)
    ]

    def rows(some):
        offsets = np.concatenate(([0], np.cumsum([len(s) for s in some])))
        return SetRows.of(np.zeros(len(some), np.int64), offsets, [x for s in some for x in sorted(s)])

    probes, block = sets[:30], sets[30:]
    counts = ItemCounts.of(rows(block))
    shares = np.array([[sum(x in s for s in block) / len(block) for x in range(100)]])
    pure = scores(item_table(probes, 100), shares, k)[:, 0]
    found = densities(overlap("x", at_least=k), rows(probes), counts)
    assert found == pytest.approx(np.minimum(1.0, pure), abs=1e-6)
