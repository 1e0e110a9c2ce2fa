"""What was stored by another version of Headgate is refused in one way."""

from __future__ import annotations

from headgate.errors import SnapshotError

__all__ = ["require_version"]


def require_version(what: str, found: object, reads: int, otherwise: str) -> None:
    """Refuse what was stored in a version that this Headgate does not read.

    >>> require_version("a plan", 1, 1, "start with a new control folder")
    >>> require_version("costs", 2, 1, "learn them again")
    Traceback (most recent call last):
    headgate.errors.SnapshotError: costs of version 2: this Headgate reads version 1; use ...
    """
    if found != reads:
        raise SnapshotError(
            f"{what} of version {found!r}: this Headgate reads version {reads}; use the Headgate that "
            f"stored it, or {otherwise}"
        )
