"""Batches are repaid in slices, each batch once: by one process, and by the next one if that dies.

Beside the ledger of a gate in a query is the folder ``repaid``::

    claims/<batch>-<generation>.json   the slice that has the batch; created, so one of many wins
    slices/<slice>/attempt-<n>.json    who works on it, since when, for which sink; created
    slices/<slice>/beat-<n>.json       counts up while that process lives
    slices/<slice>/begun.json          its batches for good, or that it was given up; created
    slices/<slice>/outcome.json        the attempt whose rows count, or that it was given up; created
    done/<slice>.json                  the mark: the rows of each batch, where they are, when

Nothing is taken back by deleting: what is created decides once and for all whoever asks. A batch is free
again when the slice that its latest claim names was given up, or began without it; then the next
generation is claimed. A slice is given up only by a process that has found its holder gone, and creating
`begun` or `outcome` first makes sure that a holder which only slept finds that out before its rows
count.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headgate.store.folder import claim_json, folders_in, names_in, read_json, unclaim, write_json
from headgate.store.lease import GONE_S, Holder, this_process
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of
from headgate.store.repaid.marks import Mark, Marks

__all__ = ["Given", "Left", "Slice", "Slices"]

_CLAIM = re.compile(r"(\d{12})-(\d{4})\.json")
_SLICE = re.compile(r"\d{12}-\d{12}-[0-9a-f]{8}")
_ATTEMPT = re.compile(r"attempt-(\d{4})\.json")
#: How often a count is looked at while somebody waits for it to move.
_LOOK_S = 0.25


@dataclass(frozen=True)
class Given:
    """What a slice is for: the kind of sink, and where its rows go."""

    kind: str
    to: str = ""
    format: str = ""

    @classmethod
    def from_json(cls, value: Any) -> Given:
        """What an attempt's file has."""
        found = value if isinstance(value, dict) else {}
        return cls(*(str(found.get(name, "")) for name in ("kind", "to", "format")))


@dataclass
class Slice:
    """One slice as this process has it in hand; `attempt` is its own."""

    folder: Place
    id: str
    given: Given
    attempt: int
    #: The batches that it won; once it has begun they are its batches for good.
    batches: tuple[int, ...] = ()
    #: How many of `batches` were recorded as shed, by batch; from `begin` on.
    shed: Mapping[int, int] = field(default_factory=dict)
    _beats: int = 0

    @property
    def _at(self) -> Place:
        return self.folder / "slices" / self.id

    def beat(self) -> None:
        """Say that whoever works on it lives."""
        self._beats += 1
        write_json(self._at / f"beat-{self.attempt:04d}.json", {"beat": self._beats}, lasting=False)

    def begin(self, shed: Mapping[int, int]) -> bool:
        """These are its batches for good, and the sink may have them; False if it was given up."""
        mine = {"attempt": self.attempt, "shed": {str(b): rows for b, rows in shed.items()}}
        held = claim_json(self._at / "begun.json", mine)
        if held != mine:
            return False
        self.batches, self.shed = tuple(sorted(shed)), dict(shed)
        return True

    def decide(self) -> bool:
        """Let the rows of this attempt be those that count; False if others do, or it was given up."""
        held = claim_json(self._at / "outcome.json", {"attempt": self.attempt})
        return isinstance(held, dict) and held.get("attempt") == self.attempt

    def give_up(self) -> bool:
        """Let its batches be free again; False, and without effect, where that is too late.

        It is once its rows count. Only of files can rows be dropped that do not count: a function, or a
        table, may have them as soon as the slice has begun, and must get them under the same id.
        """
        begun = claim_json(self._at / "begun.json", {"given_up": True})
        if self.given.kind != "files" and not _says_given_up(begun):
            return False
        return _says_given_up(claim_json(self._at / "outcome.json", {"given_up": True}))

    def resume(self, left: Left) -> None:
        """Its batches are those with which it has begun meanwhile."""
        self.shed = left.shed()
        self.batches = tuple(sorted(self.shed))

    def mark(self, rows: Mapping[int, int], seconds: float, now: float) -> Mark:
        """It is done: these rows of its batches are where they were to go."""
        made = Mark(self.id, self.given.to, dict(rows), seconds, now)
        Marks(self.folder).add(made)
        return made


@dataclass(frozen=True)
class Left:
    """What the store has of a slice that is not done."""

    id: str
    given: Given
    attempt: int
    holder: Holder | None
    begun: Any
    outcome: Any

    @property
    def given_up(self) -> bool:
        """Whether its batches are free again."""
        return _says_given_up(self.begun) or _says_given_up(self.outcome)

    @property
    def has_begun(self) -> bool:
        """Whether its batches are fixed, and the sink may have some of their rows."""
        return isinstance(self.begun, dict) and "shed" in self.begun

    @property
    def decided(self) -> int | None:
        """The attempt whose rows count."""
        return self.outcome.get("attempt") if isinstance(self.outcome, dict) else None

    def shed(self) -> dict[int, int]:
        """Its batches, with the rows that each shed; none before it has begun."""
        return {int(b): int(rows) for b, rows in self.begun["shed"].items()} if self.has_begun else {}


class Slices:
    """The slices of one gate in one query, for a process that repays."""

    def __init__(
        self,
        control: Place,
        gate: str,
        query: str,
        *,
        me: Holder | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = control / "gates" / gate / "queries" / query / "repaid"
        self.marks = Marks(self.folder)
        self._me, self._clock, self._sleep = me or this_process(), clock, sleep
        #: The claims as they were first seen, and this process's own since: there may be very many. Who
        #: has claimed more is found out by claiming.
        self._seen: dict[int, int] | None = None

    # Taking batches in hand.

    def take(self, batches: Iterable[int], given: Given) -> Slice | None:
        """A new slice with those of these batches that are free; None if none is."""
        wanted = sorted(batches)
        if self._seen is None:
            self._seen = self._claims()
        # Behind the claims: a slice is there before it claims, so one that a claim names and that is not
        # known is gone. Seen the other way round it might only be new, and its batch be taken twice.
        claims, known = self._seen, self._known()
        repaid = self.marks.rows()
        open_ = [b for b in wanted if b not in repaid]
        free = {b: claims.get(b, 0) + 1 for b in open_ if self._free(b, claims, known)}
        if not free:
            return None
        first, last = min(free), max(free)
        made = Slice(self.folder, f"{first:012d}-{last:012d}-{uuid.uuid4().hex[:8]}", given, 1)
        self._attempt(made.id, 1, given)
        mine = {"slice": made.id}
        won = [
            b
            for b, generation in free.items()
            if claim_json(self._claim_path(b, generation), mine) == mine
        ]
        claims.update(free)
        made.batches = tuple(won)
        if won:
            return made
        made.give_up()
        return None

    def _claim_path(self, batch: int, generation: int) -> Place:
        return self.folder / "claims" / f"{batch:012d}-{generation:04d}.json"

    def _claims(self) -> dict[int, int]:
        """The latest generation of each batch's claims."""
        found: dict[int, int] = {}
        for name in names_in(self.folder / "claims"):
            match = _CLAIM.fullmatch(name)
            if match is not None:
                found[int(match[1])] = max(int(match[2]), found.get(int(match[1]), 0))
        return found

    def _free(self, batch: int, claims: Mapping[int, int], known: Mapping[str, Left]) -> bool:
        if batch not in claims:
            return True
        holder = self._holding(batch, claims[batch])
        if holder is None or holder in self.marks.known:
            return True  # that slice is gone, or was done without this batch
        slice_ = known.get(holder)
        if slice_ is None or slice_.given_up:
            return True
        return slice_.has_begun and batch not in slice_.shed()

    def _holding(self, batch: int, generation: int) -> str | None:
        try:
            value = read_json(self._claim_path(batch, generation))
        except ValueError:  # cut off by a crash: the claimant never knew that it had it
            return None
        return str(value["slice"]) if isinstance(value, dict) and "slice" in value else None

    # What others left.

    def _known(self) -> dict[str, Left]:
        """The slices that are not done."""
        self.marks.look()
        there = filter(_SLICE.fullmatch, folders_in(self.folder / "slices"))
        names = [n for n in there if n not in self.marks.known]
        return {name: found for name in names if (found := self._read(name)) is not None}

    def _read(self, name: str) -> Left | None:
        at = self.folder / "slices" / name
        numbers = [int(m[1]) for n in names_in(at) if (m := _ATTEMPT.fullmatch(n))]
        if not numbers:
            return None
        attempt = max(numbers)
        files = at / f"attempt-{attempt:04d}.json", at / "begun.json", at / "outcome.json"
        said, begun, outcome = (_value(path) for path in files)
        holder = Holder.from_json(said.get("holder")) if isinstance(said, dict) else None
        given = Given.from_json(said.get("given") if isinstance(said, dict) else None)
        return Left(name, given, attempt, holder, begun, outcome)

    def unfinished(self) -> list[Left]:
        """Slices that somebody took in hand, and that are neither done nor given up."""
        return [one for one in self._known().values() if not one.given_up]

    def now(self, one: Left) -> Left | None:
        """What the store has of it by now; None if it is done or given up."""
        return next((left for left in self.unfinished() if left.id == one.id), None)

    def claimed_by(self, slice_id: str) -> list[int]:
        """The batches whose latest claim names this slice."""
        found = self._claims()
        return sorted(b for b, g in found.items() if self._holding(b, g) == slice_id)

    def lives(self, one: Left) -> bool:
        """Whether its holder does; waits for a sign of life, where only that can tell."""
        if one.holder is None or one.holder.surely_gone():
            return False
        if one.holder.owner == self._me.owner:
            return False  # this very process, which has come back to it
        first, since = self._beat_of(one), self._clock()
        while self._clock() - since < GONE_S:
            self._sleep(_LOOK_S)
            if self._beat_of(one) != first or one.id in self.marks.look():
                return True
            if one.holder.surely_gone():
                return False
        return False

    def _beat_of(self, one: Left) -> Any:
        return _value(self.folder / "slices" / one.id / f"beat-{one.attempt:04d}.json")

    def take_over(self, one: Left) -> Slice | None:
        """The slice of a holder that is gone, in this process's hand; None if another was faster."""
        number = one.attempt + 1
        if not self._attempt(one.id, number, one.given):
            return None
        taken = Slice(self.folder, one.id, one.given, number)
        taken.resume(one)
        return taken

    def _attempt(self, slice_id: str, number: int, given: Given) -> bool:
        path = self.folder / "slices" / slice_id / f"attempt-{number:04d}.json"
        mine = {"holder": asdict(self._me), "given": asdict(given), "token": uuid.uuid4().hex}
        return bool(claim_json(path, mine) == mine)

    # What keeps it small.

    def forget_before(self, batch: int) -> int:
        """Forget slices all of whose batches come before this one: their records have expired."""
        self.marks.look()
        old = [m for m in self.marks.known.values() if max(m.rows, default=-1) < batch]
        claims = {b for b in self._claims() if b < batch}
        for name in names_in(self.folder / "claims"):
            match = _CLAIM.fullmatch(name)
            if match is not None and int(match[1]) in claims:
                unclaim(self.folder / "claims" / name)
        for name in filter(_SLICE.fullmatch, folders_in(self.folder / "slices")):
            if int(name.split("-")[1]) < batch:  # done or not: nobody can repay them any more
                store_of(self.folder).delete_all(self.folder / "slices" / name)
        for mark in old:
            self.marks.forget(mark.slice)
        return len(old)


def _says_given_up(said: Any) -> bool:
    return isinstance(said, dict) and "given_up" in said


def _value(path: Place) -> Any:
    try:
        return read_json(path)
    except ValueError:
        return None
