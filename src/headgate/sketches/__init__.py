"""Small summaries of large streams: stable keys and hashing, the count-min pair."""

from headgate.sketches.aged_sketch import AgedSketch
from headgate.sketches.cost_sketch import CostSketch, SketchShape
from headgate.sketches.cost_table import CostTable
from headgate.sketches.hashing import HashFamily, mix64, uniform, uniforms
from headgate.sketches.keys import stable_key, stable_keys

__all__ = [
    "AgedSketch",
    "CostSketch",
    "CostTable",
    "HashFamily",
    "SketchShape",
    "mix64",
    "stable_key",
    "stable_keys",
    "uniform",
    "uniforms",
]
