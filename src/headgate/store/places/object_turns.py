"""Turns in an object store: a claim with a number, which a living holder renews.

There is no lock there that ends with its process. A turn is an object ``turns/<number>`` that was
created (one creates it, others are refused) with a number above the last one's. Its holder writes it
again while it is at work and says when it is done. A holder that has said nothing for `GONE_S`, by the
store's own clock, is gone, and so is one whose process has ended on this very machine; then the next
number may be taken. Whoever has taken a number looks once more, and steps back if there is a higher one.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

from headgate.store.file_age import age_by_the_store
from headgate.store.lease import Holder, this_process
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.places.turns import Turns
from headgate.store.stored_json import parsed_json

__all__ = ["GONE_S", "ObjectTurns"]

#: A holder that has not been heard for so long is gone: far longer than a step of the upkeep takes.
GONE_S = 300.0
#: A holder says so often that it is at work; between two steps nothing need be asked.
_BEAT_S = 30.0


class ObjectTurns(Turns):
    """The turns below one address."""

    def __init__(
        self,
        folder: ObjectPath,
        clock: Callable[[], float] = time.monotonic,
        gone_s: float = GONE_S,
        beat_s: float = _BEAT_S,
    ) -> None:
        self._folder, self._clock = folder / "turns", clock
        self._gone_s, self._beat_s = gone_s, beat_s
        self._mine: ObjectPath | None = None
        #: This one object's name as a holder: a process may have two of them.
        self._me = replace(this_process(), run=uuid.uuid4().hex)
        self._beaten = 0.0
        #: The last one's number, and when it said something by the store's clock.
        self._seen: tuple[int, float] | None = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """A turn; it is kept over the blocks that follow, until `end`."""
        yield self._renewed() if self._mine is not None else self._taken()

    def end(self) -> None:
        """Give the turn back, if it was taken."""
        if self._mine is not None and self._renewed(always=True):
            self._write(self._mine, released=True)
        self._mine = None

    def moved(self) -> bool:
        """Whether the one who has the turn has said something since this was last asked."""
        numbers = self._numbers()
        if not numbers:
            return False
        seen = numbers[-1], self._holder(self._at(numbers[-1]))[1]
        before, self._seen = self._seen, seen
        return before is not None and before != seen

    def _taken(self) -> bool:
        store = store_of(self._folder)
        numbers = self._numbers()
        holder, written_at = self._holder(self._at(numbers[-1])) if numbers else (None, 0.0)
        if holder is not None and holder.run == self._me.run and not holder.released:
            mine = self._at(numbers.pop())  # we made it, and heard no answer or could not look again
            self._write(mine)
        elif holder is not None and not self._over(self._at(numbers[-1]), holder, written_at):
            return False
        else:
            mine = self._at(1 + (numbers[-1] if numbers else 0))
            said = json.dumps(asdict(self._me)).encode()
            if store.create(mine, said) != said:
                return False
            if self._numbers()[-1:] != [int(mine.stem)]:  # what this one had seen was long gone
                store.delete(mine)
                return False
        self._mine, self._beaten = mine, self._clock()
        for number in numbers:
            store.delete(self._at(number))
        return True

    def _renewed(self, always: bool = False) -> bool:
        """Whether the turn is still ours; says that we are at work, if that was not said lately."""
        assert self._mine is not None
        if not always and self._clock() - self._beaten < self._beat_s:
            return True
        if self._holder(self._mine)[0] is None or self._numbers()[-1:] != [int(self._mine.stem)]:
            self._mine = None  # another has taken us for gone
            return False
        self._write(self._mine)
        self._beaten = self._clock()
        return True

    def _write(self, at: ObjectPath, released: bool = False) -> None:
        store_of(at).put(at, json.dumps(asdict(replace(self._me, released=released))).encode())

    def _over(self, at: ObjectPath, holder: Holder, written_at: float) -> bool:
        """Whether the holder of this turn is done, or gone."""
        if holder.released or holder.surely_gone():
            return True
        return age_by_the_store(at, written_at) >= self._gone_s

    def _holder(self, at: ObjectPath) -> tuple[Holder | None, float]:
        held = store_of(at).get(at)
        if held is None:
            return None, 0.0
        try:
            return Holder.from_json(parsed_json(held.data)), held.written_at
        except ValueError:
            return None, held.written_at

    def _numbers(self) -> list[int]:
        names = (entry.name for entry in store_of(self._folder).entries(self._folder))
        return sorted(int(n.removesuffix(".json")) for n in names if n.removesuffix(".json").isdigit())

    def _at(self, number: int) -> ObjectPath:
        return self._folder / f"{number:012d}.json"
