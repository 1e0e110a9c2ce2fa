"""A server that is waited for: one that serves, one that ends, one that never gets ready."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate.testing.tied_server import ServerFailed, TiedServer, free_ports

pytestmark = pytest.mark.slow  # processes that are waited for

SERVES = "import os, time; print(os.getcwd(), os.environ['WHOSE'], flush=True); time.sleep(600)"


def test_a_server_runs_in_its_folder_and_environment_until_its_block_ends(tmp_path: Path) -> None:
    server = TiedServer(
        [sys.executable, "-c", SERVES], tmp_path / "log", folder=tmp_path, environment={"WHOSE": "mine"}
    )
    with server:
        server.await_ready(lambda: server.has_said("mine"), 60.0)
        assert server.running
        assert server.has_said(str(tmp_path))
    assert not server.running
    server.stop()  # again: nothing to do


def test_a_server_that_ends_shows_its_log(tmp_path: Path) -> None:
    server = TiedServer([sys.executable, "-c", "raise SystemExit('no disk')"], tmp_path / "log")
    with pytest.raises(ServerFailed, match=r"ended with code 1; the end of .*\n.*no disk"):
        server.await_ready(lambda: False, 60.0)


def test_a_server_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    server = TiedServer([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    with pytest.raises(ServerFailed, match=r"not up in 0\.2 s"):
        server.await_ready(lambda: False, 0.2)
    assert not server.running


def test_a_killed_server_is_gone_at_once(tmp_path: Path) -> None:
    server = TiedServer([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    server.kill()
    assert not server.running


_LISTENS = """
import socket, sys, time
held = bytearray(1 << 28)  # memory that takes a moment to give back
taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
time.sleep(600)
"""


def test_a_successor_can_have_the_port_of_a_killed_server(tmp_path: Path) -> None:
    (port,) = free_ports(count=1)
    for turn in range(3):
        log = tmp_path / f"log-{turn}"
        server = TiedServer([sys.executable, "-c", _LISTENS, str(port)], log)
        server.await_ready(lambda server=server: server.has_said("listens"), 60.0)
        server.kill()
        assert free_ports(port, count=1) == [port]


def test_ports_differ_and_a_taken_one_is_named() -> None:
    ports = free_ports(count=5)
    assert len(set(ports)) == 5
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=rf"port {port} of 127.0.0.1 is taken .*--port 0"):
            free_ports(port)
