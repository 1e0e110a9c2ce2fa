"""What fails and must not end whoever does it: told once, and again when it fails otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable

__all__ = ["FaultLog"]

log = logging.getLogger("headgate")


class FaultLog:
    """The faults of one thread, by what it was doing."""

    def __init__(self, whose: str) -> None:
        self._whose = whose
        self._said: dict[str, str] = {}
        #: Whether the process is about to end: what fails then is nobody's concern.
        self.quiet = False

    def do(self, what: str, step: Callable[[], object]) -> bool:
        """Do it, and go on whatever happens; whether it was done."""
        try:
            step()
        except Exception as error:
            if not self.quiet and "shutdown" not in str(error):  # the interpreter is on its way out
                self._tell(what, error)
            return False
        self._said.pop(what, None)
        return True

    def _tell(self, what: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        if self._said.get(what) != text:
            self._said[what] = text
            log.warning("%s failed at %s and goes on: %s", self._whose, what, text)
            log.debug("details", exc_info=error)
