"""Kafka clients that say what is wrong once, to whoever asked, and nothing on standard error."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.testing.broker import Broker, BrokerFailed
from headgate.testing.kafka_client import client_settings
from headgate.testing.tied_server import free_ports


@pytest.fixture
def nobody() -> str:
    """An address at which nobody answers."""
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    (port,) = free_ports(count=1)
    return f"127.0.0.1:{port}"


def test_a_topic_at_a_broker_that_is_gone(
    nobody: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = Broker.__new__(Broker)  # one that was started, and whose process has died since
    gone.bootstrap, gone.log = nobody, tmp_path / "broker.log"
    with pytest.raises(
        BrokerFailed, match=r"topic 'rides' was not created: no answer in 1 s \(.*refused"
    ):
        gone.create_topic("rides", timeout=1.0)
    assert capfd.readouterr().err == ""


def test_the_first_thing_that_goes_wrong_is_what_is_told() -> None:
    heard: list[str] = []
    settings = client_settings("broker:9092", heard, **{"linger.ms": 5})
    for text in ("refused", "timed out"):
        settings["error_cb"](type("Error", (), {"str": lambda self, text=text: text})())
    assert heard == ["refused"]
    assert (settings["bootstrap.servers"], settings["linger.ms"]) == ("broker:9092", 5)
