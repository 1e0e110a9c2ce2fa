"""`Table`: one table of a job file while it is read; whatever is wrong is noted, and reading goes on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.errors import BadArgument
from headgate.job.checks import Key
from headgate.job.problems import Lines, Problem
from headgate.job.secrets import Secrets

__all__ = ["Notes", "Table", "nearest"]


def nearest(word: str, legal: Mapping[str, Any] | tuple[str, ...]) -> str:
    """What was probably meant, and all that is legal.

    >>> nearest("holt", ("hold", "delay"))
    "did you mean 'hold'? Legal here: delay, hold"
    """
    close = difflib.get_close_matches(word, list(legal), n=1, cutoff=0.6)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}Legal here: {', '.join(sorted(legal))}"


class Notes:
    """What is wrong so far."""

    def __init__(self, lines: Lines, secrets: Secrets) -> None:
        self.lines, self.secrets = lines, secrets
        self.problems: list[Problem] = []

    def add(self, path: tuple[str, ...], message: str) -> None:
        """Note a mistake at this key, with the line that it stands on."""
        self.problems.append(self.lines.problem(path, self.secrets.shown(message)))


class Table:
    """A table, with the keys that it may have."""

    def __init__(self, notes: Notes, path: tuple[str, ...], value: Any) -> None:
        self._notes, self.path = notes, path
        self._filled = path[:1] != ("sql",)  # `${...}` in SQL is Spark's own
        if not isinstance(value, dict):
            name = ".".join(path)
            notes.add(path, f"{name}={value!r} is not a table: write [{name}] and a line for each key")
            value = {}
        self._raw: dict[str, Any] = value

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def wrong(self, key: str, message: str) -> None:
        """Note a mistake at a key; at the table itself where the key is empty or missing."""
        self._notes.add((*self.path, key) if key else self.path, message)

    def sub(self, key: str) -> Table | None:
        """A table in this one; None where there is none."""
        return Table(self._notes, (*self.path, key), self._raw[key]) if key in self._raw else None

    def values(self) -> dict[str, Any]:
        """All that it has, whatever the names."""
        return dict(self._raw)

    def choice(self, key: str, legal: Mapping[str, Any] | tuple[str, ...]) -> str | None:
        """The word that says what else is legal in this table."""
        value = self._raw.get(key)
        if key not in self._raw:
            self.wrong("", f"[{'.'.join(self.path)}] has no {key}: give one of {', '.join(legal)}")
        elif not isinstance(value, str) or value not in legal:
            self.wrong(key, f"{key}={value!r} is not known; {nearest(str(value), legal)}")
        else:
            return value
        return None

    def read(self, keys: Mapping[str, Key], *others: str) -> dict[str, Any]:
        """The values of these keys, checked; `others` are legal, too, and read elsewhere."""
        for unknown in self._raw.keys() - keys.keys() - set(others):
            legal = (*keys, *others)
            where = f"[{'.'.join(self.path)}]" if self.path else "the file's top"
            self.wrong(unknown, f"{where} has no key {unknown!r}; {nearest(unknown, legal)}")
        found = {}
        for name, key in keys.items():
            if name in self._raw:
                value = self._read(name, key)
                if value is not None:
                    found[name] = value
            elif key.required:
                self.wrong("", f"[{'.'.join(self.path)}] has no {name}, and needs one")
        return found

    def _read(self, name: str, key: Key) -> Any:
        value, problems = self._raw[name], len(self._notes.problems)
        try:
            if self._filled:
                value = self._variables(name, value)
            if len(self._notes.problems) > problems:
                return None
            return key.check(value, name)
        except BadArgument as error:
            self.wrong(name, str(error))
            return None

    def _variables(self, name: str, value: Any) -> Any:
        secrets = self._notes.secrets
        if not isinstance(value, dict):
            return secrets.filled(value, name, lambda said: self.wrong(name, said))
        found = {}
        for parts, given in _leaves(value):
            key = ".".join(parts)

            def complain(said: str, at: tuple[str, ...] = parts) -> None:
                self._notes.add((*self.path, name, *at), said)

            found[key] = secrets.filled(given, key, complain)
        return found


def _leaves(
    value: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a table and of those in it: to TOML, a name with dots is a table in a table."""
    for key, given in value.items():
        if isinstance(given, dict):
            yield from _leaves(given, (*above, key))
        else:
            yield (*above, key), given
