"""A site's exchange with one coordinator: what it reports, what it takes up, when it asks again.

A coordinator that is gone is asked again after a pause that doubles up to ten seconds; the site goes on
with what it knows itself, and takes up its coordinator's word again with the first answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from headgate.errors import BadArgument, CoordinatorGone, CoordinatorRefused
from headgate.sites.accounts import CoordinatorUpdate
from headgate.sites.shared import SharedSite
from headgate.sites.state import SiteState
from headgate.sites.wire.protocol import MAX_SIC, QueryReport, Reply

__all__ = ["Client", "Exchange"]

log = logging.getLogger("headgate")


class Client(Protocol):
    """A site's side of the exchange with one coordinator."""

    def exchange(self, queries: Mapping[str, QueryReport]) -> Reply:
        """Report the queries that this site hosts a part of; the reply says how they all fare."""

    def leave(self, queries: Iterable[str] | None = None) -> None:
        """Tell that these queries, or the whole site, are no longer here."""

    def skip(self) -> None:
        """Number later reports far above those so far."""

    def close(self) -> None:
        """Release the file that says which incarnation of the site this is."""


class Exchange:
    """The exchange with one coordinator, which speaks for some of the site's queries or for all."""

    def __init__(
        self,
        site: SharedSite,
        client: Client,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site, self._client = site, client
        self._every, self._clock = every_s, clock
        self._tuning = site.settings.tuning.exchange
        #: The queries that this coordinator speaks for; None for all.
        self.queries: set[str] | None = None
        self._pause = every_s
        self._said = self._code = ""
        self._refused: dict[str, str] = {}
        self._unreported: dict[str, str] = {}
        #: What this coordinator was told of, and not yet that it has ended here.
        self._hosted: set[str] = set()
        self.state = "joining"

    def once(self) -> float:
        """One exchange; how long to wait before the next."""
        with self._site as allocator:
            report = self._report(allocator.state)
            ended = self._hosted.difference(allocator.state.queries)
        try:
            if ended:
                self._client.leave(sorted(ended))
                self._hosted -= ended
            self._hosted.update(report)
            # An empty report too: it keeps the site's name, and shows that the coordinator is there.
            reply = self._client.exchange(report)
        except CoordinatorRefused as error:
            self._say("refused", error.code, str(error))
            if error.code == "replayed":  # the file with the numbers is an old one
                self._client.skip()
            return max(min(self._tuning.longest_wait_s, error.retry_after_s or 0.0), self._longer())
        except (CoordinatorGone, OSError) as error:
            gone = isinstance(error, CoordinatorGone)
            self._say("gone" if gone else "failed", type(error).__name__, str(error))
            return self._longer()
        self._pause = self._every
        self._say("in touch")
        self._take_up(reply, report)
        return self._every

    def _longer(self) -> float:
        self._pause = min(self._tuning.longest_pause_s, max(self._every, 2.0 * self._pause))
        return self._pause

    def _report(self, state: SiteState) -> dict[str, QueryReport]:
        now = self._clock()
        found = {}
        for query, view in state.views(now).items():
            if self.queries is not None and query not in self.queries:
                continue
            root = state.measures_results(query)
            result = state.result_sic(query, now)
            try:
                found[query] = QueryReport(
                    sources=state.sources_of(query),
                    of=state.declared(query),
                    root=root,
                    result_sic=None if result is None else min(MAX_SIC, result),
                    accepted_sic=min(MAX_SIC, view.accepted),
                    weight=view.weight,
                    priority=state.priority(query),
                )
            except BadArgument as error:  # what is wrong with one query is not the others' affair
                if self._unreported.get(query) != str(error):
                    self._unreported[query] = str(error)
                    log.warning("query %r cannot be reported: %s", query, error)
        return found

    def _take_up(self, reply: Reply, sent: Mapping[str, QueryReport]) -> None:
        now = self._clock()
        updates = {
            query: CoordinatorUpdate(
                said.sic, max(1, said.sources), now - (said.age_s or 0.0), said.accepted, now
            )
            for query, said in reply.queries.items()
        }
        with self._site as allocator:
            allocator.state.apply_updates(updates)
            for query, said in reply.queries.items():
                if _is_as_sent(allocator.state, query, sent):
                    allocator.state.declare(query, weight=said.weight, priority=said.priority)
        for query, reason in reply.refused.items():
            if self._refused.get(query) != reason:
                log.warning("query %r was refused by its coordinator: %s", query, reason)
        self._refused = dict(reply.refused)

    @property
    def refused(self) -> dict[str, str]:
        """Queries that the coordinator does not take, and why."""
        return dict(self._refused)

    @property
    def said(self) -> str:
        """Why the coordinator is gone, or refuses; empty while it answers."""
        return self._said

    def _say(self, state: str, code: str = "", why: str = "") -> None:
        """Each change once: a coordinator may be gone for hours, and its words hold numbers."""
        self._said = why
        if (state, code) == (self.state, self._code):
            return
        site = self._site.settings.name
        if state != "in touch":
            what = {"refused": "refuses site", "gone": "is gone for site"}.get(
                state, "cannot be told of"
            )
            log.warning("the coordinator %s %r, which goes on with its own view: %s", what, site, why)
        elif self.state not in ("joining", "in touch"):
            log.warning("the coordinator is back for site %r", site)
        self.state, self._code = state, code

    def goodbye(self) -> None:
        """Tell the coordinator that the site ends."""
        try:
            self._client.leave(None)
        except (CoordinatorGone, CoordinatorRefused, OSError) as error:  # its number is a file here
            log.info("the coordinator was not told that this site ends: %s", error)
        finally:
            self._client.close()


def _is_as_sent(state: SiteState, query: str, sent: Mapping[str, QueryReport]) -> bool:
    """Whether the reply's weight and priority may be taken over.

    The root has the last word on them: that is another site, and nobody here has changed them since
    the report was sent.
    """
    said = sent.get(query)
    if said is None or query not in state.queries or state.measures_results(query):
        return False
    return (said.weight, said.priority) == (state.weight(query), state.priority(query))
