"""The threads of this process that do the upkeep of its gates: one for each control folder.

A folder that hangs keeps its own upkeep waiting, and that of no other one. A thread begins with the
first gate of its folder and ends some time after the last; all end with the process.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import TYPE_CHECKING

from headgate.store.places.place import Place

if TYPE_CHECKING:
    from headgate.store.keeping.upkeep import Upkeep

__all__ = ["Crew"]

log = logging.getLogger("headgate")

#: A thread looks around every so many seconds, if nobody asks before.
_EVERY_S = 60.0
_PAUSE_S = 0.02


class _Hand:
    """The upkeep of one folder, and the thread that does it."""

    def __init__(self) -> None:
        self.upkeeps: weakref.WeakSet[Upkeep] = weakref.WeakSet()
        self.asked = threading.Event()
        self.thread: threading.Thread | None = None


class Crew:
    """The threads that keep control folders small: one for each folder of this process."""

    _one: Crew | None = None
    _making = threading.Lock()

    def __init__(self) -> None:
        self._hands: dict[Place, _Hand] = {}
        self._guard = threading.Lock()  # never held while a folder is read or written
        self._faults: dict[str, str] = {}

    @classmethod
    def of_process(cls) -> Crew:
        """The one crew of this process."""
        with cls._making:
            cls._one = cls._one or cls()
            return cls._one

    def take_on(self, upkeep: Upkeep) -> None:
        """Care for this one from now on."""
        control = upkeep.owner[0]
        with self._guard:
            hand = self._hands.setdefault(control, _Hand())
            hand.upkeeps.add(upkeep)
            if hand.thread is None or not hand.thread.is_alive():
                hand.thread = threading.Thread(
                    target=self._run, args=(control, hand), name="headgate-upkeep", daemon=True
                )
                hand.thread.start()

    def ask(self, control: Place | None = None) -> None:
        """Have the work in this folder (None: in all) done soon."""
        with self._guard:
            hands = [hand for of, hand in self._hands.items() if control in (None, of)]
        for hand in hands:
            hand.asked.set()

    def living(self, control: Place, gate: str) -> set[str]:
        """Queries of this gate that run in this process."""
        with self._guard:
            hand = self._hands.get(control)
            upkeeps = [] if hand is None else list(hand.upkeeps)
        return {upkeep.owner[2] for upkeep in upkeeps if upkeep.owner[1] == gate}

    # A folder's thread.

    def _run(self, control: Place, hand: _Hand) -> None:
        looked = time.monotonic()
        while True:
            due = time.monotonic() - looked >= _EVERY_S
            asked = not due and hand.asked.wait(max(0.0, _EVERY_S - (time.monotonic() - looked)))
            hand.asked.clear()
            looked = looked if asked else time.monotonic()
            with self._guard:
                upkeeps = list(hand.upkeeps)
                if not upkeeps:
                    del self._hands[control]
                    return
            while upkeeps:
                self._care_for(upkeeps.pop(), asked)

    def _care_for(self, upkeep: Upkeep, asked: bool) -> None:
        name = "/".join(map(str, upkeep.owner))
        try:
            if not asked:
                upkeep.mark_alive()
            if not upkeep.begin_pass(asked=asked):
                return
            while upkeep.step():
                time.sleep(_PAUSE_S)  # the loop's thread and the query come first
            self._faults.pop(name, None)
        except Exception as error:  # whatever is wrong with one, the others are cared for
            upkeep.pass_failed()
            text = f"{type(error).__name__}: {error}"
            if self._faults.get(name) != text:
                self._faults[name] = text
                log.warning("the upkeep of %s failed and is tried again: %s", name, text)
