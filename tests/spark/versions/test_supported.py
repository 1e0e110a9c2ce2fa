"""Which Spark this is, told by injected versions; and that nobody else asks."""

from __future__ import annotations

import importlib.util
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

import headgate as hg
from headgate.spark.session import check_session
from headgate.spark.versions import supported
from headgate.spark.versions.supported import OLDEST, SparkVersion, installed, require, version_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fresh() -> Iterator[None]:
    """What is installed is looked for once a process: look again, here and afterwards."""
    installed.cache_clear()
    yield
    installed.cache_clear()


@pytest.mark.parametrize("version", ["3.5.9", "2.4.8", "unknown"])
def test_a_spark_that_is_too_old_is_refused(version: str) -> None:
    with pytest.raises(hg.UnsupportedSpark, match=f"{version}.* Spark 4.0 or newer .pip install"):
        check_session(SimpleNamespace(version=version))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["4.0.0", "4.1.4", "4.2.0-SNAPSHOT", "4.3.0", "4.10.1"])
def test_every_spark_4_is_taken(version: str) -> None:
    check_session(SimpleNamespace(version=version))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("here", "served", "both"),
    [("4.3.0", "4.0.5", "4.0.5"), ("4.1.4", "4.3.0", "4.1.4"), ("4.2.1", "4.2.0", "4.2.1")],
)
def test_a_client_and_its_server_have_what_the_older_one_has(
    monkeypatch: pytest.MonkeyPatch, here: str, served: str, both: str
) -> None:
    monkeypatch.setattr(supported, "installed", lambda: SparkVersion.read(here))
    session: Any = SimpleNamespace(version=served)
    assert str(version_of(session)) == both


@pytest.mark.usefixtures("fresh")
def test_what_is_installed_is_what_would_be_imported() -> None:
    assert str(installed()) == pyspark.__version__


@pytest.mark.usefixtures("fresh")
def test_a_worker_that_has_pyspark_in_an_archive_knows_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
        archive.writestr("pyspark/version.py", '__version__: str = "4.1.9"\n')
    monkeypatch.setattr(sys, "path", [str(tmp_path / "pyspark.zip"), *sys.path])
    monkeypatch.delitem(sys.modules, "pyspark")  # find_spec answers from there if it can
    assert str(installed()) == "4.1.9"


@pytest.mark.usefixtures("fresh")
def test_without_pyspark_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert installed() is None
    session: Any = SimpleNamespace(version="4.1.4")
    assert version_of(session) == SparkVersion(4, 1)


def test_what_is_missing_says_found_needed_and_the_next_step() -> None:
    with pytest.raises(
        hg.UnsupportedSpark, match=r"x needs Spark 4\.1 or newer, and this is 4\.0\.5: do y"
    ):
        require(SparkVersion.read("4.0.5"), SparkVersion(4, 1), "x", "do y")
    require(SparkVersion.read("4.1.0"), SparkVersion(4, 1), "x", "do y")


#: Spark's version, and what differs between versions.
_ASKS = re.compile(
    r"""spark\.version\b(?!s)|pyspark\.__version__|pyspark\.version\b|version\(["']pyspark"""
    r"|to_arrow_schema|\barrow_udf\b|[\"']approx_top_k|\bF\.(?:min|max)_by\([^()]*,[^()]*,"
)


def test_no_other_file_asks_for_the_version_of_spark() -> None:
    room = ROOT / "src" / "headgate" / "spark" / "versions"
    files = [f for root in ("src", "lab") for f in (ROOT / root).rglob("*.py")]
    asking = {f.relative_to(ROOT).as_posix() for f in files if _ASKS.search(f.read_text())}
    own = {f.relative_to(ROOT).as_posix() for f in room.glob("*.py")}
    # These only say it: a bench, which runs under older releases too, and the doctor.
    says_it_only = {"lab/headgate_lab/bench/hold/child.py", "src/headgate/spark/doctor/call.py"}
    assert asking - says_it_only <= own
    assert len(asking) >= 3, "else the pattern finds nothing any more"


def test_only_a_session_and_what_fetches_jars_are_told_a_version() -> None:
    """Whoever else must know asks the room for what it needs: a function, a setting, a refusal."""
    told = re.compile(r"^\s*from headgate\.spark\.versions\.supported import ", re.MULTILINE)
    src = ROOT / "src" / "headgate"
    files = {f.relative_to(src).as_posix() for f in src.rglob("*.py") if told.search(f.read_text())}
    others = {f for f in files if not f.startswith("spark/versions/")}
    jars = {"spark/job/connectors.py", "testing/broker.py", "testing/table_formats.py"}
    assert others == {"spark/session.py", *jars}


def test_the_versions_of_the_matrix_are_those_that_the_package_allows() -> None:
    named = re.search(r"^VERSIONS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named is not None
    versions = [SparkVersion.read(v) for v in named[1].split()]
    assert (versions[0], versions[-1]) == (OLDEST, supported.NEWEST)
    assert f'"pyspark>={OLDEST},<5"' in (ROOT / "pyproject.toml").read_text()
    for version in versions[:-1]:
        lock = (ROOT / "locks" / f"spark-{version}.lock").read_text()
        assert re.match(rf"pyspark=={re.escape(str(version))}\.\d+ ", lock)
        assert "--hash=sha256:" in lock
