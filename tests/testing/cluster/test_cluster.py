"""Gates, a guard, a join and a site on a cluster that shares no folder, with a kill of every kind.

The workers' clocks are five minutes off, one behind and one ahead (`conftest`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from headgate.testing.cluster.driver import Driver
from tests.harness.session_settings import FEW_ROWS
from tests.testing.cluster.bench import Trial
from tests.testing.cluster.test_doctor_on_cluster import check_report

pytestmark = pytest.mark.spark
QUICK = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


@pytest.mark.timeout(600)  # on a machine that does much else
def test_kills_of_executors_and_of_the_driver_change_no_row(trial: Callable[[], Trial]) -> None:
    """And the last driver is asked what the doctor finds on this cluster, which is well."""
    one = trial()
    ids = one.put_input(4)  # two files a batch: two batches, a task on each worker
    one.hold("task/plain/0")
    one.hold("driver/plain/1")
    first = one.submit("gate", conf=FEW_ROWS)
    one.await_names("seen/plain/0/", 2, first)
    one.kill_executors(0)
    one.release("task/plain/0")
    one.await_names("sunk/plain/1/", 1, first)
    one.kill_driver(first)
    one.change_rate("plain", 0.2)
    one.release("driver/plain/1")

    steps = ("gate", "settle", "backfilled", "origin", "doctor")
    elsewhere = {"DOCTOR_CONTROL": f"s3://{one.bucket}/doctor"}
    second = one.submit(*steps, conf=FEW_ROWS, environment=elsewhere)
    found = second.result()
    assert one.kills == 2
    replayed, alike = one.jaccard("plain")
    assert (replayed, alike) == (2, 1.0), one.attempts("plain")
    _each_row_once(one, ids, {"plain": one.sunk("plain")}, found["backfilled"])
    _from_the_archive(found, first, second)
    check_report(found["doctor"], one.machines)
    assert one.names("doctor/") == [], "it leaves nothing behind"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_guard_and_a_gate_by_group_under_kills_and_speculation(trial: Callable[[], Trial]) -> None:
    one = trial()
    ids = one.put_input(8)  # four batches
    one.hold("task/plain/0")
    if sys.platform == "linux":  # where each worker has an address of its own
        one.hold("slow/plain/1")
    one.hold("driver/plain/2")
    first = one.submit("gates", conf=QUICK)
    one.await_names("seen/plain/0/", 2, first)
    one.kill_executors(0)
    one.release("task/plain/0")
    if sys.platform == "linux":
        one.await_names("second/plain/1/", 1, first)
        one.release("slow/plain/1")
    one.await_names("sunk/plain/2/", 1, first)
    one.kill_driver(first)
    one.change_rate("plain", 0.2)
    one.change_rate("drawn", 0.2)
    one.release("driver/plain/2")

    second = one.submit("gates", "settle", "backfilled", "sunk", "origin", conf=QUICK)
    found = second.result()
    assert one.kills == 2
    replayed, alike = one.jaccard("plain")
    assert (replayed >= 2, alike) == (True, 1.0), one.attempts("plain")
    replayed, alike = one.jaccard("drawn")
    assert replayed == 0 or alike == 1.0, one.attempts("drawn")
    kept = {"plain": one.sunk("plain"), "drawn": found["sunk"]}
    _each_row_once(one, ids, kept, found["backfilled"], "guarded")
    _from_the_archive(found, first, second)


def _each_row_once(
    one: Trial, ids: list[int], kept: dict[str, list[int]], shed: dict[str, list[int]], *more: str
) -> None:
    """Kept or shed, and the ledgers, also those of `more`, are complete and say which."""
    audits = one.audits()
    assert sorted(audits) == sorted([*kept, *more])
    for name, audit in audits.items():
        assert audit.complete, (name, audit.to_json())
        assert not audit.unbalanced
    for name, rows in kept.items():
        assert sorted([*rows, *shed[name]]) == ids, name
        assert (audits[name].kept, audits[name].shed) == (len(rows), len(shed[name]))
        assert audits[name].arrived == len(ids)


def _from_the_archive(found: dict[str, Any], first: Driver, second: Driver) -> None:
    origin = found["origin"]
    assert origin["cwd"] == str(second.folder) != str(first.folder)
    assert all("headgate.zip" in path for path in (origin["driver"], *origin["executors"])), (
        "in the archive, and from nowhere else"
    )


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_site_and_a_join(trial: Callable[[], Trial]) -> None:
    one = trial()
    ids = one.put_input(4)
    # Spark starts a Python process for a join's state on the driver, and does not tell it of --py-files.
    found = one.submit("site", "join", environment={"PYTHONPATH": str(one.machines.archive)}).result()
    audits = one.audits()
    assert sorted(audits) == ["at-site", "joined"]
    for name, audit in audits.items():
        assert audit.complete, (name, audit.to_json())
    assert found["join"] == len(ids)
    assert found["site"]["rows"] == audits["at-site"].kept
    assert audits["at-site"].arrived == len(ids)
