"""What gates, guards and joins were built as in a session, by name.

Two gates of one name may differ, in policy or settings, and both be built before a query of either has
begun. A gate's metrics and plans bear the number of its spec, so that each query is steered as its own
frame was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from headgate.run.spec import Spec

__all__ = ["Specs"]


_S = TypeVar("_S", bound=Spec)


class Specs:
    """Of those that bear a number all that were ever built, each once; of others the latest."""

    def __init__(self) -> None:
        self._of_name: dict[str, dict[int, Spec]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_name)

    def add(self, spec: _S) -> _S:
        """Take it up as the latest of its name; under the number of one that is the same, if any."""
        if not spec.number:
            self._of_name[spec.name] = {0: spec}
            return spec
        held = self._of_name.setdefault(spec.name, {})
        held.pop(0, None)  # a guard or a join that had the name
        number = next((n for n, other in held.items() if other == spec), spec.number)
        held.pop(number, None)
        held[number] = numbered = replace(spec, number=number)
        return numbered

    def of(self, name: str, number: int = 0) -> Spec | None:
        """The one of this number; the latest where none is asked for. None if there is no such one."""
        held = self._of_name.get(name, {})
        return held.get(number) if number else next(reversed(held.values()), None)

    def named(self, name: str) -> list[Spec]:
        """All of a name, the latest first."""
        return list(reversed(self._of_name.get(name, {}).values()))

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(list(self._of_name))
