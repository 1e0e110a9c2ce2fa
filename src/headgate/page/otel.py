"""The readings of a control store as OpenTelemetry's observable instruments.

An instrument is called as its metric on the page's ``/metrics``, by OpenTelemetry's conventions: a dot
behind ``headgate``, and the unit beside the name instead of in it (``headgate_target_seconds`` is
``headgate.target`` in ``s``, ``headgate_rows_shed_total`` is ``headgate.rows_shed`` in ``{row}``). A
collector that hands them to Prometheus gives them their names back, so that the dashboard and the alerts
serve both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

import headgate
from headgate.page.lookout import Lookout, refresh_s_of
from headgate.store.places.place import Place, control_place
from headgate.view.observer import Observer, View
from headgate.view.readings import METRICS, readings

__all__ = ["instrument", "otel_name"]

#: How names end, and the unit that says the same. A count of things has the things in braces.
_UNITS = {"_seconds": "s", "_ratio": "1"}
_COUNTED = {"rows": "{row}", "batches": "{batch}", "comparisons": "{comparison}"}


def otel_name(metric: str) -> tuple[str, str]:
    """The name and the unit of the instrument for a metric of the page.

    >>> otel_name("headgate_rows_shed_total"), otel_name("headgate_target_seconds")
    (('headgate.rows_shed', '{row}'), ('headgate.target', 's'))
    >>> otel_name("headgate_kept_ratio"), otel_name("headgate_state")
    (('headgate.kept', '1'), ('headgate.state', ''))
    """
    name = metric.removesuffix("_total").replace("headgate_", "headgate.", 1)
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), unit
    return name, next((unit for word, unit in _COUNTED.items() if word in name), "")


def instrument(
    control: str | os.PathLike[str] | Place,
    provider: MeterProvider,
    *,
    refresh_s: float | None = None,
    observer: Observer | None = None,
) -> None:
    """Let a meter provider observe every gate, guard, join and site of a control store.

    The store is read when the provider's reader collects, once for all instruments and no oftener than
    every `refresh_s` seconds (2, and 10 for an object store). A store that hangs holds no collection up
    for longer than a few seconds: the last readings are repeated, with ``headgate.store_up`` at 0.
    """
    place = control_place(control)
    every_s = refresh_s_of(place, refresh_s)
    observed = _Observed(Lookout(observer or Observer(place), every_s))
    meter = provider.get_meter("headgate", headgate.__version__)
    for metric, (text, _) in METRICS.items():
        name, unit = otel_name(metric)
        make = meter.create_observable_gauge
        if metric.endswith("_total"):
            make = meter.create_observable_counter  # type: ignore[assignment]
        make(name, callbacks=[observed.of(metric)], unit=unit, description=text)


class _Observed:
    """The latest view as observations, by metric; made once for all instruments that ask for it."""

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout
        self._made: tuple[View | None, dict[str, list[Observation]]] = (None, {})

    def of(self, metric: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """What the instrument of a metric calls."""
        return lambda _: self._now().get(metric, ())

    def _now(self) -> dict[str, list[Observation]]:
        view = self._lookout.view()
        seen, found = self._made
        if view is not seen:
            found = {}
            for name, value, labels in readings(view):
                attributes = dict(zip(METRICS[name][1], labels, strict=True))
                found.setdefault(name, []).append(Observation(value, attributes))
            self._made = view, found
        return found
