"""Job files: what is legal is read, and whatever is wrong is said at once, with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.core.rescue import Rescue
from headgate.job.examples import SOURCES, example
from headgate.job.job import Job
from headgate.job.problems import JobProblems
from headgate.job.reading import read_job

RIGHT = """\
[source]
format = "kafka"
servers = "broker:9092"
topic = ["rides", "trips"]
[gate]
name = "rides"
hold = "2 seconds"
control = "control"
[sink]
format = "noop"
"""


def _job(folder: Path, text: str, environment: dict[str, str] | None = None) -> Job:
    file = folder / "job.toml"
    file.write_text(text)
    return read_job(file, environment or {})


def _problems(folder: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(JobProblems) as refused:
        _job(folder, text, environment)
    return [f"{p.line} {p.key}: {p.message}" for p in refused.value.problems]


def _with(line: str, under: str = "[gate]") -> str:
    return RIGHT.replace(f"{under}\n", f"{under}\n{line}\n")


@pytest.mark.parametrize("source", SOURCES)
def test_the_examples_are_right(source: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    job = _job(tmp_path, example(source))
    assert job.gate["hold"]
    assert job.control == str(tmp_path / "out/job/control")


def test_what_a_file_says_is_what_spark_and_the_gate_get(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        """
        name = "all"
        [source]
        format = "kafka"
        servers = "${BROKER}:9092"
        topic = ["rides", "trips"]
        start = "earliest"
        [source.options]
        kafka.sasl.jaas.config = "user ${PASSWORD}"
        "maxOffsetsPerTrigger" = 1000
        failOnDataLoss = false
        [sql]
        before = "SELECT * FROM source"
        after = "SELECT * FROM calm"
        view = "calm"
        watermark = { column = "at", delay = "1 minute" }
        [gate]
        name = "rides"
        delay = 5
        arrival = "at"
        control = "s3://bucket/control"
        identity = ["partition", "offset"]
        first_rows = inf
        [gate.policy]
        kind = "concept-driven"
        by = ["route"]
        accuracy = { of = "fare", within = 0.02 }
        [sink]
        format = "parquet"
        path = "out"
        checkpoint = "/checkpoints/rides"
        trigger = "available-now"
        [spark]
        packages = "org.example:thing:1.0"
        [spark.conf]
        spark.sql.shuffle.partitions = 4
        """,
        {"BROKER": "broker-7", "PASSWORD": "hunter2"},
    )
    assert job.source.options == {
        "kafka.bootstrap.servers": "broker-7:9092",
        "subscribe": "rides,trips",
        "startingOffsets": "earliest",
        "kafka.sasl.jaas.config": "user hunter2",
        "maxOffsetsPerTrigger": "1000",
        "failOnDataLoss": "false",
    }
    assert (job.sql.view, job.sql.watermark) == ("calm", ("at", "1 minute"))
    assert job.gate["policy"].by == ("route",)
    assert job.gate["policy"].accuracy.within == 0.02
    assert job.gate["first_rows"] == float("inf")
    assert job.gate["checkpoint"] == "/checkpoints/rides", "the gate reads the sizes of batches there"
    assert (job.sink.path, job.sink.trigger) == (str(tmp_path / "out"), "available-now")
    assert job.spark.conf == {"spark.sql.shuffle.partitions": "4"}
    assert job.spark.packages == ("org.example:thing:1.0",)
    assert job.name == "all"


def test_rates_for_named_groups(tmp_path: Path) -> None:
    job = _job(
        tmp_path, _with('policy = { kind = "group-rates", by = "level", rates = { DEBUG = 0.1 } }')
    )
    assert job.gate["policy"].rates == {"DEBUG": 0.1}


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    said = _problems(
        tmp_path,
        """\
[sauce]
[source]
format = "kafka"
servers = 9092
topik = "rides"
[gate]
name = "my rides"
hold = "2 parsecs"
min_keep = 2
[sink]
format = "parket"
""",
    )
    assert [line.split(": ")[0] for line in said] == [
        "1 sauce", "2 source", "4 source.servers", "5 source.topik", "6 gate", "7 gate.name",
        "8 gate.hold", "9 gate.min_keep", "11 sink.format",
    ]  # fmt: skip
    assert "did you mean 'source'?" in said[0]
    assert "needs topic" in said[1]
    assert "did you mean 'topic'?" in said[3]
    assert "needs control" in said[4]
    assert "'2 parsecs' is not a positive duration" in said[6]
    assert "did you mean 'parquet'?" in said[8]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('delay = "1 s"', "exactly one of hold"),
        ("rate = 0.0", "outside (0, 1]"),
        ("inside = 0.2", "outside [0.5, 0.999]"),
        ("first_rows = 0", "inf, without quotes"),
        ('mode = "shedding"', "'off', 'monitor', 'shed'"),
        ('retention = "1 minute"', "less than an hour"),
        ('weight = "yes"', "true or false"),
        ("keep = []", "a list of texts"),
        ("identity = 3", "is not a text in quotes"),
        ("seed = 1.5", "a whole number"),
        ('control = "ftp://x"', "control"),
        ("policy = 3", "is not a table"),
        ("policy = {}", "has no kind"),
        ('policy = { kind = "group-rates", by = "a" }', "needs rates"),
        ('policy = { kind = "group-rates", by = "a", rates = { b = 2 } }', "outside (0, 1]"),
        ('policy = { kind = "concept-driven" }', "has no by"),
        ('policy = { kind = "concept-driven", by = "a", draw = "dice" }', "draw='dice' is not one of"),
        ('policy = { kind = "concept-driven", by = "a", accuracy = { of = "b" } }', "has no within"),
    ],
)
def test_a_gate_that_cannot_be_is_refused_at_its_line(line: str, says: str, tmp_path: Path) -> None:
    text = _with(line) if "control" not in line else RIGHT.replace('control = "control"', line)
    said = _problems(tmp_path, text)
    assert any(says in problem for problem in said), said
    lines = {int(problem.split()[0]) for problem in said}
    assert lines <= {5, 6, 7, 8}, "in the table of the gate"


def test_delay_and_keep_need_what_they_need(tmp_path: Path) -> None:
    (said,) = _problems(tmp_path, RIGHT.replace("hold =", "delay ="))
    assert said.startswith("7 gate.delay: delay needs arrival")
    said = " ".join(_problems(tmp_path, _with('keep = "a"\npolicy = { kind = "uniform" }')))
    assert "not both" in said


FILES = 'format = "parquet"\npath = "p"\ncheckpoint = "c"'


@pytest.mark.parametrize(
    ("sink", "rescue", "built"),
    [
        (FILES, "", Rescue("files")),
        (FILES, 'sink = "files"\nkeep = 0.5\nwhole = 1', Rescue("files", 0.5, 1)),
        ('format = "delta"\npath = "p"\ncheckpoint = "c"', "whole = 3", Rescue("delta", whole=3)),
        ('format = "noop"', "", Rescue("noop")),
    ],
)
def test_a_rescue_is_one_of_the_files_own_sink(
    sink: str, rescue: str, built: Rescue, tmp_path: Path
) -> None:
    job = _job(tmp_path, RIGHT.replace('format = "noop"', sink) + f"[rescue]\n{rescue}\n")
    assert job.gate["rescue"] == built
    assert "rescue" not in _job(tmp_path, RIGHT).gate, "it must be asked for"


@pytest.mark.parametrize(
    ("rescue", "says"),
    [
        ("keep = 1.0", "12 rescue.keep: keep=1.0 is no share between 0 and 1"),
        ('keep = "half"', "12 rescue.keep: keep='half' is not a number"),
        ("whole = 0", "12 rescue.whole: whole=0: give a whole number, 1 or more"),
        ('sink = "files"', "12 rescue.sink: sink='files': [sink] writes 'noop'"),
        ("whol = 1", "12 rescue.whol: [rescue] has no key 'whol'; did you mean 'whole'?"),
    ],
)
def test_a_rescue_that_cannot_be_is_refused_at_its_line(rescue: str, says: str, tmp_path: Path) -> None:
    (said,) = _problems(tmp_path, f"{RIGHT}[rescue]\n{rescue}\n")
    assert said.startswith(says)


def test_a_rescue_needs_a_safe_sink_a_control_folder_and_rates(tmp_path: Path) -> None:
    kafka = 'format = "kafka"\nservers = "other"\ntopic = "out"\ncheckpoint = "c"'
    text = RIGHT.replace('format = "noop"', kafka) + "[rescue]\n"
    (said,) = _problems(tmp_path, text)
    assert said.startswith("14 rescue: sink='kafka' cannot be had: rows that a failed attempt produced")
    assert said.endswith("or leave [rescue] out")
    without = RIGHT.replace('hold = "2 seconds"\ncontrol = "control"\n', "rate = 0.5\n")
    (said,) = _problems(tmp_path, without + "[rescue]\n")
    assert said.startswith("10 rescue: [rescue] needs control in [gate]")
    drawn = _with('policy = { kind = "concept-driven", by = "a" }') + "[rescue]\n"
    (said,) = _problems(tmp_path, drawn)
    assert said.startswith("12 rescue: [rescue] lowers the rates of a plan")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('format = "json"\npath = "nowhere"\nschema = "a INT"', "there is no folder"),
        ('format = "json"\npath = "."', "has no schema"),
        ('format = "delta"', "one of path and table"),
        ('format = "rate"\nrows_per_second = 0', "1 or more"),
        (
            'format = "kafka"\nservers = "a"\ntopic = "b"\noptions = { subscribe = "c" }',
            "by the key 'topic'",
        ),
        ('format = "kafka"\nservers = "a"\ntopic = "b"\noptions = { x = [1] }', "is a list"),
    ],
)
def test_sources_are_checked(source: str, says: str, tmp_path: Path) -> None:
    text = re.sub(r"\[source\]\n.*?(?=\[gate\])", f"[source]\n{source}\n", RIGHT, flags=re.DOTALL)
    assert says in " ".join(_problems(tmp_path, text))


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        (
            'format = "kafka"\nservers = "broker:9092"\ntopic = "trips"\ncheckpoint = "c"',
            "round for ever",
        ),
        ('format = "parquet"\npath = "p"', "has no checkpoint"),
        ('format = "parquet"\npath = "p"\ncheckpoint = "c"\nmode = "update"', "only ever appended"),
        ('format = "noop"\ntrigger = "soon"', "is not a positive duration"),
        ('format = "noop"\noptions = { checkpointLocation = "x" }', "by the key 'checkpoint'"),
    ],
)
def test_sinks_are_checked(sink: str, says: str, tmp_path: Path) -> None:
    assert says in " ".join(_problems(tmp_path, RIGHT.replace('format = "noop"', sink)))


def test_sql_must_read_what_is_there(tmp_path: Path) -> None:
    sql = '[sql]\nbefore = "SELECT 1"\nafter = "SELECT * FROM source"\n'
    before, after = _problems(tmp_path, RIGHT + sql)
    assert before == "12 sql.before: before does not read 'source': write SELECT ... FROM source"
    assert after == "13 sql.after: after does not read 'gated': write SELECT ... FROM gated"
    (said,) = _problems(tmp_path, RIGHT + '[sql]\nview = "source"\n')
    assert said.startswith("12 sql.view: view='source'")


def test_settings_of_spark_are_checked(tmp_path: Path) -> None:
    spark = '[spark]\npackages = ["thing"]\nconf = { memory = "2g" }\n'
    said = " ".join(_problems(tmp_path, RIGHT + spark))
    assert "group:name:version" in said
    assert "begin with 'spark.'" in said


def test_a_mistake_in_the_syntax_has_its_line(tmp_path: Path) -> None:
    (said,) = _problems(tmp_path, '[source]\nformat = "kafka\n')
    assert said.startswith("2 : this is no TOML")
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(JobProblems, match="not UTF-8"):
        read_job(tmp_path / "job.toml")


def test_secrets_are_shown_to_nobody(tmp_path: Path) -> None:
    text = RIGHT + '[spark.conf]\nspark.ssl.keyPassword = "open sesame"\nspark.x = "${TOKEN}"\n'
    job = _job(tmp_path, text, {"TOKEN": "abcdef"})
    assert job.secrets.shown("open sesame, said abcdef") == "***, said ***"
    said = _problems(tmp_path, _with('mode = "${TOKEN}"'), {"TOKEN": "abcdef"})
    assert "abcdef" not in " ".join(said)
    (said,) = _problems(tmp_path, text)
    assert said.startswith("13 spark.conf.spark.x: the environment has no variable TOKEN")
