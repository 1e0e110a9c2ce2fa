"""What people type: tokens, secrets, status, and the mistakes that are told in a line."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.errors import BadArgument, ControlFolderError
from headgate.sites.wire.protocol import QueryReport
from headgate.sites.wire.tokens import read_secret, reader_token, site_token, whose
from headgate_lab.demo.federation.plan import FEDERATION
from headgate_lab.demo.federation.run import Run
from tests.coordinator.test_coordinator import ROME, SECRET, Service


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    with made.server:
        yield made


def test_tokens() -> None:
    assert whose(SECRET, ROME) == "rome"
    assert whose(SECRET, reader_token(SECRET)) == "*reader"
    for wrong in (ROME.replace("rome", "paris"), ROME[:-1], "", ".", "." + ROME[5:], "rome.\udcff"):
        assert whose(SECRET, wrong) is None
    assert whose(b"another secret, long enough", ROME) is None
    assert whose(SECRET, site_token(SECRET, "a.b-c")) == "a.b-c"


def test_a_secret_is_made_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "etc" / "secret"
    with pytest.raises(ControlFolderError, match="`headgate coordinator` makes one"):
        read_secret(file)
    made = read_secret(file, make=True)
    assert made is not None
    assert len(made) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_secret(file, make=True) == made
    assert list(file.parent.iterdir()) == [file]
    file.write_text("short\n")
    with pytest.raises(BadArgument, match="5 bytes: at least 16") as caught:
        read_secret(file)
    assert "short" not in str(caught.value).replace(str(file), "")
    monkeypatch.setenv("HEADGATE_COORDINATOR_SECRET", "from the environment")
    assert read_secret(None) == b"from the environment"
    monkeypatch.delenv("HEADGATE_COORDINATOR_SECRET")
    assert read_secret(None) is None


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["coordinator", *(str(a) for a in arguments)])


def test_the_commands_for_people(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    assert run("token", "rome", "--secret-file", file).output.strip() == ROME
    assert run("token", "--reader", "--secret-file", file).output.strip() == reader_token(SECRET)
    empty = run("status", service.url, "--secret-file", file)
    assert "0 queries, no SIC reported" in empty.output
    service.client("rome").exchange(
        {"avg": QueryReport(("r",), ("r", "p"), True, 0.25), "top": QueryReport(("r",))}
    )
    shown = run("status", service.url, "--secret-file", file).output
    assert "2 queries; SIC 0.250 at least, 0.250 on average; Jain 1.0000" in shown
    assert "2 (1 missing)" in shown
    assert "rome 1" in shown
    token = tmp_path / "token"
    token.write_text(ROME + "\n")
    found = json.loads(run("status", service.url, "--token-file", token, "--json").output)
    assert found["queries"]["avg"]["sic"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no secret: give --secret-file"),
        (("--open", "--host", "0.0.0.0"), "without a secret"),
        (("--open", "--secret-file", "x"), "give only one"),
        (("--open", "--port", "99999"), "port=99999"),
        (("--open", "--lease", "soon"), "lease='soon'"),
        (("--open", "--lease", "20m"), "not forgotten before its lease is over"),
        (("--open", "--state", "/dev/null/x"), "give a folder that this process can write"),
        (("--open", "--host", "no.such.host.invalid"), "without a secret"),
        (("token",), "give SITE or --reader"),
        (("token", "rome", "--reader"), "give SITE or --reader"),
        (("token", "rome"), "no secret"),
        (("token", "no name"), "no secret"),
        (("status", "http://127.0.0.1:1"), "no coordinator answers"),
        (("status", "nonsense"), "write it as"),
        (("status", "http://127.0.0.1:1", "--token-file", "/no/such"), "cannot be read"),
    ],
)
def test_bad_commands_are_told_in_a_line(
    arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADGATE_COORDINATOR_SECRET", raising=False)
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output
    assert result.output.count("\n") == 1


def test_a_port_that_is_taken_is_told(service: Service) -> None:
    result = run("--open", "--port", service.port)
    assert result.exit_code == 2
    assert (
        "cannot be had (Address already in use): stop what has it, or give another --port"
        in result.output
    )


def test_without_the_extra_it_names_the_pip_line_and_still_prints_tokens() -> None:
    code = """
        import sys
        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {"starlette", "uvicorn", "numpy", "pyspark"}:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
        sys.meta_path.insert(0, Block())
        from headgate.cli import main
        main()
    """
    child = [sys.executable, "-c", textwrap.dedent(code), "coordinator"]
    served = subprocess.run([*child, "--open"], capture_output=True, text=True, timeout=60, check=False)
    assert served.returncode == 2
    assert "pip install 'headgate[server]'" in served.stderr
    env = {**os.environ, "HEADGATE_COORDINATOR_SECRET": SECRET.decode()}
    token = subprocess.run(
        [*child, "token", "rome"], capture_output=True, text=True, timeout=60, env=env
    )
    assert token.stdout.strip() == ROME


def test_the_demo_closes_what_it_opens_for_its_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    with Run(FEDERATION, tmp_path)._coordinator(tmp_path) as url:
        assert url.startswith("http://127.0.0.1:")
    (process,) = started
    assert process.returncode is not None
    assert process.stdout is not None
    assert process.stdout.closed


def test_help_has_examples() -> None:
    for command in ((), ("token",), ("status",)):
        assert "Examples:" in run(*command, "--help").output
