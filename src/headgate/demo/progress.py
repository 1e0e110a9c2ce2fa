"""`Progress`: whoever wants to be told of a demo while it runs."""

from __future__ import annotations

from typing import Protocol

from headgate.demo.batches import Batch

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """CoordinatorUpdate of what happens, while it happens."""

    def stage(self, text: str, seconds: float, target_s: float) -> None:
        """A new part of the demo begins; it takes about so many seconds."""

    def batch(self, batch: Batch) -> None:
        """A batch ended, or was cut short."""

    def tick(self, running: Batch | None) -> None:
        """Time passed; this batch is running."""


class Silent:
    """Tells nobody."""

    def stage(self, text: str, seconds: float, target_s: float) -> None:
        """Nothing."""

    def batch(self, batch: Batch) -> None:
        """Nothing."""

    def tick(self, running: Batch | None) -> None:
        """Nothing."""
