"""What OpenTelemetry hears is what `/metrics` says, under its own conventions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="pip install 'headgate[otel]'")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from headgate.errors import BadArgument
from headgate.page.metrics import exposition
from headgate.page.otel import instrument, otel_name
from headgate.view.observer import Observer
from headgate.view.readings import METRICS
from tests.eventually import eventually
from tests.view.virtual_gate import CAPACITY, VirtualGate

Points = dict[tuple[str, tuple[tuple[str, str], ...]], float]
#: What differs between two looks at the same store: the clock.
_OF_NOW = {"headgate_view_timestamp_seconds", "headgate_heartbeat_age_seconds"}


def collected(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    assert data is not None
    return [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]


def in_prometheus(metric: Any) -> str:
    """The name that OpenTelemetry's rules give a metric on its way to Prometheus."""
    name = metric.name.replace(".", "_")
    counter = type(metric.data).__name__ == "Sum"
    if metric.unit == "s":
        name += "_seconds"
    if metric.unit == "1" and not counter:
        name += "_ratio"
    return name + "_total" if counter else name


def as_points(metrics: list[Any]) -> Points:
    return {
        (in_prometheus(m), tuple(sorted(p.attributes.items()))): p.value
        for m in metrics
        for p in m.data.data_points
    }


def test_a_collector_gives_prometheus_the_same_names_labels_and_values(busy_store: Path) -> None:
    reader = InMemoryMetricReader()
    instrument(busy_store, MeterProvider([reader]))
    ours = as_points(collected(reader))
    text = exposition(Observer(busy_store).look()).decode()
    theirs = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    assert ours.keys() == theirs.keys()
    assert len(ours) > 60
    for key, value in theirs.items():
        if key[0] not in _OF_NOW:
            assert ours[key] == value, key


def test_counters_are_monotonic_sums_and_the_rest_gauges_with_units(busy_store: Path) -> None:
    reader = InMemoryMetricReader()
    instrument(busy_store, MeterProvider([reader]))
    for metric in collected(reader):
        assert metric.name.startswith("headgate.")
        assert metric.description.endswith(".")
        if in_prometheus(metric).endswith("_total"):
            assert metric.data.is_monotonic
            assert metric.unit in ("{row}", "{batch}", "{comparison}")
        else:
            assert type(metric.data).__name__ == "Gauge"


def test_no_two_metrics_become_one_instrument() -> None:
    assert len({otel_name(name)[0] for name in METRICS}) == len(METRICS)


def test_all_instruments_of_a_collection_share_one_look(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    looks = []

    class Counting(Observer):
        def look(self) -> Any:
            looks.append(None)
            return super().look()

    reader = InMemoryMetricReader()
    instrument(control, MeterProvider([reader]), refresh_s=3600, observer=Counting(control))
    collected(reader)
    collected(reader)
    assert len(looks) == 1


def test_a_store_that_is_gone_is_told_and_the_last_readings_stay(control: Path) -> None:
    VirtualGate(control).batches(3, 1000)
    reader = InMemoryMetricReader()
    instrument(control, MeterProvider([reader]), refresh_s=0.2)
    assert as_points(collected(reader))["headgate_store_up", ()] == 1.0
    control.rename(control.with_name("elsewhere"))

    def told() -> bool:
        return as_points(collected(reader))["headgate_store_up", ()] == 0.0

    eventually(told, "that the store is gone")
    names = {name for name, _ in as_points(collected(reader))}
    assert "headgate_rows_arrived_total" in names


def test_a_refresh_that_is_none_is_refused(control: Path) -> None:
    with pytest.raises(BadArgument, match=r"give 0\.2 to 3600 seconds"):
        instrument(control, MeterProvider(), refresh_s=0.0)


class _Collector(BaseHTTPRequestHandler):
    """Takes what an exporter posts."""

    got: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_serve_sends_them_over_the_wire(control: Path) -> None:
    VirtualGate(control, "rides").batches(5, 3 * CAPACITY)
    handler = type("Handler", (_Collector,), {"got": []})
    with HTTPServer(("127.0.0.1", 0), handler) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        given = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-m", "headgate", "serve", "--control", str(control)]
        with subprocess.Popen(
            [*command, "--port", "0", "--otel"], env=os.environ | given, stdout=subprocess.DEVNULL
        ) as process:
            try:
                eventually(lambda: handler.got, "an export")  # type: ignore[attr-defined]
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(30)
        collector.shutdown()
    path, body = handler.got[0]  # type: ignore[attr-defined]
    assert path == "/v1/metrics"
    sent = ExportMetricsServiceRequest.FromString(body).resource_metrics[0]
    about = {a.key: a.value.string_value for a in sent.resource.attributes}
    assert about["service.name"] == "headgate"
    names = {m.name: m for m in sent.scope_metrics[0].metrics}
    shed = names["headgate.rows_shed"].sum.data_points[0]
    assert {a.key: a.value.string_value for a in shed.attributes}["gate"] == "rides"
    assert shed.as_double > 0


def test_the_examples_of_the_page_run(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(5, 3 * CAPACITY)
    page = (Path(__file__).parents[2] / "docs" / "page.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    names: dict[str, Any] = {}
    for example in examples:
        exec(example.replace("/shared/headgate", str(control)), names)
    assert names["status"].to_json()[0]["gate"] == "rides"
