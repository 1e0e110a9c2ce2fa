"""The Python examples of the README and the docs, run for real."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headgate as hg
from headgate.cli import main
from headgate.job.reading import read_job
from headgate.job.schema import (
    ACCURACY,
    CONCEPT_DRIVEN,
    GATE,
    GROUP_RATES,
    RESCUE,
    SINKS,
    SOURCES,
    SPARK,
    SQL,
    TOP,
)
from headgate.spark.job.build import start_job
from headgate.spark.job.running import RunningJob
from headgate.view.gate_status import gates_status
from tests.eventually import eventually
from tests.harness.session_settings import FEW_ROWS, with_settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def own_store(spark: Any) -> Iterator[None]:
    """A page may choose the state store; other tests keep what they had."""
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, before)


@pytest.fixture
def few_rows(spark: Any) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


def test_there_are_examples() -> None:
    assert sum(len(_examples(page)) for page in PAGES) >= 6


def test_every_paper_that_is_cited_is_named_in_full() -> None:
    cited: set[str] = set()
    for folder in ("src", "lab", "docs"):
        for path in (p for kind in ("*.py", "*.md") for p in (ROOT / folder).rglob(kind)):
            cited |= set(re.findall(r"\b(?:las|cod|join|themis)-20\d\d\b", path.read_text()))
    named = set(
        re.findall(r"^\| `([a-z]+-20\d\d)` \|", (ROOT / "docs/papers.md").read_text(), re.MULTILINE)
    )
    assert cited == named


def test_every_error_that_a_page_names_is_public() -> None:
    from headgate import errors

    for page in PAGES:
        for name in set(re.findall(r"`(\w+)`", page.read_text())) & set(errors.__all__):
            assert name in hg.__all__, f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_tests_that_a_page_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "promises.md").read_text())
    assert len(named) >= 14
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"


@pytest.mark.parametrize("name", ["README.md", "docs/guide.md", "docs/guard.md"])
def test_gates_in_the_docs_run(name: str, spark: Any, own_store: None, tmp_path: Path) -> None:
    events = spark.readStream.format("rate").load()
    events = events.selectExpr("timestamp", "value", "'a' route", "'high' priority", "true vip")
    news = spark.readStream.format("rate").load()
    news = news.selectExpr("timestamp published", "array('a', 'b', 'c') keywords")
    news = news.withWatermark("published", "1 hour")
    names: dict[str, Any] = {"hg": hg, "events": events, "spark": spark, "bbc": news, "fox": news}
    for example in _examples(ROOT / name):
        exec(_without_broker(example).replace("/shared/headgate", str(tmp_path / "control")), names)
        if "query" in names:
            names.pop("query").stop()


def _without_broker(example: str) -> str:
    """The same from a source that needs no broker; tests/kafka has gates on a real one."""
    columns = "\"'a' key\", '0 partition', 'value offset', 'value'"
    load = f'.format("rate").load().selectExpr({columns})'
    return example.replace('.format("kafka").options(**topic).load()', load)


def test_the_page_on_groups_runs(spark: Any, few_rows: None, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    rides = rate.selectExpr("timestamp dropoff", "value", "'a' route", "cast(value as double) fare")
    names: dict[str, Any] = {
        "hg": hg,
        "rides": rides,
        "orders": rate.selectExpr("timestamp ordered", "value order"),
        "payments": rate.selectExpr("timestamp paid", "value payment_for"),
    }
    for example in _examples(ROOT / "docs" / "groups.md"):
        exec(example.replace("/shared/headgate", str(tmp_path / "control")), names)
        if "query" in names:
            names.pop("query").stop()


def _job_files(page: Path) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_job_files_of_a_page_are_right(page: Path, tmp_path: Path) -> None:
    for text in _job_files(page):
        (tmp_path / "job.toml").write_text(text)
        assert read_job(tmp_path / "job.toml").gate["name"]


def test_the_page_on_job_files_names_every_key() -> None:
    page = (ROOT / "docs" / "job.md").read_text()
    tables = [TOP, SQL, GATE, RESCUE, SPARK, CONCEPT_DRIVEN, ACCURACY, GROUP_RATES]
    tables += [*SOURCES.values(), *SINKS.values()]
    named = {key for table in tables for key in table} | SOURCES.keys() | SINKS.keys()
    for key in named - {"name", "options", "conf"}:
        assert f"`{key}`" in page or f"`{key} = " in page, key


def test_the_page_on_job_files_runs(spark: Any, tmp_path: Path) -> None:
    first, *_ = _job_files(ROOT / "docs" / "job.md")
    (tmp_path / "job.toml").write_text(first)
    job = read_job(tmp_path / "job.toml")
    running = RunningJob(spark, job, start_job(spark, job, tmp_path))
    try:
        eventually(lambda: running.look().arrived > 2000, "two seconds' rows", within_s=120.0)
    finally:
        running.stop()
    outcome = running.outcome("stopped")
    assert outcome.ok, outcome
    # On a JVM that has just begun, batches of a thousand rows can take longer than two seconds.
    assert 0 < (outcome.figures.kept or 0) <= outcome.figures.arrived


def test_the_page_on_joins_runs(spark: Any, own_store: None, few_rows: None, tmp_path: Path) -> None:
    names: dict[str, Any] = {"hg": hg, "spark": spark}
    for source in ("bbc", "fox"):
        (tmp_path / source).mkdir()
    (example,) = _examples(ROOT / "docs" / "joins.md")
    exec(
        example.replace("/shared/headgate", str(tmp_path / "control")).replace("/data", str(tmp_path)),
        names,
    )
    assert names["pairs"].columns == [
        f"{c}_{s}" for s in ("left", "right") for c in names["bbc"].columns
    ]


def test_the_page_on_sites_runs(spark: Any, few_rows: None, tmp_path: Path) -> None:
    events = spark.readStream.format("rate").load().selectExpr("timestamp", "value", "'a' route")
    names: dict[str, Any] = {"hg": hg, "spark": spark, "events": events}
    try:
        for example in _examples(ROOT / "docs" / "sites.md"):
            exec(example.replace("/shared/headgate", str(tmp_path / "control")), names)
        assert names["top"].columns == ["window", "route", "rides", "_sic"]
        assert names["total"].columns == ["window", "rides", "_sic"]
    finally:
        for site in ("site", "paris", "oslo"):
            if site in names:
                names[site].stop()


def test_the_page_on_backfill_runs(spark: Any, few_rows: None, tmp_path: Path) -> None:
    from headgate.spark.loop.loop import ControlLoop

    source, control, late, parts = (tmp_path / n for n in ("in", "control", "late", "parts"))
    source.mkdir()
    rows = [{"id": i, "route": f"r{i % 3}", "fare": 2.0} for i in range(600)]
    for number in range(2):
        (source / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names: dict[str, Any] = {"hg": hg, "spark": spark, "control": control, "late": str(late)}
    names["parts"] = str(parts)
    examples = _examples(ROOT / "docs" / "backfill.md")
    exec(next(e for e in examples if "def keep(" in e), names)
    reader = spark.readStream.schema("id bigint, route string, fare double")
    stream = reader.option("maxFilesPerTrigger", 1).json(str(source)).where("fare > 0")
    for name, act in (("rides", lambda frame, batch: frame.count()), ("tolls", names["keep"])):
        gated = stream.transform(hg.gate(name, rate=0.5, control=control))
        writer = gated.writeStream.foreachBatch(act)
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).start().awaitTermination()
        ControlLoop.of(spark).drain()
    for example in examples:
        exec(example, names)
    assert names["done"].complete
    assert not any(row.exact for row in names["before"])
    assert [(row.rows, row.rows_stderr, row.exact) for row in names["after"]] == [(400.0, 0.0, True)] * 3


def test_the_ledger_page_runs(spark: Any, tmp_path: Path) -> None:
    source, control, checkpoint = (tmp_path / n for n in ("in", "control", "checkpoint"))
    source.mkdir()
    (source / "a.json").write_text("".join(json.dumps({"id": i}) + "\n" for i in range(1000)))
    schema = "id bigint"
    stream = spark.readStream.schema(schema).json(str(source))
    gated = stream.transform(hg.gate("rides", rate=0.5, control=control))
    writer = gated.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    from headgate.spark.loop.loop import ControlLoop

    ControlLoop.of(spark).drain()
    names = {"hg": hg, "spark": spark, "schema": schema, "control": control, "checkpoint": checkpoint}
    for example in _examples(ROOT / "docs" / "ledger.md"):
        exec(example, names)
    assert 400 < names["shed"].count() < 600


def test_the_tutorial_runs_and_so_do_its_commands(spark: Any, tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial.md"
    (example,) = _examples(page)
    control = tmp_path / "control"
    for given, tried in (
        ('"/tmp/headgate-tutorial"', repr(str(control))),
        ("query.awaitTermination(60)", "shed_something(query)"),
    ):
        assert given in example
        example = example.replace(given, tried)

    def shed_something(query: Any) -> None:
        eventually(lambda: query.exception() or _shed(control), "a batch that sheds", 150.0)
        assert query.exception() is None

    exec(example, {"shed_something": shed_something})
    from headgate.spark.loop.loop import ControlLoop

    ControlLoop.of(spark).drain()
    try:
        (rides,) = spark.sql("select sum(rides) from routes").first()
        (gate,) = gates_status(control, 0.0)
        assert 0.5 * gate["queries"][0]["arrived"] < rides < 2.0 * gate["queries"][0]["arrived"]
    finally:
        spark.catalog.dropTempView("routes")
    commands = [
        line.replace("/tmp/headgate-tutorial", str(control)).removeprefix("headgate ")
        for kind, block in re.findall(
            r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        )
        for line in block.splitlines()
        if kind == "" and line.startswith("headgate ")
    ]
    assert len(commands) == 7
    for command in commands:
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exit_code == 0, f"{command}: {done.output}"


def _shed(control: Path) -> bool:
    gates = gates_status(control, 0.0) if control.exists() else []
    return any(query["shed"] > 0 for gate in gates for query in gate["queries"])
