"""A site's calls with wrong arguments, and with names that do not fit together."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.worker_errors import pythons_text, said_by_spark


@pytest.fixture
def site(spark: Any, tmp_path: Path) -> Iterator[hg.Site]:
    with hg.Site(spark, "calls", control=tmp_path / "control", hold="30 seconds") as made:
        yield made


@pytest.fixture
def stream(spark: Any) -> Any:
    return spark.readStream.format("rate").load()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seed": "x"}, "seed='x': give a whole number"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"cores": "two"}, "cores='two': give a number above 0"),
        ({"cores": 1, "rows_per_s": 10}, "in one or the other"),
        ({"token": "abc"}, "give coordinator= too"),
        ({"token": " ", "coordinator": "http://127.0.0.1:1"}, "token= is empty"),
    ],
)
def test_a_site(spark: Any, tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(hg.BadArgument, match=says):
        hg.Site(spark, "calls", control=tmp_path, **given)


def test_a_site_without_a_session(tmp_path: Path) -> None:
    with pytest.raises(hg.BadArgument, match="give a SparkSession"):
        hg.Site(None, "calls", control=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("control", ["", None, 5])
def test_no_control_folder(spark: Any, control: Any) -> None:
    with pytest.raises(hg.ControlFolderError, match="give a folder"):
        hg.Site(spark, "calls", control=control)


def test_a_control_folder_that_is_a_file(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(hg.ControlFolderError, match="is a file: give a folder"):
        hg.Site(spark, "calls", control=tmp_path / "file")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"keep": 5}, "keep=5: give a string"),
        ({"identity": [1]}, r"identity=\[1\]: give a column's name"),
        ({"identity": []}, r"identity=\[\]: give a column's name"),
        ({"seed": "x"}, "seed='x'"),
        ({"agreed": "many"}, "rows a second, above 0"),
        ({"agreed": -1.0}, "rows a second"),
    ],
)
def test_a_gate(site: hg.Site, given: dict[str, Any], says: str) -> None:
    with pytest.raises(hg.BadArgument, match=says):
        site.gate("g", query="q", source="s", **given)


def test_a_gate_of_another_source_under_the_same_name(site: hg.Site, stream: Any) -> None:
    stream.transform(site.gate("g", query="q", source="one"))
    with pytest.raises(hg.BadArgument, match="is for source 'one' of query 'q' already: give this one"):
        stream.transform(site.gate("g", query="q", source="two"))
    with pytest.raises(hg.BadArgument, match=r"call leave\('q'\)"):
        stream.selectExpr("*", "1.0D as _sic").transform(site.gate("g", query="q"))
    stream.transform(site.gate("g", query="q", source="one"))
    site.leave("q")
    stream.transform(site.gate("g", query="q", source="two"))
    assert site.status()["queries"]["q"]["sources"] == 1


def test_a_result_of_a_query_that_no_gate_is_for(
    site: hg.Site, stream: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gated = stream.transform(site.gate("g", query="top-routes", source="s"))
    with caplog.at_level(logging.WARNING, "headgate"):
        gated.transform(site.result("top-routes"))
        assert caplog.records == []
        gated.transform(site.result("top-route"))
        site.leave("nosuch")
    assert "none of its gates is for that (they are for top-routes)" in caplog.records[0].message
    assert "'nosuch' is not at site 'calls'" in caplog.records[1].message


def test_a_query_of_which_nothing_is_known_has_no_sic(site: hg.Site) -> None:
    site.query("later", weight=2)
    assert site.sic == {}
    assert not any(math.isnan(value) for value in site.sic.values())
    assert site.status()["queries"]["later"]["sic"] is None


def test_a_stopped_site_says_so(site: hg.Site) -> None:
    assert not site.status()["stopped"]
    assert repr(site).startswith("Site('calls', control=")
    site.stop()
    assert site.status()["stopped"]
    assert "stopped" in repr(site)
    text = (site.folder / "status.json").read_text()
    assert '"stopped":true' in text


def test_the_workers_python_is_not_there(
    spark: Any, site: hg.Site, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = os.fspath(Path("/nosuch/python"))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", missing)
    with pytest.raises(hg.WorkerError, match="export PYSPARK_PYTHON="):
        stream.transform(site.gate("g", query="q", source="s"))
    assert site.status()["gates"] == {}, "a gate that was not built is no load"


def test_both_pythons_and_the_command_that_makes_them_one() -> None:
    said = pythons_text("sh", "/my apps/.venv/bin/python")
    assert f"The workers' Python is 'sh' (here {shutil.which('sh')!r})" in said
    assert "export PYSPARK_PYTHON='/my apps/.venv/bin/python' " in said, "as a shell takes it"
    assert "export" not in pythons_text(sys.executable, sys.executable), "nothing to change"
    assert pythons_text(None) == "", "only a Connect server knows its own"


def test_what_spark_says_of_a_worker_in_a_line() -> None:
    class Py4JJavaError(Exception):
        __module__ = "py4j.protocol"

    page = (
        "An error occurred while calling o59.collectToPython.\n: java.io.IOException: Cannot run program"
    )
    assert said_by_spark(Py4JJavaError(f'{page} "/x/python": error=2\n\tat java')) == (
        'Cannot run program "/x/python": error=2'
    )
    assert said_by_spark(Py4JJavaError("")) == "Py4JJavaError"
