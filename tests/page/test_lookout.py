"""A look that fails, whatever the reason, is never shown as one that succeeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.page.lookout import Lookout
from headgate.page.metrics import exposition
from headgate.view.observer import Observer, View
from tests.view.virtual_gate import VirtualGate


class _Failing(Observer):
    """Looks once, and then fails as it is told."""

    error: Exception | None = None

    def look(self) -> View:
        if self.error is not None:
            raise self.error
        return super().look()


@pytest.mark.parametrize(
    "error", [AttributeError("'list' has no 'get'"), RuntimeError(), OSError(), IndexError("\n")]
)
def test_a_look_that_fails_unforeseen_leaves_the_last_view_as_an_old_one(
    control: Path, error: Exception
) -> None:
    VirtualGate(control).batches(3, 1000)
    observer = _Failing(control)
    lookout = Lookout(observer, every_s=0.0)
    assert not lookout.view().stale
    observer.error = error
    view = lookout.view()
    assert view.stale
    assert view.verdict.level == "unknown"
    assert len(view.jobs) == 1
    assert b"headgate_store_up 0.0" in exposition(view)
    observer.error = None
    assert not lookout.view().stale


def test_a_change_that_came_during_a_look_is_in_the_next_one(control: Path) -> None:
    class Slow(Observer):
        looks = 0

        def look(self) -> View:
            self.looks += 1
            if self.looks == 1:
                lookout.refresh()
            return super().look()

    VirtualGate(control).batches(3, 1000)
    observer = Slow(control)
    lookout = Lookout(observer, every_s=60.0)
    for looks in (1, 2, 2):
        lookout.view()
        assert observer.looks == looks
