"""Who may speak for whom: one secret, and a token for each site that only the secret can make.

A site's token is its name and an HMAC of it, so the coordinator keeps no list, a site is added by
printing a token, and no site can report for another. A reader's token may look and not report. There is
no taking back one token: a new secret takes back all.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from headgate.errors import BadArgument, ControlFolderError
from headgate.sites.wire.protocol import check_name

__all__ = ["READER", "SECRET_VARIABLE", "read_secret", "reader_token", "site_token", "whose"]

#: The environment variable that holds the secret where no file does.
SECRET_VARIABLE = "HEADGATE_COORDINATOR_SECRET"
#: Whom a reader's token names: no site can be called that.
READER = "*reader"
_SHORTEST = 16


def site_token(secret: bytes, site: str) -> str:
    """The token with which this site, and no other, reports.

    >>> site_token(b"a secret of 16 bytes or more", "rome")[:9]
    'rome.48fc'
    """
    return f"{site}.{_mac(secret, check_name('site', site))}"


def reader_token(secret: bytes) -> str:
    """The token with which people and pages look at all queries."""
    return f"{READER}.{_mac(secret, READER)}"


def whose(secret: bytes, token: str) -> str | None:
    """The site that the token was made for (or `READER`); None if it was not made with this secret."""
    name, _, mac = token.rpartition(".")
    # The HMAC is made and compared in any case, so that the time tells nothing.
    right = hmac.compare_digest(_mac(secret, name).encode(), mac.encode(errors="replace"))
    return name if right and name else None


def read_secret(
    file: str | os.PathLike[str] | None, *, make: bool = False, by: str = "headgate coordinator"
) -> bytes | None:
    """The secret in the file, or in the environment, or None; `make` makes a file that is not there.

    A new file is for its owner's eyes only, and holds 32 random bytes. `by` is the command that makes
    one.
    """
    if file is None:
        text = os.environ.get(SECRET_VARIABLE)
        return None if text is None else _checked(text, f"the variable {SECRET_VARIABLE}")
    path = Path(file)
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                _make(path)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise ControlFolderError(
            f"the secret file {str(path)!r} cannot be read ({reason}): give the file that the "
            f"service was started with; `{by}` makes one that is not there"
        ) from error
    return _checked(text, f"the file {str(path)!r}", by)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: written aside and linked, so that two starts at once agree on one secret.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(secrets.token_hex(32) + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.link(part, path)
    finally:
        part.unlink()


def _checked(text: str, where: str, by: str = "headgate coordinator") -> bytes:
    secret = text.strip().encode()
    if len(secret) < _SHORTEST:
        raise BadArgument(
            f"the secret in {where} has {len(secret)} bytes: at least {_SHORTEST}, and better 32 random "
            f"ones; delete the file and let `{by}` make one"
        )
    return secret


def _mac(secret: bytes, name: str) -> str:
    message = b"headgate coordinator 1\0" + name.encode(errors="replace")
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
