"""Jars from a Maven repository, with no Maven installed.

They are resolved by the Ivy that Spark itself ships, run as a program of its own: it needs Java and
nothing else, starts no Spark session, and can pin each jar, which ``spark.jars.packages`` cannot. They
land in ``$HEADGATE_CACHE`` (``~/.cache/headgate``), once for all processes.

Where the jars cannot be had, `ArtifactsUnavailable` says why; tests turn that into a skip.

==========================  =====================================================================
``HEADGATE_CACHE``          the cache folder
``HEADGATE_IVY_SETTINGS``   an Ivy settings file, for a company's own artifact repository
``HEADGATE_OFFLINE=1``      use what the cache holds, resolve nothing
==========================  =====================================================================
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.errors import HeadgateError

__all__ = ["ArtifactsUnavailable", "cache_dir", "java", "java_server", "resolve", "spark_home"]

_failures: dict[str, ArtifactsUnavailable] = {}


class ArtifactsUnavailable(HeadgateError):
    """The jars are not in the cache and cannot be fetched now; ``reason`` is fit for a skip line."""

    def __init__(self, reason: str, *, repository_answers: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.repository_answers = repository_answers


def cache_dir() -> Path:
    """Where jars are kept: ``$HEADGATE_CACHE``, or ``~/.cache/headgate``."""
    return Path(os.environ.get("HEADGATE_CACHE") or Path.home() / ".cache" / "headgate").absolute()


def resolve(
    name: str, coordinates: Sequence[str], deadline: float, *, transitive: bool
) -> tuple[str, ...]:
    """The jars' paths, from the cache or from Ivy; one process resolves, the others wait for it."""
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:12]
    stamp = cache_dir() / "kafka" / f"{name}-{digest}.json"
    if jars := _stamped(stamp):
        return jars
    if digest in _failures:  # Asked twice in one run, told twice, tried once.
        raise _failures[digest]
    try:
        _recall_missing(stamp, coordinates[0])
        if os.environ.get("HEADGATE_OFFLINE") == "1":
            raise ArtifactsUnavailable(f"HEADGATE_OFFLINE=1 and {coordinates[0]} is not in the cache")
        stamp.parent.mkdir(parents=True, exist_ok=True)
        with _locked(stamp.parent / "lock", deadline):
            _recall_missing(stamp, coordinates[0])  # Another process may have asked while we waited.
            return _stamped(stamp) or _asked(stamp, coordinates, deadline, transitive)
    except ArtifactsUnavailable as error:
        _failures[digest] = error
        raise


def _asked(
    stamp: Path, coordinates: Sequence[str], deadline: float, transitive: bool
) -> tuple[str, ...]:
    """What Ivy finds; a release that the repository does not have is noted, whole or not at all."""
    try:
        return _run_ivy(stamp, coordinates, deadline, transitive)
    except ArtifactsUnavailable as error:
        if error.repository_answers:
            partial = stamp.with_suffix(f".{os.getpid()}.tmp")
            partial.write_text(error.reason)
            partial.replace(stamp.with_suffix(".missing"))
        raise


def _recall_missing(stamp: Path, wanted: str) -> None:
    """A release found missing is not asked for again for a day: asking costs seconds each run."""
    note = stamp.with_suffix(".missing")
    with suppress(FileNotFoundError):
        old = time.time() - note.stat().st_mtime > 86_400
        if not old or os.environ.get("HEADGATE_OFFLINE") == "1":
            # An earlier Headgate could leave the note empty.
            said = note.read_text() or f"the artifact repository answers but has no {wanted}"
            raise ArtifactsUnavailable(said, repository_answers=True)


def _stamped(stamp: Path) -> tuple[str, ...]:
    """The jars an earlier resolution left, or nothing when any of them is gone since."""
    try:
        jars = tuple(str(jar) for jar in json.loads(stamp.read_text()))
    except (OSError, ValueError):
        return ()
    return jars if all(Path(jar).is_file() for jar in jars) else ()


@contextmanager
def _locked(path: Path, deadline: float) -> Iterator[None]:
    with path.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ArtifactsUnavailable(
                        f"another process has been resolving jars for too long: see {path.parent}"
                    ) from None
                time.sleep(0.2)
        yield


def _run_ivy(
    stamp: Path, coordinates: Sequence[str], deadline: float, transitive: bool
) -> tuple[str, ...]:
    wanted = "master,runtime" if transitive else "master"
    dependencies = "".join(_dependency(c, wanted) for c in coordinates)
    module = stamp.with_suffix(".ivy.xml")
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="headgate" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    paths = stamp.with_suffix(".paths")
    command = [java(), "-jar", str(_ivy_jar()), "-ivy", str(module), "-confs", "default"]
    command += ["-cache", str(cache_dir() / "ivy"), "-cachepath", str(paths)]
    if settings := os.environ.get("HEADGATE_IVY_SETTINGS"):
        command += ["-settings", settings]
    left = max(1.0, deadline - time.monotonic())
    try:
        done = subprocess.run(
            command,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=left,
        )
    except subprocess.TimeoutExpired:
        raise ArtifactsUnavailable(f"resolving {coordinates[0]} took over {left:.0f} s") from None
    stamp.with_suffix(".log").write_text(done.stdout)
    jars = paths.read_text().strip().split(os.pathsep) if paths.exists() else []
    if done.returncode != 0 or not jars:
        raise _why(done.stdout, coordinates, stamp.with_suffix(".log"))
    partial = stamp.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(jars))
    partial.replace(stamp)
    return tuple(jars)


def _dependency(coordinate: str, wanted: str) -> str:
    """``group:name:version``, with a fourth part for a classifier: then that jar alone."""
    group, name, version, *classifier = coordinate.split(":")
    begun = f'<dependency org="{group}" name="{name}" rev="{version}" '
    if not classifier:
        return f'{begun}conf="default->{wanted}"/>'
    jar = f'<artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier[0]}"/>'
    return f'{begun}conf="default->*" transitive="false">{jar}</dependency>'


def _why(output: str, coordinates: Sequence[str], log: Path) -> ArtifactsUnavailable:
    """Tell "there is no such release here" from "there is no repository here"."""
    missing = re.findall(r":: (\S+?)#(\S+?);(\S+?): (?:not found|.*unresolved)", output)
    names = ", ".join(sorted({":".join(m) for m in missing})) or ", ".join(coordinates)
    if re.search(r"^\s*found \S+ in ", output, re.MULTILINE):
        return ArtifactsUnavailable(
            f"the artifact repository answers but has no {names}", repository_answers=True
        )
    return ArtifactsUnavailable(f"no artifact repository can be reached for {names} (log: {log})")


def spark_home() -> Path:
    """The folder of an installed Spark, found without importing pyspark, which is slow."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(o).parent for o in [spec.origin] if o] if spec else []
    homes += [Path(home) for home in [os.environ.get("SPARK_HOME")] if home]
    for home in homes:
        if (home / "jars").is_dir():
            return home
    raise ArtifactsUnavailable("no Spark with its jars is installed: pip install 'headgate[spark]'")


def _ivy_jar() -> Path:
    if found := sorted((spark_home() / "jars").glob("ivy-*.jar")):
        return found[-1]
    raise ArtifactsUnavailable(f"{spark_home() / 'jars'} has no ivy-*.jar: reinstall pyspark")


def java() -> str:
    """The Java that $JAVA_HOME or $PATH names."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    raise ArtifactsUnavailable("no java on PATH and JAVA_HOME is not set: install Java 17 or newer")


def java_server(least: str, most: str) -> list[str]:
    """How a small server of this machine is started: with a heap from `least` to `most`.

    $HEADGATE_SERVER_JAVA_OPTS are further options of its JVM: a run that starts many servers, each for a
    moment, does better with the simple compiler (``-XX:TieredStopAtLevel=1``).
    """
    return [
        java(),
        f"-Xms{least}",
        f"-Xmx{most}",
        *os.environ.get("HEADGATE_SERVER_JAVA_OPTS", "").split(),
    ]
