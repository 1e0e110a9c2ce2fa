"""What a ledger carries forward: sums over all batches, when their records are long gone.

`totals.json` is small and of one size. It counts every part that was closed, up to the part's number;
what was closed after it was written (a crash came between) and what is still open is added by whoever
asks, so that it may be lost or late and is never wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.store.folder import read_json, write_json
from headgate.store.ledger.files import LedgerFiles
from headgate.store.ledger.parts import SEGMENT, Listing, Part
from headgate.store.ledger.totals import Totals
from headgate.store.places.place import Place

__all__ = ["Carried", "LedgerTotals", "close_one", "expirable", "expire_one", "totals_of"]

log = logging.getLogger("headgate")

_VERSION = 1
#: A segment that got late lines is closed again when it has had none for so long.
_QUIET_S = 600.0


@dataclass(frozen=True)
class LedgerTotals:
    """Sums over the whole life of a ledger."""

    #: All batches that were ever recorded.
    all: Totals
    #: Those among them whose records have expired.
    expired: Totals
    #: Records of batches before this one have expired.
    begins: int = 0


@dataclass(frozen=True)
class Carried:
    """The content of `totals.json`."""

    #: Parts up to this number are counted.
    through: int = 0
    closed: Totals = field(default_factory=Totals)
    expired: Totals = field(default_factory=Totals)
    begins: int = 0
    #: Files that are counted as expired, and may still be there.
    expiring: tuple[str, ...] = ()

    @classmethod
    def load(cls, folder: Place) -> Carried:
        """What was written last; nothing where it is not there or damaged: then parts are counted."""
        try:
            value = read_json(folder / "totals.json")
            if value is None or value.get("v") != _VERSION:
                return cls()
            return cls(
                int(value["through"]),
                Totals.from_json(value["closed"]),
                Totals.from_json(value["expired"]),
                int(value["begins"]),
                tuple(value["expiring"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s cannot be read (%s): what expired is not counted", folder, error)
            return cls()

    def save(self, folder: Place) -> None:
        """Write the sums to the ledger's folder, in one step."""
        value: dict[str, Any] = {
            "v": _VERSION,
            "through": self.through,
            "closed": self.closed.to_json(),
            "expired": self.expired.to_json(),
            "begins": self.begins,
            "expiring": list(self.expiring),
        }
        write_json(folder / "totals.json", value)

    def caught_up(self, segments: LedgerFiles, listing: Listing) -> Carried:
        """With the parts that were closed since."""
        found = self
        later = [p for p in listing.closed if p.number > self.through]
        for part in sorted(later, key=lambda p: p.number):
            if part.closed not in self.expiring:
                try:
                    adds = segments.summary(part).adds
                except FileNotFoundError:
                    continue  # expired this moment
                found = replace(found, through=part.number, closed=found.closed.plus(adds))
        return found


def totals_of(segments: LedgerFiles) -> LedgerTotals:
    """Sums over all that was ever recorded; reads what is open, and nothing that is closed."""
    carried = Carried.load(segments.at)
    listing = segments.listing()
    found = carried.caught_up(segments, listing)
    total = found.closed
    unfinished = {p.segment for p in listing.closing if p not in listing.closed}
    for segment in sorted(listing.plain | unfinished):
        whole = Totals.of(segments.values(segment, listing))
        counted = [p for p in listing.closed if p.segment == segment]
        if counted:
            whole = whole.beyond(Totals.of(segments.values_of(counted)))
        total = total.plus(whole)
    return LedgerTotals(total, found.expired, found.begins)


def close_one(segments: LedgerFiles, now: float) -> bool:
    """Compress one segment that no batch is added to any more; whether there was one.

    The latest segment stays open. One that was closed before and got late lines (a recount, a
    checkpoint rolled back) waits until it has had none for a while.
    """
    listing = segments.listing()
    carried = Carried.load(segments.at)
    if not segments.finish_closing(listing, now):
        newest = max(listing.numbers, default=0)
        over = (s for s in sorted(listing.plain) if s < newest or segments.closes_open_ones)
        number = 1 + max([carried.through, *(p.number for p in listing.closed)])
        ready = (s for s in over if segments.ready(s, listing, _QUIET_S, now))
        if not any(segments.close(s, number, _QUIET_S, now) for s in ready):
            return False
    carried.caught_up(segments, segments.listing()).save(segments.at)
    return True


def expirable(segments: LedgerFiles, older_than: float, most: int | None = None) -> list[int]:
    """Closed segments whose batches all began before this time, in order; never the latest.

    None behind a younger one (of a checkpoint that was rolled back): then all batches before some number
    have expired, and all others have not, which is what `LedgerTotals.begins` says.
    """
    listing = segments.listing()
    busy = {*listing.plain, *(p.segment for p in listing.closing)}
    found: list[int] = []
    for segment in listing.numbers[:-1]:
        if segment in busy or len(found) == most:
            break
        try:
            if _last_at(segments, listing.parts(segment)) >= older_than:
                break
        except FileNotFoundError:
            break
        found.append(segment)
    return found


def _last_at(segments: LedgerFiles, parts: Sequence[Part]) -> float:
    """When the last of a segment's batches began; where no record says it, when it was closed."""
    found = [segments.summary(part) for part in parts]
    known = [summary.own.last_at for summary in found if summary.own.last_at is not None]
    return max(known or [summary.closed_at for summary in found])


def expire_one(segments: LedgerFiles, older_than: float) -> bool:
    """Forget the records of one segment, and keep their sums; whether there was one."""
    carried = Carried.load(segments.at)
    if carried.expiring:  # a crash came before they were removed, or clear the list
        segments.remove(carried.expiring)
        carried = replace(carried, expiring=())
        carried.save(segments.at)
    ready = expirable(segments, older_than, most=1)
    if not ready:
        return False
    listing = segments.listing()
    carried = carried.caught_up(segments, listing)
    parts: list[Part] = listing.parts(ready[0])
    gone = carried.expired
    for part in parts:
        gone = gone.plus(segments.summary(part).adds)
    names = tuple(p.closed for p in parts)
    begins = max(carried.begins, (ready[0] + 1) * SEGMENT)
    # Counted and to be removed, in one step: a crash after it neither counts nor keeps them twice.
    replace(carried, expired=gone, begins=begins, expiring=names).save(segments.at)
    segments.remove(names)
    return True
