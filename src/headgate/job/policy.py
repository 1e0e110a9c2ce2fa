"""A gate's policy in a job file: the table `[gate.policy]`."""

from __future__ import annotations

from typing import Any

from headgate.errors import BadArgument, MissingExtra
from headgate.job.schema import ACCURACY, CONCEPT_DRIVEN, GROUP_RATES, POLICIES
from headgate.job.tables import Table
from headgate.policies import GroupRates, Policy, Uniform

__all__ = ["policy_of"]


def policy_of(table: Table) -> Policy | None:
    """The policy; None where something is wrong with it."""
    kind = table.choice("kind", POLICIES)
    if kind == "uniform":
        table.read({}, "kind")
        return Uniform()
    if kind == "group-rates":
        return _group_rates(table)
    return _concept_driven(table) if kind == "concept-driven" else None


def _group_rates(table: Table) -> Policy | None:
    found = table.read(GROUP_RATES, "kind", "rates")
    rates = table.sub("rates")
    if rates is None:
        table.wrong("", "a policy of kind 'group-rates' needs rates, such as { DEBUG = 0.01 }")
        return None
    if "by" not in found:
        return None
    built: Policy | None = _built(table, "rates", GroupRates, rates=rates.values(), **found)
    return built


def _concept_driven(table: Table) -> Policy | None:
    found = table.read(CONCEPT_DRIVEN, "kind", "accuracy")
    try:
        from headgate.policies.by_group.accuracy import Accuracy
        from headgate.policies.by_group.concept_driven import ConceptDriven
    except ImportError as error:
        raise MissingExtra(error.name or "numpy", "spark") from error
    wish = table.sub("accuracy")
    if wish is not None:
        asked = wish.read(ACCURACY)
        if not {"of", "within"} <= asked.keys():
            return None
        found["accuracy"] = _built(table, "accuracy", Accuracy, **asked)
        if found["accuracy"] is None:
            return None
    built: Policy | None = _built(table, "", ConceptDriven, **found) if "by" in found else None
    return built


def _built(table: Table, key: str, kind: Any, **arguments: Any) -> Any:
    try:
        return kind(**arguments)
    except BadArgument as error:
        table.wrong(_blamed(table, str(error)) or key, str(error))
        return None


def _blamed(table: Table, message: str) -> str:
    """The key that the message begins with, so that its line can be named."""
    name = message.partition("=")[0]
    return name if name in table else ""
