"""A count-min pair that forgets: the past counts half after every so many executions."""

from __future__ import annotations

from headgate.errors import BadArgument
from headgate.sketches.cost_sketch import CostSketch, SketchShape

__all__ = ["AgedSketch"]


class AgedSketch(CostSketch):
    """Halved, where las-2020 resets: a reset forgets the keys that a price keeps out.

    After a reset such keys look as cheap as the mean and are admitted all at once; halved, they keep
    their ratio W/F, which halving does not change.

    >>> sketch = AgedSketch(SketchShape(4, 54), every=2)
    >>> for _ in range(3):
    ...     sketch.learn(17, 0.5)
    >>> sketch.frequency(17), sketch.duration(17)
    (2.0, 0.5)
    """

    def __init__(self, shape: SketchShape, every: int = 1024) -> None:
        if every < 1:
            raise BadArgument(f"every={every!r}: give at least 1 execution between halvings")
        super().__init__(shape)
        self.every, self.learnt = every, 0

    def learn(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, with this mean duration."""
        self.add(key, seconds, times)
        before, self.learnt = self.learnt, self.learnt + times
        for _ in range(self.learnt // self.every - before // self.every):
            self.scale(0.5)
