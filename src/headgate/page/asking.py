"""A "what if" from the page: an hour of a ledger in virtual time, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from headgate.durations import seconds
from headgate.errors import BadArgument
from headgate.page.access import Refused
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place
from headgate.store.settings_file import SettingsFile
from headgate.view.job import Job
from headgate.view.observer import View
from headgate.view.what_if import what_if

__all__ = ["Asking", "hours_of"]

HOUR_S = 3600.0
#: Hours that can be chosen, besides the last one.
_HOURS = 24


def hours_of(job: Job, now: float) -> list[tuple[str, float]]:
    """The hours that can be asked about, latest first: what they are called, and when they begin."""
    since = job.facts.totals.all.first_at
    found = [("the last hour", 0.0)]
    whole = now - now % HOUR_S
    for back in range(_HOURS):
        begin = whole - back * HOUR_S
        if since is None or begin + HOUR_S <= since:
            break
        began, ended = (time.strftime("%H:%M", time.localtime(t)) for t in (begin, begin + HOUR_S))
        found.append((f"{began} to {ended}", begin))
    return found


class Asking:
    """Works one question out at a time: each takes a second of a core."""

    def __init__(self, control: Place) -> None:
        self._control = control
        self._busy = threading.Lock()

    def answer(self, view: View, key: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """The answer in words; `asked` has ``target`` and ``since``, 0 for the hour that ends now."""
        job = view.job(key)
        if job is None or job.facts.kind != "gate":
            raise BadArgument(f"no gate {key[:80]!r} is on this page: reload it")
        target_s = seconds(asked.get("target", ""), "target")
        try:
            since = float(asked.get("since") or 0.0) or view.at - HOUR_S
        except ValueError:
            raise BadArgument(f"since={asked['since']!r}: give seconds since 1970") from None
        if not self._busy.acquire(blocking=False):
            raise Refused(429, "busy", "another question is being worked out: ask again", 2.0)
        try:
            settings = SettingsFile(self._control, job.name).effective()
            ledger = Ledger(self._control, job.name, job.facts.query)
            first, last = ledger.span(since, since + HOUR_S)
            records = list(ledger.records(first, last).values())
            return {"sentence": what_if(records, settings, target_s).sentence}
        finally:
            self._busy.release()
