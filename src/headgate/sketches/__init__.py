"""Small summaries of large streams: stable keys and hashing, the count-min pair.

No library's sketch fits: LAS needs two matrices under one set of hash functions, the ratio of both in
the row where the first is least, halving and merging, and the same bytes on every machine (las-2020,
section 3.3). Those that count (datasketches, Spark's own) keep one matrix and hide it.
"""

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
