"""All sources of a federation, interval by interval: batches that came, and the SIC of their tuples.

Batches come at even distances from a random start, as in Table 2 (three a second of 50 tuples). A
bursting source (themis-2016, section 7.4) gives batches at ten times its rate in a tenth of its
stretches, each stretch and source on its own. SIC values are those of `SourceWindow` (Equation 1).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headgate_lab.papers.themis.sic import SourceWindow
from headgate_lab.sim.themis.layout import Layout

__all__ = ["Sources"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Sources:
    """What every source offers; `next` goes one shedding interval on."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self._timing, self._random = layout.timing, np.random.default_rng([seed, 63])
        timing = self._timing
        self._batch = layout.batch
        self._per_tick = layout.source_rate * timing.interval_s / layout.batch
        if timing.burst_keeps_mean:
            self._per_tick /= 1.0 + timing.burst_share * (timing.burst_factor - 1.0)
        self._due = self._random.random(len(self._per_tick))
        self._bursting = np.zeros(len(self._per_tick), np.bool_)
        self._tick = 0
        # Each node counts for itself.
        self._bounds = layout.source_bounds.tolist()
        self._windows = [SourceWindow(timing.stw_s, timing.interval_s) for _ in range(layout.nodes)]
        of_query = layout.sources_of_query[layout.fragment_query[layout.source_fragment]]
        for window, (begin, end) in zip(self._windows, pairwise(self._bounds), strict=True):
            for source in range(begin, end):
                window.join(source, int(of_query[source]), at_s=0.0)

    def next(self) -> tuple[Integers, Floats]:
        """Batches by source, and the SIC of one tuple."""
        timing = self._timing
        if timing.burst_share > 0.0:
            # Each source's stretches start when the run does; a stretch is at least one interval.
            stretch = max(1, round(timing.burst_s / timing.interval_s))
            if self._tick % stretch == 0:
                self._bursting = self._random.random(len(self._due)) < timing.burst_share
            self._due += np.where(self._bursting, timing.burst_factor, 1.0) * self._per_tick
        else:
            self._due += self._per_tick
        self._tick += 1
        batches = np.floor(self._due + 1e-9).astype(np.int64)
        self._due -= batches
        now, counts, sic = self._tick * timing.interval_s, batches * self._batch, np.empty(len(batches))
        for window, (begin, end) in zip(self._windows, pairwise(self._bounds), strict=True):
            window.offer_all(counts[begin:end], now)
            sic[begin:end] = window.sics(now)
        return batches, sic
