"""`require`: how a check says that something does not hold."""

from __future__ import annotations

__all__ = ["require"]


def require(holds: bool, message: str) -> None:
    """Like ``assert``, but python -O does not take it away."""
    if not holds:
        raise AssertionError(message)
