"""How Headgate's own Kafka clients are set up: librdkafka writes nothing on standard error by itself.

Its lines come many times a second while a broker cannot be reached, and alarm people who read them above
an error that says the same once.
"""

from __future__ import annotations

from typing import Any

__all__ = ["client_settings"]


def client_settings(bootstrap: str, heard: list[str], **more: Any) -> dict[str, Any]:
    """Settings of a producer, consumer or admin client; `heard` gets the first thing that goes wrong.

    Further ones are given by Kafka's names: ``**{"linger.ms": 5}``.
    """

    def hear(error: Any) -> None:
        if not heard:
            heard.append(error.str())

    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": hear, **more}
