"""Nobody has a site's allocator without its lock."""

from __future__ import annotations

import threading

import pytest

from headgate.sites.allocator import SiteAllocator
from headgate.sites.settings import SiteSettings
from headgate.sites.shared import SharedSite


@pytest.fixture
def site() -> SharedSite:
    return SharedSite(SiteAllocator(SiteSettings("s", cores=2.0)))


def _other_gets_in(site: SharedSite) -> bool:
    """Whether another thread has the allocator within a moment."""
    inside = threading.Event()

    def enter() -> None:
        with site:
            inside.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    return inside.wait(0.1)


def test_one_thread_has_it_at_a_time(site: SharedSite) -> None:
    with site:
        assert not _other_gets_in(site)
    assert _other_gets_in(site)


def test_the_same_thread_may_enter_again(site: SharedSite) -> None:
    with site as outer, site as inner:
        assert outer is inner
        assert not _other_gets_in(site)


def test_an_error_lets_the_next_one_in(site: SharedSite) -> None:
    with pytest.raises(ValueError, match="odd"), site:
        raise ValueError("odd")
    assert _other_gets_in(site)
