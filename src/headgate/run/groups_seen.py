"""What one gate has seen of the groups in front of it: a policy's second input, batch by batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.core.event_time import EventTime
from headgate.core.groups import GroupStats, Strata
from headgate.core.partners import Partners
from headgate.policies import Policy
from headgate.run.gate_report import BatchReport

__all__ = ["GroupsSeen"]

log = logging.getLogger("headgate")


class GroupsSeen:
    """The last batch's groups, how far event time goes, and whom a join's other stream has had.

    Shares outlast a restart, as long as the code has the same classes; curves, as long as it has the
    same policy.
    """

    def __init__(self, policy: Policy, keys: Mapping[str, int], remembered: Any, of: str) -> None:
        self._policy, self._keys = policy, keys
        self._time = EventTime()
        self._partners = Partners(policy.within_s)
        try:
            self.stats = self._from_json(remembered)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s: the classes' shares cannot be read (%s)", of, error)
            self.stats = GroupStats(keys=keys)

    def add(self, report: BatchReport) -> None:
        """Take up what a batch says."""
        if report.sample.arrived > 0:
            strata = None if report.drawn is None else report.drawn.strata
            self.stats = GroupStats(report.counts, report.sample.arrived, self._keys, strata)
        self._partners.add(report.latest_us, report.met)
        self._time.add(report.latest_us)
        self.stats = replace(self.stats, present=self._partners.text(), span_us=self._time.span_us)

    @property
    def _rule(self) -> str:
        """What a curve belongs to: another policy's says nothing."""
        return repr(self._policy)

    def to_json(self) -> dict[str, Any]:
        """What a later run can go on from, as 0.1.0 wrote it."""
        stats, strata = self.stats, self.stats.strata or Strata(0)
        return {
            "classes": list(self._policy.grouping.classes),
            "counts": list(stats.counts.items()),
            "total": stats.total,
            "cells": strata.count,
            "curve": list(strata.curve),
            "deviation": strata.deviation,
            "rule": self._rule,
        }

    def _from_json(self, value: Any) -> GroupStats:
        fresh = GroupStats(keys=self._keys)
        if value is None or tuple(value["classes"]) != self._policy.grouping.classes:
            return fresh
        counts = {int(key): int(rows) for key, rows in value["counts"]}
        found = replace(fresh, counts=counts, total=int(value["total"]))
        if value.get("rule") != self._rule or not value.get("cells"):
            return found
        curve = tuple(float(v) for v in value.get("curve", ()))
        return replace(
            found, strata=Strata(int(value["cells"]), curve, float(value.get("deviation", 0.0)))
        )
