"""Sends the readings of a control store to an OpenTelemetry collector, over OTLP and HTTP.

Where to, how often and with which headers is said by OpenTelemetry's own variables
(``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_METRIC_EXPORT_INTERVAL``, ``OTEL_RESOURCE_ATTRIBUTES``), as for
every other program that a collector hears of. A program that already has a meter provider does not need
this: `headgate.page.otel.instrument` takes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource

import headgate
from headgate.page.otel import instrument
from headgate.store.places.place import Place

__all__ = ["exporting"]

#: The last readings go out at the end, if the collector takes them within so long.
_LAST_WORD_MS = 3000


@contextmanager
def exporting(control: Place, refresh_s: float | None = None) -> Iterator[MeterProvider]:
    """Export the store's readings until the block ends."""
    named = bool(os.environ.get("OTEL_SERVICE_NAME")) or SERVICE_NAME in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    own = {"service.version": headgate.__version__} | ({} if named else {SERVICE_NAME: "headgate"})
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    provider = MeterProvider([reader], Resource.create(own), shutdown_on_exit=False)
    instrument(control, provider, refresh_s=refresh_s)
    try:
        yield provider
    finally:
        provider.shutdown(_LAST_WORD_MS)
