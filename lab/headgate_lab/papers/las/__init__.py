"""Load-aware shedding: the published algorithm, its competitors, and the prices that beat it.

Pure Python and numpy: no clock, no I/O, no Spark. Instants are seconds on the caller's clock.
"""

from headgate.guards.price import Price, PriceRule
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.published.messages import Delta, Pair
from headgate.guards.published.operator import LasOperator
from headgate.guards.published.settings import LasSettings
from headgate.guards.published.shedder import LoadShedder
from headgate.guards.targets import AbsoluteLatency, AverageLatency, SlidingAverageLatency
from headgate.guards.verdict import Shedder, Verdict
from headgate_lab.papers.las.acks import Ack, AckingOperator
from headgate_lab.papers.las.baselines import BaseLine, FullKnowledge, StrawMan
from headgate_lab.papers.las.bound import clairvoyant_bound
from headgate_lab.papers.las.exact import ExactCosts
from headgate_lab.papers.las.price_shedder import AckedPrice, PriceShedder

__all__ = [
    "AbsoluteLatency",
    "Ack",
    "AckedPrice",
    "AckingOperator",
    "AverageLatency",
    "BaseLine",
    "Delta",
    "ExactCosts",
    "FullKnowledge",
    "LasOperator",
    "LasSettings",
    "LoadShedder",
    "Pair",
    "Price",
    "PriceRule",
    "PriceShedder",
    "PriceShedding",
    "Shedder",
    "SlidingAverageLatency",
    "StrawMan",
    "Verdict",
    "clairvoyant_bound",
]
