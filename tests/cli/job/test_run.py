"""``headgate run`` and ``headgate init`` as far as they start no Spark; tests/spark/job has the rest."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from headgate.cli import main
from headgate.cli.job.job_screen import Screen, status_line
from headgate.cli.job.job_settings import session_settings
from headgate.job.problems import JobProblems
from headgate.job.reading import read_job
from headgate.job.schema import ACCURACY, CONCEPT_DRIVEN, GATE, SINKS, SOURCES, SPARK, SQL
from headgate.spark.job.running import Figures, Outcome
from headgate.spark.versions.supported import SparkVersion
from headgate.testing.artifacts import ArtifactsUnavailable
from headgate.testing.broker import Artifacts
from tests.cli.test_json_shapes import differences, documented


def _run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def _written(folder: Path, *options: str) -> Path:
    file = folder / "job.toml"
    done = _run("init", file, *options)
    assert done.exit_code == 0, done.output
    return file


@pytest.mark.parametrize("source", ["rate", "kafka", "files"])
def test_what_init_writes_is_right(source: str, tmp_path: Path) -> None:
    file = _written(tmp_path, "--source", source)
    if source == "files":
        (tmp_path / "in").mkdir()
    done = _run("run", file, "--check")
    assert done.exit_code == 0, done.output
    assert "is right" in done.stdout
    assert "gate rides (hold" in done.stdout


def test_two_jobs_of_init_in_one_folder_share_nothing(tmp_path: Path) -> None:
    jobs = []
    for name in ("job.toml", "tolls.toml", "my rides 2.toml"):
        assert _run("init", tmp_path / name, "--source", "kafka").exit_code == 0
        jobs.append(read_job(tmp_path / name, {}))
        assert f"headgate run {name}" in (tmp_path / name).read_text()
    assert [job.gate["name"] for job in jobs] == ["rides", "tolls", "my-rides-2"]
    assert [Path(job.control).parent.name for job in jobs] == ["job", "tolls", "my-rides-2"]
    assert len({job.sink.checkpoint for job in jobs}) == 3


def test_the_help_of_init_lists_every_key() -> None:
    said = _run("init", "--help").stdout
    for table in (SQL, GATE, SPARK, CONCEPT_DRIVEN, ACCURACY, *SOURCES.values(), *SINKS.values()):
        for key in table:
            assert re.search(rf"\b{key}\b", said), key


def test_init_leaves_a_file_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("mine")
    done = _run("init", file)
    assert done.exit_code == 2
    assert "is left as it is" in done.stderr
    assert file.read_text() == "mine"
    assert _run("init", tmp_path / "no" / "job.toml").exit_code == 2


def test_problems_are_lines_that_an_editor_finds(tmp_path: Path) -> None:
    file = _written(tmp_path)
    file.write_text(file.read_text().replace('hold = "2 seconds"', 'hald = "2 seconds"'))
    done = _run("run", file, "--check")
    assert done.exit_code == 2
    number = 1 + next(i for i, line in enumerate(file.read_text().splitlines()) if "hald" in line)
    assert f"{file}:{number}: gate.hald: [gate] has no key 'hald'; did you mean 'hold'?" in done.stderr
    assert "2 problems in" in done.stderr
    assert "Traceback" not in done.output
    told = json.loads(_run("run", file, "--check", "--json").stdout)
    assert [problem["key"] for problem in told["problems"]] == ["gate", "gate.hald"]
    assert not told["ok"]
    assert not list(differences(told, documented("headgate run")))


def test_wrong_options_are_one_line(tmp_path: Path) -> None:
    file = _written(tmp_path)
    for options, says in (
        (("--once", "--for", "3s"), "not both"),
        (("--for", "soon"), "is not a positive duration"),
        (("--check", "--log", tmp_path), "Error"),
    ):
        done = _run("run", file, *options)
        assert done.exit_code == 2
        assert says in done.stderr
    done = _run("run", tmp_path / "none.toml")
    assert done.exit_code == 2
    assert "`headgate init none.toml` writes an example" in done.stderr


def test_the_json_of_a_run_is_documented(tmp_path: Path) -> None:
    told = json.loads(_run("run", _written(tmp_path), "--check", "--json").stdout)
    assert told["ok"]
    assert not list(differences(told, documented("headgate run")))
    outcome = Outcome("q", "time", 3.0, Figures(2, 1, 100, 40), "balanced").to_json()
    page = (Path(__file__).parents[3] / "docs" / "json.md").read_text()
    section = page.split("## `headgate run`")[1].split("\n## ")[0]
    for key in (*outcome, *told["pipeline"]):
        assert f"`{key}`" in section, key
    assert (outcome["arrived"], outcome["kept"], outcome["shed"]) == (100, 40, 60)


def test_a_run_is_well_if_it_did_not_fail_and_its_books_are_in_order() -> None:
    assert Outcome("q", "stopped", 1.0, Figures()).ok
    assert not Outcome("q", "failed", 1.0, Figures()).ok
    assert not Outcome("q", "time", 1.0, Figures(), "not balanced").ok


def test_the_status_line_says_what_matters() -> None:
    figures = Figures(3, 2, 10_000, 4_000, 1.5, 2_500.0, "shedding", "more comes than fits")
    console = Console(width=200)
    with console.capture() as said:
        console.print(status_line("rides", 12.0, figures))
    assert said.get() == (
        "rides  12 s  batch 2 took 1.50 s  2.50 k rows/s  kept 40.0 %  shedding: more comes than fits\n"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_console_sink_prints_is_passed_on(as_json: bool, capfd: Any) -> None:
    """To standard output, or beside it where JSON is to be alone there; to the last line."""
    screen = Screen(as_json)
    with screen.printed() as number:
        for line in range(1000):
            os.write(number, f"| route-{line} |\n".encode())
    out, err = capfd.readouterr()
    printed, other = (err, out) if as_json else (out, err)
    assert printed.splitlines() == [f"| route-{line} |" for line in range(1000)]
    assert not other


def test_in_a_pipe_only_what_is_new_of_the_state_is_said(tmp_path: Path, capfd: Any) -> None:
    screen, job = Screen(False), read_job(_written(tmp_path))
    with screen.following(job):
        screen.show(1.0, Figures())
        for batch, state in enumerate(["idle", "idle", "shedding", "shedding", "idle"]):
            screen.show(2.0 + batch, Figures(batch + 1, batch, 100, 90, 0.5, 50.0, state))
    lines = capfd.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == ["idle", "shedding", "idle"]
    screen.sum_up(job, Outcome("q", "stopped", 9.0, Figures(5, 4, 500, 450), "balanced"))
    said = capfd.readouterr().err
    assert "5 batches, 500 rows arrived, 450 kept, 50 shed." in said
    assert f"The ledger is balanced: headgate ledger show {job.control} --gate rides" in said


def _kafka_job(folder: Path, more: str = "") -> Any:
    file = _written(folder, "--source", "kafka")
    file.write_text(file.read_text() + more)
    return read_job(file, {})


def test_the_connector_is_found_and_joins_what_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Artifacts(("/jars/kafka.jar",), "4.3.0 is missing; using 4.2.0 instead")
    monkeypatch.setattr("headgate.testing.broker.connector", lambda: found)
    more = 'packages = "org.example:thing:1"\nconf = { "spark.jars" = "/mine.jar" }\n'
    notes: list[str] = []
    settings = session_settings(_kafka_job(tmp_path, more), notes.append)
    assert settings["spark.jars"] == "/mine.jar,/jars/kafka.jar"
    assert settings["spark.jars.packages"] == "org.example:thing:1"
    assert notes[-1] == found.stand_in


def test_a_connector_of_ones_own_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.testing.broker.connector", lambda: pytest.fail("not needed"))
    name = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    settings = session_settings(_kafka_job(tmp_path, f'packages = "{name}"\n'), print)
    assert settings == {"spark.jars.packages": name}


def test_a_connector_that_cannot_be_had_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Artifacts:
        raise ArtifactsUnavailable("no artifact repository can be reached")

    monkeypatch.setattr("headgate.testing.broker.connector", gone)
    with pytest.raises(JobProblems, match=r"spark-sql-kafka-0-10_2\.13:4\.") as refused:
        session_settings(_kafka_job(tmp_path), print)
    assert "[spark] packages" in str(refused.value)


def test_delta_where_there_is_none_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = SparkVersion.read("4.3.0")
    for module in ("headgate.testing.table_formats", "headgate.spark.job.connectors"):
        monkeypatch.setattr(f"{module}.installed", lambda: newest)
    file = _written(tmp_path)
    text = file.read_text().replace(
        'format = "console" ', 'format = "delta"\npath = "x"\ncheckpoint = "c"'
    )
    file.write_text(text.replace('mode = "update"', ""))
    with pytest.raises(JobProblems, match=r"no delta connector for Spark 4\.3\.0 yet.*another format"):
        session_settings(read_job(file), print)
