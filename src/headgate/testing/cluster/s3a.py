"""Spark's way to an S3 server: Hadoop's S3A with the few modules of Amazon's client that it calls.

``hadoop-aws`` asks for Amazon's bundle of some 600 MB. S3A itself needs `s3`, the transfer manager,
`sts` and one HTTP client of it, 19 MB, beside what Spark ships.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from headgate.testing.artifacts import resolve, spark_home

__all__ = ["s3a_conf", "s3a_jars"]

_HADOOP = "org.apache.hadoop:hadoop-aws"
#: What S3A's own classes name, whether it is used or not.
_NAMED = (
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    "org.wildfly.openssl:wildfly-openssl:2.2.5.Final",
)
_CLIENT = tuple(
    f"software.amazon.awssdk:{name}:2.35.4"
    for name in ("s3", "s3-transfer-manager", "sts", "apache-client")
)
#: Spark has its own way of logging; what else it ships is left out by name.
_NOT_NEEDED = re.compile(r"^(slf4j-|log4j-|jcl-over|commons-logging)")


def s3a_jars(timeout: float = 300.0) -> list[str]:
    """The jars, from the cache or from a Maven repository; ArtifactsUnavailable says why not."""
    deadline = time.monotonic() + timeout
    shipped = {_module(jar.name) for jar in (spark_home() / "jars").glob("*.jar")}
    coordinates = (f"{_HADOOP}:{_hadoop_version()}", *_NAMED)
    hadoop = resolve("hadoop-aws", coordinates, deadline, transitive=False)
    client = resolve("aws-client", _CLIENT, deadline, transitive=True)
    wanted = [jar for jar in client if not _NOT_NEEDED.match(Path(jar).name)]
    return [*hadoop, *(jar for jar in wanted if _module(Path(jar).name) not in shipped)]


def s3a_conf(endpoint: str) -> dict[str, str]:
    """The settings with which a session finds the server at `endpoint` under ``s3a://``."""
    given = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "test",
        "secret.key": "test",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "bucket.probe": "0",
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items()}


def _hadoop_version() -> str:
    (jar,) = (spark_home() / "jars").glob("hadoop-client-api-*.jar")
    return _parts(jar.name)[1]


def _module(jar: str) -> str:
    return _parts(jar)[0]


def _parts(jar: str) -> tuple[str, str]:
    """A jar's name and its version.

    >>> _parts("hadoop-client-api-3.5.0.jar"), _parts("http-auth-aws-2.35.4.jar")
    (('hadoop-client-api', '3.5.0'), ('http-auth-aws', '2.35.4'))
    """
    found = re.match(r"(.+?)-(\d[\w.\-]*)\.jar$", jar)
    return (found[1], found[2]) if found else (jar.removesuffix(".jar"), "")
