"""Acknowledgements: every few tuples the operator says how far it is, and what they took."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import BadArgument

__all__ = ["Ack", "AckingOperator"]


@dataclass(frozen=True)
class Ack:
    """`executed` tuples are done, the last at `completed_s` after the first tuple's arrival.

    `durations_s` are those of the tuples since the last acknowledgement, in order. The shedder knows
    which keys they had, so numbers are all that travels.
    """

    executed: int
    completed_s: float
    durations_s: tuple[float, ...]


class AckingOperator:
    """The operator's side of `PriceShedder`.

    It replaces both of LAS's messages: the matrices, because the shedder learns from durations
    itself, and the Delta, because every acknowledgement corrects C-hat. A Delta waits behind the
    backlog that it shall reveal, and comes only with new matrices; an acknowledgement comes with
    every 16th tuple.

    The first come after 1, 2, 4, 8 tuples: until then nothing is known, and all that arrives is kept.

    >>> operator = AckingOperator(every=16)
    >>> operator.update(0.5, completed_s=0.5)
    Ack(executed=1, completed_s=0.5, durations_s=(0.5,))
    >>> [operator.update(0.25, completed_s=0.5 + 0.25 * n) is not None for n in range(1, 6)]
    [True, False, True, False, False]
    """

    def __init__(self, every: int = 16) -> None:
        if every < 1:
            raise BadArgument(
                f"every={every!r}: acknowledge every 1 or more tuples (16 is a good choice)"
            )
        self._every = every
        self._since: list[float] = []
        self.executed = 0

    def update(self, seconds: float, completed_s: float) -> Ack | None:
        """A tuple was executed; gives an acknowledgement when one is due."""
        self.executed += 1
        self._since.append(seconds)
        young = self.executed < self._every and self.executed.bit_count() == 1
        if not young and self.executed % self._every:
            return None
        ack = Ack(self.executed, completed_s, tuple(self._since))
        self._since.clear()
        return ack
