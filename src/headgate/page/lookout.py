"""`Lookout`: one look at the control store at a time, shared by all who ask, and a limit to the waiting.

Ten open pages cost what one does, and a page that nobody looks at costs nothing. A store that hangs (a
mount whose server is gone) holds one thread and no request: whoever asks gets the last view, with the
reason why it is no newer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from headgate.errors import BadArgument, HeadgateError
from headgate.store.places.place import Place, asks_server
from headgate.view.observer import Observer, View
from headgate.view.verdict import Verdict
from headgate.view.wording import ago_text, clock_text

__all__ = ["Lookout", "refresh_s_of"]

#: Seconds between two looks: at a folder, and at an object store, where each look is some requests.
_FOLDER_S, _OBJECTS_S = 2.0, 10.0
_LEAST_S = 0.2


def refresh_s_of(control: Place, given: float | None) -> float:
    """How often a page looks at this store, where nobody says."""
    if given is None:
        return _OBJECTS_S if asks_server(control) else _FOLDER_S
    if not _LEAST_S <= given <= 3600.0:
        raise BadArgument(f"refresh={given!r}: give {_LEAST_S:g} to 3600 seconds between two looks")
    return given


log = logging.getLogger("headgate.page")


def _reason(error: Exception) -> str:
    """What went wrong, in a line."""
    said = str(getattr(error, "strerror", None) or error).strip()
    return said.splitlines()[0] if said else type(error).__name__


class Lookout:
    """The latest view, at most `every_s` old where the store answers within `patience_s`."""

    def __init__(
        self,
        observer: Observer,
        every_s: float,
        patience_s: float = 3.0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer, self._every_s, self._patience_s = observer, every_s, patience_s
        self._clock, self._steady = clock, steady
        self._lock = threading.Lock()  # never held while the store is read
        self._view: View | None = None
        self._fault = ""
        self._looked_at = float("-inf")
        #: Whether something was changed while a look was under way: that one may not have seen it.
        self._changed = False
        #: When the look that is under way began, and what tells that it is over.
        self._under_way: tuple[float, threading.Event] | None = None

    def view(self) -> View:
        """What is known now; looks if that is too old, and waits for the look, though not for ever."""
        with self._lock:
            if self._under_way is None and self._steady() - self._looked_at >= self._every_s:
                self._under_way, self._changed = (self._steady(), threading.Event()), False
                threading.Thread(target=self._look, name="headgate-page", daemon=True).start()
            under_way = self._under_way
        if under_way is not None:
            under_way[1].wait(self._patience_s)
        with self._lock:
            if self._under_way is not None and self._under_way is under_way:
                silent_s = self._steady() - under_way[0]
                return self._stale(f"it has not answered for {ago_text(silent_s)}")
            return self._stale(self._fault) if self._fault or self._view is None else self._view

    def refresh(self) -> None:
        """Let the next who asks look anew: somebody has changed something."""
        with self._lock:
            self._looked_at, self._changed = float("-inf"), True

    def _look(self) -> None:
        found, fault = None, ""
        try:
            found = self._observer.look()
        except Exception as error:  # whatever it is: what is shown would else pass for what is so now
            fault = _reason(error)
            if fault != self._fault and not isinstance(error, OSError | HeadgateError):
                log.warning("the control store could not be looked at", exc_info=error)
        finally:
            with self._lock:
                self._view, self._fault = found or self._view, fault
                self._looked_at = float("-inf") if self._changed else self._steady()
                over, self._under_way = self._under_way, None
            if over is not None:
                over[1].set()

    def _stale(self, reason: str) -> View:
        """The last view, under a verdict that says that it is no newer."""
        control, now = str(self._observer.control), self._clock()
        if self._view is None:
            sentence = f"The control store {control} cannot be read: {reason}."
            return View(control, now, Verdict("unknown", sentence), (), stale=reason)
        seen = clock_text(self._view.at, now)
        sentence = (
            f"The control store cannot be read: {reason}. What is below is of {seen}. Gates that cannot "
            "read it either fail as their code says; the page goes on as soon as the store is back."
        )
        return replace(self._view, verdict=Verdict("unknown", sentence), stale=reason)
