"""Load-aware shedding: the published algorithm, its competitors, and the prices that beat it.

Pure Python and numpy: no clock, no I/O, no Spark. Instants are seconds on the caller's clock.
"""

from headgate.las.acks import Ack, AckingOperator
from headgate.las.baselines import BaseLine, FullKnowledge, StrawMan
from headgate.las.bound import clairvoyant_bound
from headgate.las.messages import Delta, Pair
from headgate.las.operator import LasOperator
from headgate.las.price import Price, PriceRule
from headgate.las.price_shedder import PriceShedder, PriceShedding
from headgate.las.settings import LasSettings
from headgate.las.shedder import LoadShedder
from headgate.las.targets import AbsoluteLatency, AverageLatency, SlidingAverageLatency
from headgate.las.verdict import Shedder, Verdict

__all__ = [
    "AbsoluteLatency",
    "Ack",
    "AckingOperator",
    "AverageLatency",
    "BaseLine",
    "Delta",
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
