"""A real Kafka broker and Spark's Kafka connector, from Maven artifacts, with no Maven installed.

The jars are resolved by the Ivy that Spark itself ships, run as a program of its own: it needs
Java and nothing else, starts no Spark session, and can pin each jar, which ``spark.jars.packages``
cannot. They land in ``$HEADGATE_CACHE`` (``~/.cache/headgate``), once for all processes.

Where the jars cannot be had, `ArtifactsUnavailable` says why; tests turn that into a skip.

==========================  =====================================================================
``HEADGATE_CACHE``          the cache folder
``HEADGATE_IVY_SETTINGS``   an Ivy settings file, for a company's own artifact repository
``HEADGATE_OFFLINE=1``      use what the cache holds, resolve nothing
==========================  =====================================================================
"""

from __future__ import annotations

import atexit
import base64
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headgate.errors import BadArgument, HeadgateError, MissingExtra
from headgate.testing.tied_process import kill_tied, start_tied

__all__ = [
    "CONNECTOR",
    "KAFKA_VERSION",
    "Artifacts",
    "ArtifactsUnavailable",
    "Broker",
    "BrokerFailed",
    "cache_dir",
    "connector",
    "connector_jars",
    "packages_conf",
]

#: The connector that belongs to the Spark this library is built for.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"

#: The kafka-clients version that connector is built with, so the broker's version too.
KAFKA_VERSION = "3.9.2"

_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_CLIENT = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.apache.commons:commons-pool2:2.13.1",
)
#: What the connector needs and Spark does not ship; each jar alone, so nothing Spark has comes twice.
_MATCHING = (CONNECTOR, f"{_TOKENS}:4.3.0", *_CLIENT)
#: Used, and said so, only where the repository answers but lacks the matching release: mirrors lag.
_STAND_IN = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", f"{_TOKENS}:4.0.0", *_CLIENT)
_BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")

_failures: dict[str, ArtifactsUnavailable] = {}


class ArtifactsUnavailable(HeadgateError):
    """The jars are not in the cache and cannot be fetched now; ``reason`` is fit for a skip line."""

    def __init__(self, reason: str, *, repository_answers: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.repository_answers = repository_answers


class BrokerFailed(HeadgateError):
    """The broker did not start (the message ends with the tail of its log), or refused a request."""


@dataclass(frozen=True)
class Artifacts:
    """Resolved jars. ``stand_in`` is empty, or says which release is missing and what replaces it."""

    jars: tuple[str, ...]
    stand_in: str = ""

    def spark_conf(self) -> dict[str, str]:
        """The settings a session must be BUILT with; a running one cannot take the connector."""
        return {"spark.jars": ",".join(self.jars)}


def cache_dir() -> Path:
    """Where jars are kept: ``$HEADGATE_CACHE``, or ``~/.cache/headgate``."""
    return Path(os.environ.get("HEADGATE_CACHE") or Path.home() / ".cache" / "headgate").absolute()


def packages_conf() -> dict[str, str]:
    """The settings with which Spark resolves the connector by itself, as a deployed job would."""
    return {"spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(cache_dir() / "spark-ivy")}


def connector(timeout: float = 120.0) -> Artifacts:
    """Spark's Kafka connector; the matching release, or a stand-in that its ``stand_in`` names."""
    deadline = time.monotonic() + timeout
    try:
        return Artifacts(_resolve("connector", _MATCHING, deadline, transitive=False))
    except ArtifactsUnavailable as missing:
        if not missing.repository_answers:
            raise
        jars = _resolve("connector-stand-in", _STAND_IN, deadline, transitive=False)
        return Artifacts(jars, f"{missing.reason}; using {_STAND_IN[0]} with {_STAND_IN[1]} instead")


def connector_jars(timeout: float = 120.0) -> tuple[list[str] | None, str]:
    """The connector's jars and a remark, or None and the reason; never raises, bounded in time.

    Call it before a session is built: ``spark.jars`` cannot be added to a running one.
    """
    try:
        found = connector(timeout)
    except ArtifactsUnavailable as error:
        return None, error.reason
    return list(found.jars), found.stand_in


def _resolve(
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
        _recall_missing(stamp)
        if os.environ.get("HEADGATE_OFFLINE") == "1":
            raise ArtifactsUnavailable(f"HEADGATE_OFFLINE=1 and {coordinates[0]} is not in the cache")
        stamp.parent.mkdir(parents=True, exist_ok=True)
        with _locked(stamp.parent / "lock", deadline):
            _recall_missing(stamp)  # Another process may have asked while we waited.
            return _stamped(stamp) or _run_ivy(stamp, coordinates, deadline, transitive)
    except ArtifactsUnavailable as error:
        _failures[digest] = error
        if error.repository_answers:
            stamp.with_suffix(".missing").write_text(error.reason)
        raise


def _recall_missing(stamp: Path) -> None:
    """A release found missing is not asked for again for a day: asking costs seconds each run."""
    note = stamp.with_suffix(".missing")
    with suppress(FileNotFoundError):
        old = time.time() - note.stat().st_mtime > 86_400
        if not old or os.environ.get("HEADGATE_OFFLINE") == "1":
            raise ArtifactsUnavailable(note.read_text(), repository_answers=True)


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
    command = [_java(), "-jar", str(_ivy_jar()), "-ivy", str(module), "-confs", "default"]
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


def _ivy_jar() -> Path:
    """Spark's Ivy, found without importing pyspark, which would be slow and is not needed."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(o).parent for o in [spec.origin] if o] if spec else []
    homes += [Path(home) for home in [os.environ.get("SPARK_HOME")] if home]
    for home in homes:
        if found := sorted((home / "jars").glob("ivy-*.jar")):
            return found[-1]
    raise ArtifactsUnavailable("no Spark with its jars is installed: pip install 'pyspark>=4.3,<4.4'")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        return found
    raise ArtifactsUnavailable("no java on PATH and JAVA_HOME is not set: install Java 17 or newer")


class Broker:
    """One KRaft node, broker and controller in one, that listens on 127.0.0.1 only.

    ``Broker.start(folder)`` returns when the node takes requests. The node ends with the process that
    started it, even if that is killed. A folder that already holds a
    node's data is opened again with its topics, so a crash can be played.
    """

    def __init__(self, process: subprocess.Popen[bytes], bootstrap: str, log: Path) -> None:
        self.bootstrap = bootstrap
        self.log = log
        self._process = process
        atexit.register(self.stop)

    @classmethod
    def start(cls, data_dir: str | Path, port: int = 0, *, timeout: float = 60.0) -> Self:
        """Format ``data_dir`` if it is new, start the node on ``port`` (0: any free one)."""
        if not 0 <= port <= 65535:
            raise BadArgument(f"port={port} is outside [0, 65535]: give 0 for any free port")
        jars = _resolve("broker", _BROKER, time.monotonic() + 300.0, transitive=True)
        folder = Path(data_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        port, controller = _free_ports(port)
        properties = folder / "server.properties"
        properties.write_text(_properties(folder / "data", port, controller))
        log = folder / "broker.log"
        java = [_java(), "-Xms64m", "-Xmx256m", "-cp", os.pathsep.join(jars)]
        with log.open("wb") as sink:
            if not (folder / "data" / "meta.properties").exists():
                cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
                # With an equals sign: an id may begin with a dash.
                chosen = [f"--cluster-id={cluster}", f"--config={properties}"]
                storage = ["kafka.tools.StorageTool", "format", *chosen]
                done = subprocess.run([*java, *storage], check=False, stdout=sink, stderr=sink)
                if done.returncode != 0:
                    raise BrokerFailed(f"cannot format {folder / 'data'}:\n{_tail(log)}")
            process = start_tied([*java, "kafka.Kafka", str(properties)], sink)
        broker = cls(process, f"127.0.0.1:{port}", log)
        broker._await_ready(timeout)
        return broker

    def _await_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while b"Kafka Server started" not in self.log.read_bytes():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.stop()
                what = f"ended with code {code}" if code is not None else f"not up in {timeout:g} s"
                raise BrokerFailed(f"broker {what}; the end of {self.log}:\n{_tail(self.log)}")
            time.sleep(0.1)

    def create_topic(self, name: str, partitions: int = 1, *, timeout: float = 30.0) -> bool:
        """Create a topic and wait until it is there; False, and nothing done, if it was before."""
        if partitions < 1:
            raise BadArgument(f"partitions={partitions} of topic {name!r}: give 1 or more")
        try:
            from confluent_kafka import KafkaError, KafkaException
            from confluent_kafka.admin import AdminClient
            from confluent_kafka.cimpl import NewTopic
        except ImportError:
            raise MissingExtra("confluent-kafka", "kafka") from None
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise BrokerFailed(f"topic {name!r} was not created: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise BrokerFailed(
                f"topic {name!r} was not created: no answer in {timeout:g} s; see {self.log}"
            ) from error
        return True

    @property
    def running(self) -> bool:
        """Whether the node's process is alive."""
        return self._process.poll() is None

    def stop(self, timeout: float = 20.0) -> None:
        """Stop in order, and by force after ``timeout``; safe to call again."""
        atexit.unregister(self.stop)
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
                return
            kill_tied(self._process)
            self._process.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _properties(data: Path, port: int, controller: int) -> str:
    """The smallest configuration of a node alone: one replica of everything, few threads."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "num.network.threads": "2",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _free_ports(port: int) -> tuple[int, int]:
    """``port`` (or a free one) and a free one beside it; both held open together, so they differ."""
    with socket.socket() as first, socket.socket() as second:
        for opened, wanted in ((first, port), (second, 0)):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                opened.bind(("127.0.0.1", wanted))
            except OSError as error:
                raise BrokerFailed(f"port {wanted} of 127.0.0.1 is taken ({error}): give 0") from None
        return first.getsockname()[1], second.getsockname()[1]


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
