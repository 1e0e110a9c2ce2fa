"""A port to serve at, bound before anything is served: whether it is free is known at once."""

from __future__ import annotations

import errno
import socket

from headgate.errors import BadArgument

__all__ = ["bound_socket"]


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; says what to do where that cannot be had."""
    if type(port) is not int or not 0 <= port <= 65535:
        raise BadArgument(f"port={port!r}: give a whole number from 1 to 65535, or 0 for any free one")
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
    except OSError as error:
        raise BadArgument(f"host={host!r} ({error}): give an address of this machine") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)  # from here on the port is taken, and whoever asks is answered in a moment
    except OSError as error:
        found.close()
        reason = error.strerror or error
        raise BadArgument(f"{host}:{port} cannot be had ({reason}): {_advice(error.errno)}") from None
    return found


def _advice(number: int | None) -> str:
    """What to do about a port that cannot be bound."""
    if number == errno.EADDRNOTAVAIL:
        return "give an address of this machine as --host; 0.0.0.0 or :: are all that it has"
    if number in (errno.EACCES, errno.EPERM):
        return "this user may not have it; give a --port of 1024 or more"
    return "stop what has it, or give another --port; 0 takes a free one"
