"""JSON that was read back from a store: whoever can write there has written it, and it may say anything.

Python's reader raises more than `ValueError` (of a hundred thousand brackets a `RecursionError`), and
makes strings with halves of surrogate pairs, which no file, page or terminal takes.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parsed_json"]


def parsed_json(data: bytes | str) -> Any:
    """The value that some text says; `ValueError` for whatever is none.

    >>> parsed_json(b'{"why": "half a \\\\ud800 pair"}')
    {'why': 'half a ? pair'}
    """
    try:
        value = json.loads(data)
        if (b"\\ud" if isinstance(data, bytes) else "\\ud") in data.lower():  # type: ignore[operator]
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("its brackets are nested too deep for any value of Headgate's") from None
    return value
