"""The demo's plan and its figures; the run itself takes minutes and is looked at by people."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.errors import BadArgument
from headgate.sites.service.history import History
from headgate_lab.demo.federation.outcome import Outcome, goals, read_outcome
from headgate_lab.demo.federation.plan import FEDERATION, LINKS, Federation
from headgate_lab.demo.federation.run import Run


class TestThePlan:
    def test_there_are_three_sites_and_at_least_six_queries(self) -> None:
        assert len(FEDERATION.sites) == 3
        assert len(FEDERATION.queries) >= 6

    def test_every_query_has_one_root_and_its_links_meet(self) -> None:
        for query in FEDERATION.queries:
            fragments = {f.site: f for f in FEDERATION.of_query(query)}
            assert sum(f.gives is None for f in fragments.values()) == 1
            for fragment in fragments.values():
                if fragment.gives is not None:
                    assert fragment.site in fragments[fragment.gives].takes
                    assert fragment.kind in LINKS
                for giver in fragment.takes:
                    assert fragments[giver].gives == fragment.site

    def test_a_tree_and_chains(self) -> None:
        assert {f.kind for f in FEDERATION.fragments} >= {"avg-all", "top5", "cov"}
        assert max(FEDERATION.depth(f) for f in FEDERATION.fragments) == 1

    def test_it_goes_to_the_sites_as_json(self) -> None:
        assert Federation.from_json(json.loads(json.dumps(FEDERATION.to_json()))) == FEDERATION

    def test_every_site_has_more_load_than_it_can_process(self) -> None:
        for site in FEDERATION.sites:
            fragments = sum(f.site == site for f in FEDERATION.fragments)
            assert fragments * FEDERATION.rows_per_s > FEDERATION.capacity[site]

    def test_all_queries_can_have_the_same(self) -> None:
        """By linear programme: the demo's load is skewed, and yet a fair allocation exists."""
        pytest.importorskip("scipy", reason="the optimum is the laboratory's")
        import numpy as np

        from headgate_lab.papers.themis.anchors import Fluid, max_min

        rows = FEDERATION.fragments
        fluid = Fluid(
            query=np.array([FEDERATION.queries.index(f.query) for f in rows]),
            node=np.array([FEDERATION.sites.index(f.site) for f in rows]),
            load=np.full(len(rows), float(FEDERATION.rows_per_s)),
            sic=np.array([1.0 / len(FEDERATION.of_query(f.query)) for f in rows]),
            capacity=np.array([FEDERATION.capacity[s] for s in FEDERATION.sites]),
        )
        found = max_min(fluid).q_sic
        assert found.max() - found.min() < 0.01
        assert 0.2 < found.min() < 0.3


class TestTheOutcome:
    def _write(self, folder: Path, sic: dict[str, float]) -> None:
        for site in FEDERATION.sites:
            history = History(folder / site / "sites" / site / "sic.jsonl")
            for second in range(20):
                queries = {
                    q: {"sic": sic[q], "accepted": 0.1, "told_by": "result"}
                    for q in FEDERATION.queries
                    if any(f.site == site for f in FEDERATION.of_query(q))
                }
                history.add(
                    {"at": 1000.0 + second, "level": 0.1, "trim": 1.0, "queries": queries, "gates": {}}
                )

    def test_is_read_from_what_sites_leave_behind(self, tmp_path: Path) -> None:
        sic = dict.fromkeys(FEDERATION.queries, 0.2) | {"cov": 0.1}
        self._write(tmp_path, sic)
        found = read_outcome(FEDERATION, tmp_path, "mirror", settle_s=5.0)
        assert found.means == pytest.approx(sic)
        assert found.to_json()["min_sic"] == pytest.approx(0.1)
        assert 0.9 < found.to_json()["jain"] < 1.0
        assert found.accepted["avg-all"] == pytest.approx(0.3)

    def test_a_query_without_a_result_counts_as_nothing(self) -> None:
        found = Outcome("x", [0.0, 1.0], {"a": [math.nan, math.nan], "b": [0.5, 0.5]}, {}, 0.0)
        assert found.means == {"a": 0.0, "b": 0.5}
        assert found.to_json()["jain"] == pytest.approx(0.5)

    def test_its_goals(self) -> None:
        def outcome(**sic: float) -> Outcome:
            return Outcome("x", [0.0], {name: [value] for name, value in sic.items()}, {}, 0.0)

        fair, unfair = outcome(a=0.3, b=0.3), outcome(a=0.9, b=0.05)
        assert [g.met for g in goals({"random": unfair, "mirror": fair})] == [True, True]
        assert [g.met for g in goals({"random": fair, "mirror": unfair})] == [False, False]
        assert [g.found for g in goals({"mirror": fair})] == [pytest.approx(1.0)]
        assert goals({"random": fair, "balance-sic": fair}) == []

    def test_the_picture(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib", reason="pictures need the extra plot")
        from headgate_lab.demo.federation.plot import save_plot

        outcome = Outcome("mirror", [0.0, 1.0], {"a": [0.1, 0.2], "b": [math.nan, 0.2]}, {}, 0.5)
        path = save_plot({"mirror": outcome}, tmp_path / "new" / "f.png")
        assert path.stat().st_size > 5000


class TestBadUse:
    def test_an_unknown_shedding(self, tmp_path: Path) -> None:
        with pytest.raises(BadArgument, match="mirror, balance-sic, random"):
            Run(FEDERATION, tmp_path, sheddings=("best",))

    def test_a_turn_that_never_settles(self, tmp_path: Path) -> None:
        with pytest.raises(BadArgument, match="more than the 150"):
            Run(FEDERATION, tmp_path, seconds=100.0)

    def test_a_plan_without_time(self) -> None:
        with pytest.raises(BadArgument, match="trigger_s=0"):
            Federation(FEDERATION.fragments, trigger_s=0)

    def test_status_of_a_folder_that_no_site_used(self, tmp_path: Path) -> None:
        found = CliRunner().invoke(main, ["federation", "status", str(tmp_path)])
        assert found.exit_code != 0
        assert "no site has used" in found.output

    def test_status(self, tmp_path: Path) -> None:
        folder = tmp_path / "sites" / "rome"
        folder.mkdir(parents=True)
        view = {"sic": 0.25, "told_by": "result", "accepted": 0.2, "share": 1.0, "weight": 2.0}
        status = {
            "site": "rome", "at": 0.0, "overloaded": True, "capacity": 0.5, "cores": 2.0,
            "coordinator": ["in touch"], "queries": {"top-routes": view},
        }  # fmt: skip
        (folder / "status.json").write_text(json.dumps(status))
        shown = CliRunner().invoke(main, ["federation", "status", str(tmp_path)])
        assert shown.exit_code == 0, shown.output
        assert "top-routes" in shown.output
        assert "0.250" in shown.output
        assert "0.50 of 2 cores" in shown.output
        status |= {"rows_per_s": 650.0, "capacity": 650.0, "coordinator_said": ["no such site"]}
        status["queries"] = {"top-routes": view | {"refused": "a source of another site"}}
        (folder / "status.json").write_text(json.dumps(status))
        shown = CliRunner().invoke(main, ["federation", "status", str(tmp_path)])
        for said in ("650 rows/s", "no such site", "refused: a source of another site"):
            assert said in shown.output
        read = CliRunner().invoke(main, ["federation", "status", str(tmp_path), "--json"])
        assert json.loads(read.output)["sites"][0]["site"] == "rome"
