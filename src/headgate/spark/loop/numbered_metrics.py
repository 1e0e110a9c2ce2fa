"""The names under which Spark reports what gates, guards, joins and results counted.

A name alone does not say whose report it is: two of one name may be made before either runs. So a metric
bears two numbers besides: that of the spec, by which the control loop finds what the frame was made
with, and that of the call. With the second one two of a name in one query are two metrics, which we can
refuse in our own words; of equal ones Spark would say that a metric's name is taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall

__all__ = ["NumberedMetric", "metric_named", "metrics_of", "read_metric"]

#: Every metric of Headgate's begins so.
_PREFIX = "headgate."
_METRIC = re.compile(rf"{re.escape(_PREFIX)}([^#]+)#(\d+)\.(\d+)\.(\w+)")


@dataclass(frozen=True)
class NumberedMetric:
    """A metric's name, taken apart."""

    #: Of the gate, guard, join or result.
    name: str
    call: GateCall
    #: What was counted: ``in``, ``out``, ``arrived`` and so on.
    what: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.name}#{self.call.spec}.{self.call.number}.{self.what}"

    def beside(self, what: str) -> str:
        """The name of another metric of the same call."""
        return str(NumberedMetric(self.name, self.call, what))


def metric_named(name: str, what: str, call: GateCall = UNKNOWN_CALL) -> str:
    """The name of a metric.

    >>> metric_named("rides", "in", GateCall(number=7, spec=3))
    'headgate.rides#3.7.in'
    """
    return str(NumberedMetric(name, call, what))


def read_metric(text: str) -> NumberedMetric | None:
    """What `metric_named` was given; None where it did not make this name.

    >>> read_metric("headgate.rides#3.7.in").name
    'rides'
    """
    found = _METRIC.fullmatch(text)
    if found is None:
        return None
    return NumberedMetric(found[1], GateCall(number=int(found[3]), spec=int(found[2])), found[4])


def metrics_of(
    progress: Mapping[str, Any], what: str
) -> Iterator[tuple[NumberedMetric, Mapping[str, Any]]]:
    """The metrics of one kind in a progress event, with their values.

    Two of one name in one query would share a plan and a ledger, and are passed over: their workers end
    the query as soon as both have begun a batch (`NamedTwice`).
    """
    observed: Mapping[str, Any] = progress.get("observedMetrics") or {}
    found = {text: metric for text in observed if (metric := read_metric(text)) is not None}
    named = Counter(metric.name for metric in found.values() if metric.what == what)
    for text, metric in found.items():
        if metric.what == what and observed[text] and named[metric.name] == 1:
            yield metric, observed[text]
