"""On which line of a TOML file each key stands.

The standard library's reader says the line of a mistake in the syntax, and forgets it for values;
tomlkit keeps a file's comments and blanks, and has no line numbers either. So the text is gone through
once more. It has been read before, so its syntax is right, and only strings, brackets and comments have
to be told apart.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

__all__ = ["lines_of"]

#: Whatever a value may be that is no array and no inline table; the longest quotes first.
_STRING = re.compile(
    r"\"\"\"(?:\\.|[^\\])*?\"\"\"(?!\")|'''.*?'''(?!')|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}\n#]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_INLINE = re.compile(r"[ \t]*")

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """The line of each key and table by its path, from 1; the first of them, where there are several.

    >>> lines_of('a = 1\\n[b]\\nc.d = [2,\\n3]\\n')
    {('a',): 1, ('b',): 2, ('b', 'c'): 3, ('b', 'c', 'd'): 3}
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.scan()
    return scanner.found


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.found: dict[Path, int] = {}

    def scan(self) -> None:
        """Go through the file, table by table."""
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._next() == "[":
                begins = self._at
                width = 2 if self._text.startswith("[[", self._at) else 1
                self._at += width
                table = self._key()
                self._at += width
                self._note((), table, begins)
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        self._at = self._at if match is None else match.end()

    def _note(self, table: Path, key: Path, begins: int) -> None:
        line = self._text.count("\n", 0, begins) + 1
        for width in range(1, len(key) + 1):
            self.found.setdefault((*table, *key[:width]), line)

    def _key(self) -> Path:
        """A key, whose parts may be quoted and have dots between them."""
        parts: list[str] = []
        while True:
            self._skip(_INLINE)
            quoted = self._next() in ("'", '"')
            match = (_STRING if quoted else _BARE).match(self._text, self._at)
            assert match is not None, "the syntax was read before"
            parts.append(tomllib.loads(f"k = {match[0]}")["k"] if quoted else match[0])
            self._at = match.end()
            self._skip(_INLINE)
            if self._next() != ".":
                return tuple(parts)
            self._at += 1

    def _pair(self, table: Path) -> None:
        begins = self._at
        key = self._key()
        self._note(table, key, begins)
        self._at += 1  # the equals sign
        self._skip(_INLINE)
        self._value((*table, *key))

    def _value(self, path: Path) -> None:
        opened = self._next()
        if opened == "[":
            self._items("]", lambda: self._value(path))
        elif opened == "{":
            self._items("}", lambda: self._pair(path))
        else:
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            assert match is not None, "the syntax was read before"
            self._at = match.end()

    def _items(self, closing: str, item: Callable[[], None]) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self._next() != closing:
            item()
            self._skip(_BLANK)
            if self._next() == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1
