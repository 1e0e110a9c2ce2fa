"""Two sites, each a Spark of its own, with a coordinator between them: for real, and small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.sites.service.history import History
from headgate.store.folder import read_json
from headgate_lab.demo.federation.outcome import Outcome
from headgate_lab.demo.federation.plan import Federation, Fragment
from headgate_lab.demo.federation.run import Run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

#: AVG-all is half in Rome and ends in Oslo; each has a query of its own, and Oslo little capacity.
PLAN = Federation(
    (
        Fragment("rome-max", "max", "rome"),
        Fragment("avg-all", "avg-all", "rome", gives="oslo"),
        Fragment("avg-all", "avg-all", "oslo", takes=("rome",)),
        Fragment("oslo-avg", "avg", "oslo"),
    ),
    capacity={"rome": 500.0, "oslo": 150.0},
    rows_per_s=500,
    rounds=10,
    trigger_s=3.0,
    stw_s=24.0,
)


class _Nobody:
    """Watches, and says nothing."""

    def note(self, text: str) -> None:
        pass

    def turn(self, shedding: str, seconds: float) -> None:
        pass

    def at(self, seconds: float) -> None:
        pass


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    pytest.importorskip("starlette", reason="coordinators need the extra server")
    folder = tmp_path_factory.mktemp("federation")
    run = Run(PLAN, folder, sheddings=("mirror",), seconds=100.0, settle_s=60.0, warm_up_s=1.0)
    return run.run(_Nobody())["mirror"], folder / "1-mirror"


def test_every_query_has_results_and_about_the_same_share(outcome: tuple[Outcome, Path]) -> None:
    found, _ = outcome
    assert set(found.means) == {"rome-max", "avg-all", "oslo-avg"}
    assert min(found.means.values()) > 0.05
    assert found.to_json()["jain"] > 0.85, found.means


def _history(folder: Path, site: str) -> list[dict[str, Any]]:
    return list(History(folder / site / "sites" / site / "sic.jsonl").lines())


def _settled(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From the second third on, without the end."""
    begin, end = lines[0]["at"], lines[-1]["at"]
    return [line for line in lines if begin + 60.0 <= line["at"] <= end - 10.0]


def test_derived_rows_come_and_are_kept_and_sources_are_shed(outcome: tuple[Outcome, Path]) -> None:
    _, folder = outcome
    status = read_json(folder / "oslo" / "sites" / "oslo" / "status.json")
    assert status["gates"]["avg-all-oslo-from-rome"]["source"] is None
    assert status["gates"]["avg-all-oslo-from-rome"]["rows_per_s"] > 0
    settled = {site: _settled(_history(folder, site)) for site in PLAN.sites}
    kept = [line["keep"]["avg-all-oslo-from-rome"] for line in settled["oslo"]]
    assert len(kept) > 5
    assert sum(kept) / len(kept) > 0.95
    for site, gate in (("rome", "rome-max-rome"), ("oslo", "oslo-avg-oslo")):
        rates = [line["keep"][gate] for line in settled[site]]
        assert sum(rates) / len(rates) < 0.9, "on average: what a burst brought is made up for"


def test_a_site_hears_from_the_coordinator_what_came_out_elsewhere(
    outcome: tuple[Outcome, Path],
) -> None:
    found, folder = outcome
    told = [
        line["queries"]["avg-all"]["sic"]
        for line in _history(folder, "rome")
        if line["queries"].get("avg-all", {}).get("told_by") == "coordinator"
    ]
    assert len(told) > 20
    assert told[-1] == pytest.approx(found.sic["avg-all"][-1], abs=0.15)
