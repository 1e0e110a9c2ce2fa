"""What the standard configuration of AWS says, where the environment is silent.

`obstore` reads the environment, and asks the instance's or the container's role. People's machines have
keys in ``~/.aws/credentials``, and a region in ``~/.aws/config``; these two files are read here, for the
profile that ``AWS_PROFILE`` names.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["shared_credentials"]

#: Whoever sets one of these has said where credentials come from.
_SAID = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}


def shared_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Keys and region of the profile, as `obstore` names them; none that the environment has."""
    profile = environment.get("AWS_PROFILE") or "default"
    found: dict[str, str] = {}
    config = _section(environment, "AWS_CONFIG_FILE", "config", (f"profile {profile}", profile))
    if not environment.get("AWS_REGION") and not environment.get("AWS_DEFAULT_REGION"):
        region = config.get("region")
        found |= {"region": region} if region else {}
    if any(environment.get(name) for name in _SAID):
        return found
    keys = config | _section(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials", (profile,))
    if keys.get("aws_access_key_id") and keys.get("aws_secret_access_key"):
        found |= {name: keys[key] for key, name in _KEYS.items() if keys.get(key)}
    return found


def _section(
    environment: Mapping[str, str], variable: str, name: str, sections: tuple[str, ...]
) -> dict[str, str]:
    home = environment.get("HOME") or os.path.expanduser("~")
    path = Path(environment.get(variable) or Path(home) / ".aws" / name)
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return {}
    return next((dict(parser[section]) for section in sections if parser.has_section(section)), {})
