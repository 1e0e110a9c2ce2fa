"""The files for Grafana and Prometheus: whole, and no name in them that is not served."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from headgate.view.observer import Observer
from headgate.view.readings import METRICS, readings

FILES = Path(__file__).parents[2] / "dashboards"
_NAME = re.compile(r"\bheadgate_[a-z_]+\b")
#: What Grafana asks for the values of a variable: its own word around a selector.
_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / "grafana.json").read_text())
    return found


def _expressions() -> list[str]:
    found = [target["expr"] for panel in _dashboard()["panels"] for target in panel["targets"]]
    found += [values[0] for values in _variables()]
    return found + [rule["expr"] for rule in _rules()]


def _variables() -> list[tuple[str, str]]:
    """The selector and the label of each variable that Grafana asks Prometheus for."""
    asked = [v["query"] for v in _dashboard()["templating"]["list"] if v["type"] == "query"]
    matches = [_VALUES.fullmatch(query) for query in asked]
    assert all(matches), asked
    return [(match[1], match[2]) for match in matches if match]


def _selected(expression: str) -> list[Any]:
    """Every selector in an expression, as a parser of PromQL finds it; what is no PromQL raises."""
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector) and node not in found:
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), pre_visit=visit)
    return found


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_metric_that_they_use_is_served_with_the_labels_that_they_ask_for() -> None:
    expressions = _expressions()
    assert len(expressions) >= 20
    for text in expressions:
        selectors = _selected(text)
        assert {s.name for s in selectors} == set(_NAME.findall(text)), "the parser sees them all"
        for selector in selectors:
            assert selector.name in METRICS, text
            asked = {matcher.name for matcher in selector.matchers.matchers}
            assert asked <= set(METRICS[selector.name][1]), text
    for selector, label in _variables():
        assert label in METRICS[selector][1]


def test_only_counters_are_rated_and_all_counters_are() -> None:
    for text in _expressions():
        ranged = []

        def visit(node: Any, ranged: list[str] = ranged) -> None:
            if isinstance(node, promql_parser.Call) and node.func.name in ("rate", "increase"):
                ranged.append(node.args[0].vector_selector.name)

        promql_parser.walk(promql_parser.parse(text), pre_visit=visit)
        assert all(name.endswith("_total") for name in ranged), text
        if text not in {selector for selector, _ in _variables()}:
            counters = {name for name in _NAME.findall(text) if name.endswith("_total")}
            assert counters == set(ranged), text


@pytest.mark.parametrize("text", ["sum(headgate_state", "headgate_state{gate=}", "rate(headgate_state)"])
def test_the_parser_is_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        _selected(text)


def test_values_of_labels_that_are_asked_for_are_given_out(busy_store: Path) -> None:
    """``state="futile"`` on a metric that never says futile would be an alert that never fires."""
    served: dict[tuple[str, str], set[str]] = {}
    for name, _, labels in readings(Observer(busy_store).look()):
        for label, value in zip(METRICS[name][1], labels, strict=True):
            served.setdefault((name, label), set()).add(value)
    for text in _expressions():
        for selector in _selected(text):
            for matcher in selector.matchers.matchers:
                if "$" not in matcher.value:
                    assert matcher.value in served[selector.name, matcher.name], text


def test_the_rules_are_as_prometheus_wants_them() -> None:
    whole = yaml.safe_load((FILES / "alerts.yml").read_text())
    assert whole.keys() == {"groups"}
    assert len({rule["alert"] for rule in _rules()}) == len(_rules())
    for rule in _rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        if "for" in rule:
            assert promql_parser.parse_duration(rule["for"]).total_seconds() > 0


def test_what_matters_is_on_the_dashboard_and_alerted_on() -> None:
    used = {name for text in _expressions() for name in _NAME.findall(text)}
    for name in (
        "headgate_measured_seconds", "headgate_target_seconds", "headgate_rows_shed_total",
        "headgate_state", "headgate_ledger_unbalanced_batches",
        "headgate_sic_ratio", "headgate_store_up",
    ):  # fmt: skip
        assert name in used


def test_panels_do_not_lie_on_each_other_and_legends_name_labels_that_are_there() -> None:
    panels = _dashboard()["panels"]
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
