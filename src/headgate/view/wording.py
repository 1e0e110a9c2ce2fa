"""Settings, counts, shares and times as people read them; the same words on the page and in commands."""

from __future__ import annotations

import math
import time
import unicodedata

from headgate.settings import GateSettings

__all__ = [
    "ago_text",
    "clock_text",
    "count_text",
    "live_text",
    "plain",
    "retention_text",
    "seconds_text",
    "share_text",
    "target_text",
]


#: What stands for a character that is none to look at.
_MARK = "\ufffd"
#: Embeddings, overrides and isolates of the direction in which text runs.
_TURNS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def plain(text: str) -> str:
    r"""Other people's words, for a terminal, which must not take them for commands.

    Names of groups are values of rows, and reasons are texts of files. An escape sequence in one would
    move the cursor, rename the window or hide what stands beside it. Each control character, half of a
    pair and change of direction is one mark.

    >>> plain("a\x1b[31mb\u202ec") == "a\ufffd[31mb\ufffdc"
    True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_MARK if _is_obeyed(one) else one for one in text)


def _is_obeyed(one: str) -> bool:
    return one not in "\n\t" and (unicodedata.category(one) in ("Cc", "Cs") or one in _TURNS)


def target_text(settings: GateSettings) -> str:
    """What the gate holds, in a few words.

    >>> target_text(GateSettings(hold="2 seconds"))
    'hold 2 s'
    """
    if settings.rate is not None:
        return f"rate {settings.rate:g}"
    kind = "hold" if settings.hold is not None else "delay"
    return f"{kind} {settings.target_s:g} s"


def live_text(now: GateSettings, code: GateSettings) -> str:
    """What was set live and is not as the code says; nothing where all is.

    >>> code = GateSettings(hold="3 seconds")
    >>> live_text(code.changed({"hold": 8.0}), code)
    'hold 8 s set live; the code says hold 3 s'
    >>> live_text(code.changed({"mode": "monitor", "min_keep": 0.05}), code)
    'monitor, min keep 0.05 set live; the code says shed, min keep 0.01'
    >>> live_text(code.changed({"hold": 3.0}), code)
    ''
    """
    said = [
        (words(now), words(code))
        for words in (
            lambda s: s.mode,
            target_text,
            lambda s: f"min keep {s.min_keep:g}",
            lambda s: f"inside {s.inside:g}",
            lambda s: retention_text(s.retention_s),
        )
    ]
    other = [(live, declared) for live, declared in said if live != declared]
    if not other:
        return ""
    live, declared = (", ".join(words) for words in zip(*other, strict=True))
    return f"{live} set live; the code says {declared}"


def retention_text(retention_s: float) -> str:
    """How long records are kept, in a few words."""
    if math.isinf(retention_s):
        return "records kept for ever"
    days = retention_s / 86_400.0
    return (
        f"records kept {days:g} days" if days >= 2.0 else f"records kept {retention_s / 3600.0:g} hours"
    )


def count_text(count: float) -> str:
    """A count with three figures where it is large.

    >>> count_text(950), count_text(51_234), count_text(1_500_000), count_text(0.25)
    ('950', '51.2 k', '1.50 M', '0.25')
    """
    if abs(count) < 1000:
        return f"{count:,.0f}" if count == round(count) or abs(count) >= 10 else f"{count:.2g}"
    units = "kMGT"
    power = 0
    while abs(count) >= 999.5 and power < len(units):
        count /= 1000.0
        power += 1
    return f"{count:.{3 - len(str(int(abs(count))))}f} {units[power - 1]}"


def share_text(share: float) -> str:
    """A share in per cent; never a rounded 0 % or 100 % that is not one.

    >>> share_text(1.0), share_text(0.2134), share_text(0.9996), share_text(0.0004)
    ('100 %', '21.3 %', 'above 99.9 %', 'below 0.1 %')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    if share < 0.001:
        return "below 0.1 %"
    return "above 99.9 %" if share > 0.999 else f"{100 * share:.1f} %"


def seconds_text(value: float) -> str:
    """A duration that fits its size.

    >>> seconds_text(0.042), seconds_text(1.5), seconds_text(75), seconds_text(7300)
    ('42 ms', '1.50 s', '75 s', '2 h 2 min')
    """
    if value < 0.0995:
        return f"{1000 * value:.0f} ms"
    if value < 10:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def ago_text(age_s: float) -> str:
    """How long ago something was, without tenths that only flicker."""
    if age_s < 120:
        return f"{max(0.0, age_s):.0f} s"
    return f"{age_s / 60:.0f} min" if age_s < 7200 else f"{age_s / 3600:.0f} h"


def clock_text(instant: float, now: float) -> str:
    """The time of day, with the day where it is another than today's; "?" for what no clock shows."""
    try:
        then, today = time.localtime(instant), time.localtime(now)
    except (OverflowError, ValueError, OSError):  # years that nobody counts, or no number
        return "?"
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%d %b %H:%M", then)
