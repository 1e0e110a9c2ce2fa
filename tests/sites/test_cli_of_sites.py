"""What the commands say of sites, figures and benchmarks: refusals, ages, meanings, times."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.coordinator import service as on_a_port
from headgate.coordinator.refusals import RefusedQueries
from headgate.sites.wire.protocol import QueryReport
from headgate_lab.cli.bench import bench
from headgate_lab.figures import NAMES
from tests.coordinator.test_coordinator import SECRET, Service

SITE_LOG = "headgate.coordinator"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(site_rate=1000.0, site_burst=1000)
    with made.server:
        yield made


@pytest.fixture(autouse=True)
def _no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADGATE_COORDINATOR_SECRET", "HEADGATE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


class TestRefusedQueries:
    def test_are_logged_once_with_site_and_query(
        self, service: Service, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, SITE_LOG)
        rome, paris = service.client("rome"), service.client("paris")
        rome.exchange({"avg": QueryReport(("r",), ("r", "p"), root=True), "top": QueryReport(("t",))})
        wrong = {
            "avg": QueryReport(("p",), root=True),
            "top": QueryReport(("t",)),
            "fine": QueryReport(("f",)),
        }
        for _ in range(3):
            assert len(paris.exchange(wrong).refused) == 2
        first = [record.getMessage() for record in caplog.records]
        assert len(first) == 2
        assert "site 'paris', query 'avg' was refused: site 'rome' is the query's root" in first[0]
        assert "site 'paris', query 'top' was refused: source 't' is held by site 'rome'" in first[1]
        caplog.clear()
        paris.exchange(wrong | {"avg": QueryReport(("x",))})
        (changed,) = [record.getMessage() for record in caplog.records]
        assert "query 'avg' was refused: source 'x' is unknown" in changed

    def test_are_logged_again_after_they_were_taken_and_after_a_leave(
        self, service: Service, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, SITE_LOG)
        service.client("rome").exchange({"top": QueryReport(("t",))})
        paris = service.client("paris")
        taken, wrong = {"top": QueryReport(("p",))}, {"top": QueryReport(("t",))}
        for queries in (wrong, taken, wrong):
            paris.exchange(queries)
        paris.leave()
        paris.exchange(wrong)
        assert len(caplog.records) == 3

    def test_are_forgotten_of_those_who_were_not_heard_for_longest(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, SITE_LOG)
        refused = RefusedQueries(logging.getLogger(SITE_LOG), most_sites=2)
        for site in ("a", "b", "c", "c", "b", "a"):
            refused.note(site, {"q": "full"})
        said = [record.getMessage().split("'")[1] for record in caplog.records]
        assert said == ["a", "b", "c", "a"]

    def test_say_nothing_without_verbose(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, SITE_LOG)
        RefusedQueries(logging.getLogger(SITE_LOG), 2).note("a", {"q": "full"})
        assert not caplog.records


class TestTokens:
    def test_status_without_one_names_its_own_options(self, service: Service) -> None:
        result = run("coordinator", "status", service.url)
        assert result.exit_code == 2
        assert "this coordinator asks for a token" in result.output
        for option in ("--secret-file", "HEADGATE_COORDINATOR_SECRET", "--token-file", "HEADGATE_TOKEN"):
            assert option in result.output
        assert "token SITE" not in result.output

    def test_status_with_a_wrong_one_says_that(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HEADGATE_TOKEN", "rome.00")
        result = run("coordinator", "status", service.url)
        assert "the token that was given was not made with this coordinator's secret" in result.output
        assert "rome.00" not in result.output


class TestWhereItServes:
    def test_an_address_of_another_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADGATE_COORDINATOR_SECRET", SECRET.decode())
        monkeypatch.setattr(on_a_port.CoordinatorServer, "run", lambda _: None)  # if it is let have it
        result = run("coordinator", "--host", "192.0.2.1", "--port", 0)  # nobody's, RFC 5737
        assert result.exit_code == 2
        assert "give an address of this machine as --host" in result.output
        assert "stop what has it" not in result.output

    def test_a_port_that_is_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            result = run("coordinator", "--open", "--port", taken.getsockname()[1])
        assert "stop what has it, or give another --port" in result.output
        assert "address of this machine" not in result.output

    def test_a_port_that_only_others_may_have(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(socket.socket, "bind", refuse)
        result = run("coordinator", "--open", "--port", 80)
        assert "(Permission denied): this user may not have it" in result.output
        assert "1024 or more" in result.output


class TestSecretFiles:
    def test_one_that_cannot_be_made(self) -> None:
        result = run("coordinator", "--secret-file", "/dev/null/secret")
        assert result.exit_code == 2
        assert re.search(r"--secret-file '/dev/null/secret' cannot be made \(\w", result.output)
        assert "headgate coordinator" not in result.output

    def test_one_that_is_no_text(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_bytes(b"\xff" * 32)
        result = run("coordinator", "--secret-file", file)
        assert "cannot be read (no text): let this user read it" in result.output
        assert "cannot be made" not in result.output

    def test_one_in_a_folder_that_is_only_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "secret"
        file.write_bytes(SECRET)

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("headgate.sites.wire.tokens._make", refuse)
        result = run("coordinator", "--secret-file", file, "--port", 99999)
        assert "port=99999" in result.output, "it was read, and the next mistake is told"


class TestFederationStatus:
    @staticmethod
    def show(control: Path, **changes: Any) -> str:
        status: dict[str, Any] = {
            "site": "rome", "at": time.time(), "overloaded": False, "capacity": 899.891, "cores": 2.0,
            "rows_per_s": 900.0, "coordinator": ["in touch"], "queries": {},
        }  # fmt: skip
        folder = control / "sites" / "rome"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status.json").write_text(json.dumps(status | changes))
        result = run("federation", "status", control)
        assert result.exit_code == 0, result.output
        return result.output

    def test_one_that_is_there(self, tmp_path: Path) -> None:
        for more in ({}, {"stopped": False}):
            shown = self.show(tmp_path, **more)
            assert "rome: keeps all, 900 rows/s, coordinator in touch; 0 s ago" in shown
        shown = self.show(tmp_path, rows_per_s=None, capacity=0.5, overloaded=True)
        assert "rome: sheds, 0.50 of 2 cores for rows, coordinator in touch" in shown

    def test_one_that_was_stopped(self, tmp_path: Path) -> None:
        for age in (0, 430):
            shown = self.show(tmp_path, stopped=True, at=time.time() - age)
            assert f"rome: stopped {age} s ago" in shown
            assert "keeps all" not in shown
            assert "not heard of" not in shown

    def test_one_that_has_not_written_for_long(self, tmp_path: Path) -> None:
        shown = self.show(tmp_path, at=time.time() - 430)
        assert "rome: not heard of for 430 s" in shown
        assert "keeps all" not in shown
        assert "in touch" not in shown
        assert "keeps all" in self.show(tmp_path, at=time.time() - 20)

    def test_a_query_without_a_sic(self, tmp_path: Path) -> None:
        view = {"sic": None, "told_by": "site", "accepted": 0.0, "share": 0.0, "weight": 1.0}
        (line,) = [ln for ln in self.show(tmp_path, queries={"avg": view}).splitlines() if "avg" in ln]
        assert "not yet" in line
        assert "-" not in line

    def test_a_reason_is_shown_as_it_is(self, tmp_path: Path) -> None:
        assert "of=[a, b]" in self.show(tmp_path, coordinator_said=["of=[a, b] lacks c"])

    def test_its_columns_are_explained(self) -> None:
        text = run("federation", "status", "--help").output
        for column in ("site", "query", "SIC", "told by", "accepted", "share", "weight"):
            assert re.search(rf"^ +{column}  ", text, re.MULTILINE), column


def test_the_demo_says_how_short_a_turn_can_be() -> None:
    text = " ".join(run("federation", "demo", "--help").output.split())
    assert "above 150 (quick: 160)" in text
    assert "[default: 260, quick: 220]" in text
    result = run("federation", "demo", "--seconds", 150)
    assert result.exit_code != 0
    assert "more than the 150" in result.output or "pip install" in result.output


class TestFigures:
    names = tuple(name.replace("_", "-") for name in NAMES)

    def test_the_usage_is_one_line(self) -> None:
        usage = run("figures", "--help").output.split("\n\n")[0]
        assert usage.endswith("figures [OPTIONS] NAME")

    def test_every_figure_has_a_meaning(self) -> None:
        text = run("figures", "--help").output
        for name in self.names:
            assert re.search(rf"^  {name}  +\w.{{15,}}", text, re.MULTILINE), name
        assert "headgate figures themis-" in text
        assert not re.search(r"Figure \d+: ", text), "the name says that"

    def test_a_wrong_name_lists_them_once_and_the_nearest_first(self) -> None:
        result = run("figures", "themis-fig1O")
        assert result.exit_code == 2
        listed = re.findall(r"\b[a-z]+-(?:fig\d+|sec\d+|headlines)\b", result.output)
        assert sorted(listed) == sorted(self.names)
        assert listed[0].startswith("themis-fig1")

    def test_a_name_like_none(self) -> None:
        text = run("figures", "?").output
        assert "the nearest first" not in text
        assert all(text.count(f"{name},") <= 1 for name in self.names)

    def test_no_name(self) -> None:
        text = run("figures").output
        assert "headgate figures --help" in text
        assert "las-fig4" not in text

    def test_help_imports_no_figure(self) -> None:
        code = (
            "import sys; from headgate.cli import main; "
            "main(['figures', '--help'], standalone_mode=False); "
            "heavy = ('numpy', 'numba', 'headgate_lab.figures.las.fig4'); "
            "sys.exit(any(m in sys.modules for m in heavy))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0


def test_benchmarks_say_how_long_they_take() -> None:
    text = " ".join(run("bench", "--help").output.split())
    assert "beside the same query without one. 17 minutes; quick: 4." in text
    assert "15 minutes; quick: 4." in " ".join(run("bench", "join", "--help").output.split())
    assert all(command.short_help for command in bench.commands.values())
