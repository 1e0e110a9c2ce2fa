"""How many batches of a run are cold: they pay for starting workers and for compiling.

The first batch of a run starts Python workers, and Spark and numba compile what it runs. The second
still compiles what the first had no rows for, and catches up with what piled up meanwhile; the third is
the first that says what a batch takes.
"""

from __future__ import annotations

__all__ = ["COLD_BATCHES"]

COLD_BATCHES = 2
