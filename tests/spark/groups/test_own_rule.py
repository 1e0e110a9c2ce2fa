"""A policy that draws rows by a rule of its own: one class, outside of the package, on a real stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headgate as hg
from headgate.testing.contracts import check_policy
from tests.spark.conftest import records

ROUTES = {"a": 50, "b": 7, "c": 2}


@dataclass(frozen=True)
class AtMost(hg.Policy):
    """No more than so many rows of each group and batch, while there is any shedding."""

    by: str
    most: int

    def plan(self, budget: hg.Budget, groups: hg.GroupStats) -> hg.Plan:
        return hg.Plan(budget.keep)

    @property
    def drawing(self) -> hg.Drawing:
        most = self.most
        return hg.Drawing(
            by=(self.by,),
            rule=f"at most {most}",
            quotas=lambda sizes, plan: np.minimum(sizes, most),
        )


def _rows(first: int) -> list[dict[str, Any]]:
    routes = [route for route, count in ROUTES.items() for _ in range(count)]
    return [{"id": first + i, "route": route, "fare": 1.0} for i, route in enumerate(routes)]


def test_it_passes_the_shared_checks() -> None:
    check_policy(AtMost("route", 5))


def test_a_stream_is_drawn_by_it_and_a_backfill_gives_the_rest(
    spark: Any, file_stream: Any, run_all: Any, control: Path, tmp_path: Path
) -> None:
    stream, policy = file_stream(), AtMost("route", 5)
    for batch in range(2):
        stream.add(_rows(100 * batch))
    gate = hg.gate("own", rate=0.5, policy=policy, identity="id", control=control)
    kept = run_all(stream.frame().transform(gate))
    assert Counter(row.route for row in kept) == {"a": 10, "b": 10, "c": 4}
    for route, count in ROUTES.items():
        assert sum(r["_weight"] for r in kept if r.route == route) == pytest.approx(2 * count, rel=1e-4)
    books = records(control, "own")
    assert [(r.arrived, r.kept, r.shed) for r in books] == [(59, 12, 47)] * 2
    assert all(record.balanced for record in books)

    schema = "id bigint, route string, fare double"
    read = hg.file_rows(lambda paths: spark.read.schema(schema).json(paths), tmp_path / "checkpoint")
    with pytest.raises(hg.BadArgument, match=r"rule 'at most 5' of a policy of its own.*policy="):
        hg.backfill(spark, "own", control, read)
    shed = hg.backfill(spark, "own", control, read, policy=policy).collect()
    everything = {row["id"] for batch in range(2) for row in _rows(100 * batch)}
    assert sorted([r.id for r in kept] + [r.id for r in shed]) == sorted(everything)


def test_a_batch_frame_is_drawn_by_it(spark: Any) -> None:
    frame = spark.createDataFrame(_rows(0))
    kept = frame.transform(hg.gate("own", rate=0.5, policy=AtMost("route", 5), identity="id")).collect()
    assert Counter(row.route for row in kept) == {"a": 5, "b": 5, "c": 2}


def test_quotas_for_other_groups_than_there_are_are_refused(spark: Any) -> None:
    @dataclass(frozen=True)
    class Wrong(AtMost):
        @property
        def drawing(self) -> hg.Drawing:
            return hg.Drawing(by=("route",), rule="wrong", quotas=lambda sizes, plan: np.zeros(1))

    frame = spark.createDataFrame(_rows(0))
    with pytest.raises(hg.BadArgument, match=r"quotas of shape \(1,\) for 3 groups"):
        frame.transform(hg.gate("own", rate=0.5, policy=Wrong("route", 5), identity="id")).collect()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rule": "nobody's"}, "needs quotas="),
        ({"rule": "senate", "quotas": np.minimum}, "there already"),
        ({"rule": "mine", "quotas": np.minimum, "draw": "fixd"}, "not one of 'fixed', 'coin'"),
        ({"rule": "mine", "quotas": np.minimum, "overflow": "random"}, "leave overflow="),
        ({"rule": "senate", "pane_us": 5}, "needs time="),
    ],
)
def test_a_drawing_that_cannot_be_is_refused_at_the_call(spark: Any, wrong: Any, said: str) -> None:
    @dataclass(frozen=True)
    class Wrong(AtMost):
        @property
        def drawing(self) -> hg.Drawing:
            return hg.Drawing(by=("route",), **wrong)

    frame = spark.createDataFrame(_rows(0))
    with pytest.raises(hg.BadArgument, match=said):
        frame.transform(hg.gate("own", rate=0.5, policy=Wrong("route", 5), identity="id"))
