r"""One message of the log is one line, whatever it quotes.

Names of groups are values of rows, reasons are texts of files and of other machines. A line break in one
would begin a line that nobody of us wrote, an escape sequence would steer the terminal that shows it,
and half of a pair would be no text that a file takes. So each is written as in a Python literal.
Tracebacks are added by the handler behind this, and have their lines.
"""

from __future__ import annotations

import logging
import unicodedata

__all__ = ["LOGGERS", "MOST_CHARACTERS", "OneLine", "keep_to_one_line", "one_line"]

#: Every logger that Headgate writes to: a filter holds for the logger that has it, and for none below.
LOGGERS = ("headgate", "headgate.coordinator", "headgate.page", "headgate.sites")
#: A group's name may be a megabyte.
MOST_CHARACTERS = 4000
#: Control characters, halves of pairs, and what ends a line or turns its direction.
_OBEYED = ("Cc", "Cs", "Zl", "Zp")
_TURNS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def one_line(text: str) -> str:
    r"""The text with nothing in it that is obeyed instead of shown, and not endless.

    >>> one_line("rides\n04:00 ERROR forged\x1b[31m")
    'rides\\n04:00 ERROR forged\\x1b[31m'
    """
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]} ... ({len(text):,} characters)"
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode()
        if one in _TURNS or unicodedata.category(one) in _OBEYED
        else one
        for one in text
    )


class OneLine(logging.Filter):
    """Makes one line of each message, for every handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Write the message out, and let it pass."""
        try:
            record.msg, record.args = one_line(record.getMessage()), None
        except (TypeError, ValueError):
            return True  # a message that does not fit its values: logging says so itself
        return True


def keep_to_one_line() -> None:
    """Let every logger of ours write one line a message; again and again, to no harm."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, OneLine) for one in logger.filters):
            logger.addFilter(OneLine())
