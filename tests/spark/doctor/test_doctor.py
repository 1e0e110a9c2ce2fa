"""A doctor in a local session; tests/testing/cluster has it on clusters that are ill."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import headgate as hg
from headgate.cli import main
from headgate.spark.doctor import executors
from headgate.spark.doctor.findings import Diagnosis, Finding
from tests.cli.test_json_shapes import differences, documented

PAGE = Path(__file__).parents[3] / "docs" / "clusters.md"


@pytest.fixture(scope="module")
def looked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Diagnosis, Path]:
    """By the example of the page on clusters."""
    folder = tmp_path_factory.mktemp("doctor") / "control"
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"hg": hg, "spark": spark, "control": folder}
    exec(example, names)
    return names["found"], folder


def test_a_local_session_is_well(looked: tuple[Diagnosis, Path]) -> None:
    found, folder = looked
    assert found.ok, str(found)
    checks = {finding.check: finding for finding in found.findings}
    for check in ("driver", "store", "atomic create", "executors", "headgate", "versions", "clocks"):
        assert checks[check].level == "ok", str(found)
    assert checks["sockets"].level == "ok", "the tests' session is built with them"
    assert checks["store on executors"].level == "ok"
    assert checks["atomic create on executors"].level == "ok"
    (executor,) = found.executors
    assert executor["headgate"] == hg.__version__
    assert executor["java"] == found.driver["java"]
    assert set(found.store_ms) == {"create", "get", "list", "delete"}
    assert list(folder.iterdir()) == [], "it leaves nothing behind"


def test_what_it_prints_is_documented(looked: tuple[Diagnosis, Path]) -> None:
    value = json.loads(json.dumps(looked[0].to_json()))
    assert value["executors"]
    assert value["findings"]
    assert not list(differences(value, documented("headgate doctor")))


def test_the_report_names_levels_and_next_steps(looked: tuple[Diagnosis, Path]) -> None:
    text = str(looked[0])
    assert "ok       store: The driver can create" in text
    assert "warning  state store: " in text
    assert "-> Only for hg.join: set spark.sql.streaming.stateStore.providerClass=" in text


def test_a_store_that_cannot_be_used(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    found = hg.doctor(spark, file)
    assert found.verdict == "problem"
    (problem,) = found.of("problem")
    assert problem.check == "store"
    assert "is a file" in problem.found
    assert found.executors, "executors are looked at all the same"
    assert file.read_text() == ""


def test_a_job_that_gets_no_executor_is_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.doctor.probe._LEAST_S", 10.0)
    found = hg.doctor(spark, tmp_path / "control", within="2 seconds")
    (problem,) = found.of("problem")
    assert problem.check == "executors"
    assert "no answer in" in problem.found
    assert "free cores" in problem.next_step


def test_a_python_that_executors_do_not_have(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    found = hg.doctor(spark, tmp_path / "control")
    (problem,) = found.of("problem")
    assert "Cannot run program" in problem.found
    assert "PYSPARK_PYTHON" in problem.next_step


def test_illegal_calls_say_what_to_give(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(hg.BadArgument, match="SparkSession"):
        hg.doctor("local[2]", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(hg.BadArgument, match="within"):
        hg.doctor(spark, tmp_path, within="soon")
    with pytest.raises(hg.ControlFolderError, match="hdfs"):
        hg.doctor(spark, "hdfs://node/path")


def test_a_clock_that_is_off_is_told_by_how_much() -> None:
    assert executors._off(105.0, (100.0, 102.0)) == 3.0
    assert executors._off(101.0, (100.0, 102.0)) == 0.0
    assert executors._off(95.0, (100.0, 102.0)) == -5.0


def test_the_command_follows_the_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    finding = Finding("store", "problem", "It is away [here].", "Bring it back.")
    for level, code in (("problem", 1), ("warning", 0), ("ok", 0)):
        told = Diagnosis("c", "local[2]", [Finding("store", level, finding.found, finding.next_step)])  # type: ignore[arg-type]
        monkeypatch.setattr(
            importlib.import_module("headgate.cli.doctor"), "_looked", lambda *_, told=told: told
        )
        done = CliRunner().invoke(main, ["doctor", "--control", str(tmp_path)])
        assert done.exit_code == code
        assert "It is away [here]." in done.stdout
        assert "Bring it back." in done.stdout
        done = CliRunner().invoke(main, ["doctor", "--control", "there", "--json"])
        assert (done.exit_code, json.loads(done.stdout)["control"]) == (code, "there")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--conf", "spark.x"], "NAME=VALUE"),
        (["--conf", "x=1"], "setting of Spark's"),
        (["--py-files", "nowhere.zip"], "is no file"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(words: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["doctor", "--control", "x", *words])
    assert done.exit_code == 2
    assert says in done.stderr
