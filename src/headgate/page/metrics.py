"""The page's facts in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from headgate.view.observer import View
from headgate.view.readings import METRICS, readings

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition(view: View) -> bytes:
    """The view in the text format that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Collected(view))
    return generate_latest(registry)


class _Collected(Collector):
    """One view, as families of samples; made anew for each answer."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, value, labels in readings(self._view):
            if name not in families:
                text, names = METRICS[name]
                made = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = made(name, text, labels=names)
            families[name].add_metric(list(labels), value)
        yield from families.values()
