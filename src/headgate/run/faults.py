"""A person's controller or policy that fails: counted, told once, and given up after some in a row."""

from __future__ import annotations

import logging

__all__ = ["TOO_MANY_FAULTS", "Faults"]

log = logging.getLogger("headgate")

#: A controller or policy that fails so often in a row is given up: the gate fails open or closed.
TOO_MANY_FAULTS = 3


class Faults:
    """Of one gate in one query."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._in_a_row = 0
        #: What was said last; empty while all is well.
        self.said = ""
        #: Whether it has failed since the last batch began to be handled.
        self.now = False

    @property
    def too_many(self) -> bool:
        """Whether the gate must do without, from now on until it works again."""
        return self.now and self._in_a_row >= TOO_MANY_FAULTS

    def begin(self) -> None:
        """A batch begins to be handled: it is tried again."""
        self.now = False

    def end(self) -> None:
        """The batch is decided; one without a fault ends the row."""
        if not self.now:
            self._in_a_row, self.said = 0, ""

    def note(self, error: Exception, on_failure: str) -> None:
        """It failed: several times in one batch count once."""
        self._in_a_row += not self.now
        self.now = True
        before, self.said = self.said, f"{type(error).__name__}: {error}".splitlines()[0]
        if before == self.said:
            return
        then = f"the last plan holds; after {TOO_MANY_FAULTS} batches it fails {on_failure}"
        if self.too_many:
            then = f"it fails {on_failure} until that works again"
        log.error("%s: its controller or policy failed (%s); %s", self._of, self.said, then)
        log.debug("details", exc_info=error)
