"""Gates, a guard, a join and a site on a cluster that shares no folder, with a kill of every kind.

The workers' clocks are five minutes off, one behind and one ahead (`conftest`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.testing.cluster.bench import Trial

pytestmark = pytest.mark.spark
QUICK = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


@pytest.mark.timeout(600)  # on a machine that does much else
def test_kills_of_executors_and_of_the_driver_change_no_row(trial: Callable[[], Trial]) -> None:
    one = trial()
    ids = one.put_input(8)  # two files a batch: four batches, a task on each worker
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
    audits = one.audits()
    assert sorted(audits) == ["drawn", "guarded", "plain"]
    for name, audit in audits.items():
        assert audit.complete, (name, audit.to_json())
        assert not audit.unbalanced
    for name, kept in (("plain", one.sunk("plain")), ("drawn", found["sunk"])):
        shed = found["backfilled"][name]
        assert sorted([*kept, *shed]) == ids, name
        assert (audits[name].kept, audits[name].shed) == (len(kept), len(shed))
        assert audits[name].arrived == len(ids)
    assert found["origin"]["cwd"] == str(second.folder) != str(first.folder)
    assert all("headgate.zip" in path for path in _origins(found)), (
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


def _origins(found: dict[str, dict[str, object]]) -> list[str]:
    origin = found["origin"]
    executors = origin["executors"]
    assert isinstance(executors, list)
    return [str(origin["driver"]), *map(str, executors)]
