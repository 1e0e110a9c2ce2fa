"""What gates, guards, joins and meters of results were built as in a session, by name.

Two of one name may differ, in policy or settings, and both be built before a query of either has begun.
Metrics and plans bear the number of the spec, so that each query is steered as its own frame was built.

A notebook that runs for days, or a job that builds its gate for every batch, may build specs without
end; those that were not used for longest are forgotten. What a running query uses never is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from headgate.run.spec import Spec
from headgate.store.places.place import Place

__all__ = ["MOST_SPECS", "Specs"]

#: Specs that are remembered, over all names: some kilobytes each, and years of redeployments.
MOST_SPECS = 1000

_S = TypeVar("_S", bound=Spec)


class Specs:
    """The latest specs, each once; equal ones share the number of the first."""

    def __init__(self, most: int = MOST_SPECS) -> None:
        self._most = most
        self._of_name: dict[str, dict[int, Spec]] = {}
        #: The name of each number, in the order in which they were last used.
        self._used: dict[int, str] = {}
        #: The folders, and those of them with something to steer; None: to be found out.
        self._controls: dict[bool, frozenset[Place]] | None = None

    def __bool__(self) -> bool:
        return bool(self._of_name)

    def __len__(self) -> int:
        return len(self._used)

    def add(self, spec: _S, in_use: Collection[int] = ()) -> _S:
        """Take it up as the latest of its name; under the number of one that is the same, if any.

        `in_use` are the numbers that must not be forgotten for it.
        """
        held = self._of_name.setdefault(spec.name, {})
        number = next((n for n, other in held.items() if other == spec), spec.number)
        held.pop(number, None)
        held[number] = numbered = replace(spec, number=number)
        self._controls = None
        self._use(number, spec.name)
        spare = len(self._used) - self._most
        if spare > 0:
            unused = (n for n in list(self._used) if n not in in_use and n != number)
            for _, old in zip(range(spare), unused, strict=False):
                self.forget(old)
        return numbered

    def forget(self, number: int) -> None:
        """It is not to be steered any more."""
        self._controls = None
        name = self._used.pop(number)
        del self._of_name[name][number]
        if not self._of_name[name]:
            del self._of_name[name]

    def _use(self, number: int, name: str) -> None:
        self._used.pop(number, None)
        self._used[number] = name

    def of(self, name: str, number: int = 0) -> Spec | None:
        """The one of this number; the latest where none is asked for. None if there is no such one."""
        held = self._of_name.get(name, {})
        found = held.get(number) if number else next(reversed(held.values()), None)
        if found is not None:
            self._use(found.number, name)
        return found

    def controls(self, steering: bool = False) -> frozenset[Place]:
        """The control folders of all; or of those whose plans a heartbeat keeps alive."""
        if self._controls is None:
            specs = [spec for held in list(self._of_name.values()) for spec in held.values()]
            steered = frozenset(spec.control for spec in specs if spec.steers)
            self._controls = {True: steered, False: frozenset(spec.control for spec in specs)}
        return self._controls[steering]

    def steering_in(self, control: Place) -> list[str]:
        """The names of those in a folder whose plans a heartbeat keeps alive."""
        found = list(self._of_name.items())
        return [
            name
            for name, held in found
            if any(spec.steers and spec.control == control for spec in list(held.values()))
        ]

    def named(self, name: str) -> list[Spec]:
        """All of a name, the latest first."""
        return list(reversed(self._of_name.get(name, {}).values()))

    def __iter__(self) -> Iterator[str]:
        """The names of all specs that are remembered."""
        return iter(list(self._of_name))
