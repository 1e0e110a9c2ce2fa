"""Which rows: one policy a file."""

from headgate.policies.drawing import Drawing
from headgate.policies.group_rates import GroupRates
from headgate.policies.policy import Grouping, Policy
from headgate.policies.uniform import Uniform
from headgate.policies.value_classes import ValueClasses

__all__ = ["Drawing", "GroupRates", "Grouping", "Policy", "Uniform", "ValueClasses"]
