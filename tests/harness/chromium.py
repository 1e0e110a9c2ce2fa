"""A real browser for the tests of the page: the system's Chromium, without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]

_ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a module; where there is none its tests are skipped, and say how to get one.

    Not one for the run: as long as Playwright is open, its event loop counts as running in this thread,
    and neither ``asyncio.run`` nor a second Playwright works in any test after it.
    """
    api = pytest.importorskip("playwright.sync_api", reason="make setup installs playwright")
    names = (os.environ.get("HEADGATE_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no browser: apt-get install chromium, or name one in HEADGATE_CHROMIUM")
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield made
        made.close()
