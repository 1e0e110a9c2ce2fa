"""`hg.sic`: the source information of each row, carried through its operators (themis-2016, section 4).

Rows behind a site's gate have a column `_sic`. A query that keeps it tells at its end which share of its
sources reached the result. Maps and unions keep it as they are; for the rest:

- an aggregate carries it as one more aggregate: `total`, or `shared` where a group has several outputs;
- sliding windows divide it first: `windows`, `windows_of`;
- `top`, `explode`, `distinct` and `join` are operators that do it themselves;
- a filter loses what it drops, as Eq. 3 says of an operator without output. Inside of an aggregate it
  loses nothing: ``F.expr("avg(fare) FILTER (WHERE fare > 0)")`` beside ``hg.sic.total()``.

All of it is native, and serves batches and streams (append mode, with a watermark).
"""

from __future__ import annotations

from headgate.spark.sic.column import SIC, require_sic, shared, total
from headgate.spark.sic.join import join
from headgate.spark.sic.outputs import distinct, explode, top
from headgate.spark.sic.windows import windows, windows_of

__all__ = [
    "SIC",
    "distinct",
    "explode",
    "join",
    "require_sic",
    "shared",
    "top",
    "total",
    "windows",
    "windows_of",
]
