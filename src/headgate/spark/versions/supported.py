"""Which Spark this is, and whether it has what a call needs.

Two versions matter: that of the PySpark installed here, and that of the session's Spark, which over
Connect is a server's. What a call needs must be in both, so `version_of` is the older one. Nothing here
imports PySpark, so that what must do without it (`headgate.testing`) can ask too.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import UnsupportedSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NEWEST", "OLDEST", "SparkVersion", "check_version", "installed", "require", "version_of"]


@dataclass(frozen=True, order=True)
class SparkVersion:
    """A release line of Spark, such as 4.1; patch releases do not differ in what they have.

    >>> SparkVersion.read("4.10.1") > SparkVersion(4, 3)
    True
    >>> str(SparkVersion.read("4.0.1")), str(SparkVersion(4, 1))
    ('4.0.1', '4.1')
    """

    major: int
    minor: int
    #: As the release calls itself, for messages; two patches of a line compare equal.
    full: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.full or f"{self.major}.{self.minor}"

    @classmethod
    def read(cls, text: str) -> SparkVersion:
        """From what Spark says of itself."""
        found = re.match(r"(\d+)\.(\d+)", text)
        if found is None:
            raise UnsupportedSpark(
                f"Spark calls itself version {text!r}, which is no version: Headgate needs Spark "
                f"{OLDEST} or newer (pip install 'headgate[spark]')"
            )
        return cls(int(found[1]), int(found[2]), text)


#: The oldest Spark that Headgate runs on, and the newest that it was tested on.
OLDEST, NEWEST = SparkVersion(4, 0), SparkVersion(4, 3)

_WRITTEN = re.compile(r"__version__\s*(?::\s*str\s*)?=\s*[\"']([^\"']+)[\"']")


@cache
def installed() -> SparkVersion | None:
    """The PySpark that this Python would import, which may be a Connect client's; None without one."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    # By the loader: Spark's workers import PySpark from an archive.
    loader: Any = found.loader
    text = loader.get_data(str(Path(found.origin).with_name("version.py"))).decode()
    written = _WRITTEN.search(text)
    return None if written is None else SparkVersion.read(written[1])


def check_version(version: SparkVersion) -> None:
    """Refuse a Spark that is too old for all of Headgate."""
    if version < OLDEST:
        raise UnsupportedSpark(
            f"Spark {version} cannot run Headgate: it needs Spark {OLDEST} or newer "
            "(pip install 'headgate[spark]')"
        )


def version_of(spark: SparkSession) -> SparkVersion:
    """What the session's Spark and the PySpark installed here both have; checked."""
    served = SparkVersion.read(spark.version)
    here = installed()
    version = served if here is None or served < here else here
    check_version(version)
    return version


def require(version: SparkVersion, since: SparkVersion, what: str, instead: str) -> None:
    """Refuse what this Spark does not have; the message says since when, and what to do instead.

    >>> require(SparkVersion.read("4.1.4"), SparkVersion(4, 0), "a gate", "leave it out")
    """
    if version < since:
        raise UnsupportedSpark(f"{what} needs Spark {since} or newer, and this is {version}: {instead}")
