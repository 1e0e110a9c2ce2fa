"""Something for each open window: a buffer, a sample, counts. Where windows merge, so does that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from headgate_lab.papers.cod.windows import Span, Windows

__all__ = ["OpenWindows"]

Held = TypeVar("Held")


class OpenWindows(Generic[Held]):
    """What is held for each window that some row is in and that is not complete yet.

    `make` gives what a new window holds, `merge(into, other)` puts two together (sessions only).
    """

    def __init__(
        self,
        windows: Windows,
        make: Callable[[], Held],
        merge: Callable[[Held, Held], Held],
    ) -> None:
        self._windows, self._make, self._merge = windows, make, merge
        self._held: dict[Span, Held] = {}
        self._limit = float("-inf")

    def __len__(self) -> int:
        return len(self._held)

    def join(self, instant: float) -> list[Held]:
        """What the windows of an instant hold, of those that are still open; earliest first.

        A session that would be complete already may still be joined by others before the next watermark,
        so it is opened too, and given up at `close` if it was not.
        """
        spans = self._windows.of(instant)
        if self._windows.merging:
            return [self._merged(spans[0])]
        found = []
        for span in spans:
            if span.end > self._limit:
                if span not in self._held:
                    self._held[span] = self._make()
                found.append(self._held[span])
        return found

    def _merged(self, span: Span) -> Held:
        near = sorted(s for s in self._held if s.start < span.end and span.start < s.end)
        held = self._held.pop(near[0]) if near else self._make()
        for other in near[1:]:
            held = self._merge(held, self._held.pop(other))
        whole = Span(min(s.start for s in (*near, span)), max(s.end for s in (*near, span)))
        self._held[whole] = held
        return held

    def close(self, limit: float) -> tuple[list[tuple[Span, Held]], list[Held]]:
        """The windows that end at `limit` or earlier, in order; and what came too late to be in one."""
        if limit <= self._limit:
            return [], []
        done = sorted(span for span in self._held if span.end <= limit)
        late = [self._held.pop(span) for span in done if span.end <= self._limit]
        complete = [(span, self._held.pop(span)) for span in done if span.end > self._limit]
        self._limit = limit
        return complete, late
