"""What is in a job file and not for everybody: values from the environment, and passwords.

``${NAME}`` in a value stands for the environment's variable of that name, so that a file can be shared.
Whatever came from there, and the value of any key that sounds like a secret, is replaced by ``***`` in
all that is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Secrets"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SOUNDS_SECRET = re.compile(
    r"passw|secret|token|jaas|credential|private|access\.?key|account\.key|api\.?key|sas\b",
    re.IGNORECASE,
)
#: A value so short would blot out half of every message.
_LEAST = 4
HIDDEN = "***"


class Secrets:
    """Fills in variables, and hides what must not be seen."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._hidden: set[str] = set()

    def filled(self, value: Any, name: str, complain: Callable[[str], None]) -> Any:
        """The value with its variables filled in; `complain` hears of those that are not set."""
        if isinstance(value, list):
            return [self.filled(item, name, complain) for item in value]
        if not isinstance(value, str):
            return value

        def fill(match: re.Match[str]) -> str:
            found = self._environment.get(match[1])
            if found is None:
                complain(
                    f"the environment has no variable {match[1]}: set it (export {match[1]}=...), or "
                    "write the value itself"
                )
                return match[0]
            self.hide(found)
            return found

        result = _VARIABLE.sub(fill, value)
        if _SOUNDS_SECRET.search(name):
            self.hide(result)
        return result

    def hide(self, value: str) -> None:
        """Show this to nobody."""
        if len(value) >= _LEAST:
            self._hidden.add(value)

    def shown(self, text: str) -> str:
        """The text without what is hidden; the longest first, since one may be a part of another."""
        for value in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(value, HIDDEN).replace(repr(value)[1:-1], HIDDEN)
        return text
