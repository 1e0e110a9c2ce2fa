"""`Progress`: what a demo calls while it runs, to show how far it is."""

from __future__ import annotations

from typing import Protocol

from headgate.demo.batches import Batch

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """Hears what happens in a demo, while it happens."""

    def stage(self, text: str, seconds: float, target_s: float) -> None:
        """A new part of the demo begins; it takes about so many seconds."""

    def batch(self, batch: Batch) -> None:
        """A batch ended, or was cut short."""

    def tick(self, running: Batch | None) -> None:
        """Time passed; this batch is running."""


class Silent:
    """Shows nothing: for tests, and where output goes to a file."""

    def stage(self, text: str, seconds: float, target_s: float) -> None:
        """Show nothing when a part of the demo begins."""

    def batch(self, batch: Batch) -> None:
        """Show nothing when a batch ends."""

    def tick(self, running: Batch | None) -> None:
        """Show nothing while time passes."""
