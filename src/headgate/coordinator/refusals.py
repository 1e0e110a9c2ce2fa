"""Single queries that were refused, in the log: each once while the reason stays the same."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping

__all__ = ["RefusedQueries"]


class RefusedQueries:
    """The refusals of every site's last reply; a site asks every second, and is refused as often.

    Of so many sites as the coordinator knows, and of each only its last reply: bounded as that is.
    """

    def __init__(self, log: logging.Logger, most_sites: int) -> None:
        self._log, self._most = log, most_sites
        self._lock = threading.Lock()
        #: Query and reason, by site; whoever was heard last is last.
        self._last: OrderedDict[str, dict[str, str]] = OrderedDict()

    def note(self, site: str, refused: Mapping[str, str]) -> None:
        """Log what is new in a reply to the site."""
        if not self._log.isEnabledFor(logging.INFO):
            return
        with self._lock:
            before = self._last.pop(site, {})
            if refused:
                self._last[site] = dict(refused)
            if len(self._last) > self._most:
                self._last.popitem(last=False)
        for query, reason in refused.items():
            if before.get(query) != reason:
                self._log.info("site %r, query %r was refused: %s", site, query, reason)

    def forget(self, site: str) -> None:
        """Forget a site that has left: when it comes back, its refusals are logged again."""
        with self._lock:
            self._last.pop(site, None)
