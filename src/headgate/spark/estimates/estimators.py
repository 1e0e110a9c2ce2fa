"""The estimators: what arrived, with error bars, from the rows that were kept.

Each is an aggregate like Spark's own, for batch and streaming `agg`, and a struct: ``estimate``,
``stderr`` (standard error), ``low`` and ``high`` (the interval), ``rows`` (the kept rows that it saw),
``share`` (of the rows that arrived) and ``sample`` (what `pooled` reads). Nulls are skipped, as Spark's
aggregates do. The intervals of means, sums and ratios are those of `careful`; with ``interval="plain"``
they are Student's t.

The formulas are those of Särndal, Swensson and Wretman, *Model Assisted Survey Sampling* (1992):
totals by Horvitz and Thompson (chapter 2), means, ratios and quantiles by Hájek and linearisation
(chapter 5), parts of a stratum as domains (chapter 10). One stratum gives the textbook's (1 - f) s²/n
(Cochran, *Sampling Techniques*, 1977, chapter 2). With v = w (w - 1) and residuals e the variance of
a total is

- coin rows:    Σ v e²
- counted rows: Σ v (e - ē)² m / (m - 1), with ē weighted by v, as the number of rows is no luck there.

Where we depart from the books, and why:

- m = (Σv)² / Σv² instead of the number of rows, here and in the degrees of freedom (Satterthwaite): the
  same for equal weights, and honest where a few rows of large weight carry the variance.
- Strata are not told apart, only kinds: all counted rows of a group share one ē. If the strata inside
  one result differ in their means, the error is overstated. To have it sharp, estimate by stratum and
  add up (docs/estimates.md).
- Counted rows whose weights show that strata were cut in two (`estimate_sql.whole`) are taken for coins.
- Sums of squares are taken about the plain mean, with Spark's own covariances, which merge without
  cancellation: a mean of values around 1e12 with a spread of 1 keeps its standard error. `ratio` alone
  works with raw sums: a relative spread of residuals below 1e-7 drowns in rounding there.
"""

from __future__ import annotations

from headgate.spark.estimates.combined import difference, total
from headgate.spark.estimates.means import mean, ratio
from headgate.spark.estimates.pooled import pooled
from headgate.spark.estimates.quantiles import median, quantile
from headgate.spark.estimates.together import together
from headgate.spark.estimates.totals import count, sum

__all__ = [
    "count", "difference", "mean", "median", "pooled", "quantile", "ratio", "sum", "together", "total",
]  # fmt: skip
