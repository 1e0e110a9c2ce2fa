"""Gates whose executors have nothing installed: Headgate and all that it imports come in one archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headgate
from headgate.testing.cluster.packed import pack_environment
from tests.testing.cluster.bench import Trial

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.timeout(600)
def test_executors_take_all_from_a_packed_environment(
    trial: Callable[[], Trial], tmp_path: Path
) -> None:
    one = trial()
    ids = one.put_input(4)
    archive = pack_environment(tmp_path / "env.tar.gz")
    found = one.submit(
        "gates", "backfilled", "sunk", "origin", "doctor",
        py_files=[],
        headgate=Path(headgate.__file__).parent,
        conf={"spark.archives": f"{archive}#env"},
        environment={"PYSPARK_PYTHON": "./env/bin/python"},
    ).result()  # fmt: skip
    works = [worker.folder / "work" for worker in one.machines.cluster.workers]
    for origin in found["origin"]["executors"]:
        assert "/env/lib/python" in origin
        assert any(Path(origin).is_relative_to(work) for work in works), origin
    assert found["doctor"]["verdict"] != "problem", found["doctor"]["findings"]
    for name, kept in (("plain", one.sunk("plain")), ("drawn", found["sunk"])):
        assert one.audits()[name].complete
        assert sorted([*kept, *found["backfilled"][name]]) == ids, name
