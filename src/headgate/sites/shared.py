"""A site's allocator and the one lock that it is used under."""

from __future__ import annotations

import threading
from types import TracebackType

from headgate.sites.allocator import SiteAllocator
from headgate.sites.settings import SiteSettings

__all__ = ["SharedSite"]


class SharedSite:
    """The site as the threads of an application share it: nobody has its allocator without its lock.

    Batches end in the control loop's thread, decisions and exchanges have threads of their own, and
    people declare queries from anywhere.

    >>> site = SharedSite(SiteAllocator(SiteSettings(name="rome", cores=4.0)))
    >>> with site as allocator:
    ...     allocator.state.declare("top-routes", weight=2.0)
    """

    def __init__(self, allocator: SiteAllocator) -> None:
        self._allocator = allocator
        self._lock = threading.RLock()

    @property
    def settings(self) -> SiteSettings:
        """What a person decided about the site; it does not change."""
        return self._allocator.settings

    def __enter__(self) -> SiteAllocator:
        self._lock.acquire()
        return self._allocator

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
