"""The files for Grafana and Prometheus: whole, and no name in them that is not served."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.page.metrics import METRICS

FILES = Path(__file__).parents[2] / "dashboards"
_NAME = re.compile(r"\bheadgate_[a-z_]+\b")
_SELECTED = re.compile(r"\b(headgate_[a-z_]+)\{([^}]*)\}")


def _expressions() -> list[str]:
    dashboard = json.loads((FILES / "grafana.json").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    found += [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return found + [rule["expr"] for rule in _rules()]


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_metric_that_they_use_is_served_with_the_labels_that_they_ask_for() -> None:
    expressions = _expressions()
    assert len(expressions) >= 20
    for text in expressions:
        names = set(_NAME.findall(text))
        assert names, text
        assert names <= METRICS.keys(), text
        for name, labels in _SELECTED.findall(text):
            asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))
            assert asked <= set(METRICS[name][1]), text


def test_what_matters_is_on_the_dashboard_and_alerted_on() -> None:
    used = {name for text in _expressions() for name in _NAME.findall(text)}
    for name in (
        "headgate_measured_seconds", "headgate_target_seconds", "headgate_rows_shed_total",
        "headgate_state", "headgate_ledger_unbalanced_batches",
        "headgate_sic_ratio", "headgate_store_up",
    ):  # fmt: skip
        assert name in used


def test_panels_do_not_lie_on_each_other_and_legends_name_labels_that_are_there() -> None:
    panels = json.loads((FILES / "grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"]
        for target in panel["targets"]:
            labels = {label for name in _NAME.findall(target["expr"]) for label in METRICS[name][1]}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


@pytest.mark.parametrize("rule", _rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["alert"].startswith("Headgate")
    for name in ("summary", "description"):
        assert len(rule["annotations"][name].split()) >= 4
    for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
        assert all(label in METRICS[name][1] for name in _NAME.findall(rule["expr"]))


def test_names_follow_the_conventions() -> None:
    for name, (text, labels) in METRICS.items():
        assert name.startswith("headgate_")
        assert text.endswith(".")
        assert len(labels) <= 3
        assert not re.search(r"_(ms|milliseconds|percent|minutes)$", name)


def test_the_page_of_the_docs_names_every_metric_and_no_other() -> None:
    text = (FILES.parent / "docs" / "page.md").read_text()
    assert set(re.findall(r"`(headgate_[a-z_]+)`", text)) == METRICS.keys()
