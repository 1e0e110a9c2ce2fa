"""Offsets in a ledger that somebody changed: refused in words, and never handed to Spark as they are."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.plan import KEEP_ALL
from headgate.errors import BadArgument, HeadgateError
from headgate.spark.backfill.offsets import (
    BatchOffsets,
    kafka_rows,
    offsets_in_record,
    rows_between,
)
from headgate.store.ledger.record import Record
from tests.hostile import VALUES, mangled

_SOURCE = {
    "description": "KafkaV2[Subscribe[rides]]",
    "startOffset": {"rides": {"0": 5, "1": 7}},
    "endOffset": {"rides": {"0": 9, "1": 7}},
}


class _Reader:
    """In Spark's place: takes options, and says what it was given."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    read = property(lambda self: self)

    def format(self, _: str) -> _Reader:
        return self

    def options(self, **more: str) -> _Reader:
        self.given |= more
        return self

    def option(self, name: str, value: str) -> _Reader:
        self.given[name] = value
        return self

    def load(self) -> dict[str, str]:
        return self.given


@given(mangled(_SOURCE) | st.sampled_from(VALUES))
def test_a_range_of_kafka_is_topics_partitions_and_numbers_or_refused(source: Any) -> None:
    sources = [source] if isinstance(source, dict) else []
    record = Record("rides", "q", 1, 1, 1, 0, KEEP_ALL, offsets=sources)
    if isinstance(source, dict):
        rows = rows_between(source)
        assert rows is None or type(rows) is int
    with contextlib.suppress(HeadgateError):
        spark: Any = _Reader()
        given: Any = kafka_rows(spark, {"kafka.bootstrap.servers": "here"})(offsets_in_record(record))
        for name in ("startingOffsets", "endingOffsets"):
            for parts in json.loads(given[name]).values():
                assert all(p.isdecimal() and type(n) is int for p, n in parts.items())
        assert given.keys() == {
            *("kafka.bootstrap.servers", "assign", "startingOffsets", "endingOffsets", "failOnDataLoss")
        }


@pytest.mark.parametrize(
    "end", [{"t": {"x": 1}}, {"t": {"0": "1"}}, {"t": {"0": True}}, {"t": 5}, 7, "x"]
)
def test_what_is_no_place_in_a_topic_is_refused(end: Any) -> None:
    spark: Any = _Reader()
    with pytest.raises(BadArgument, match="is no Kafka source"):
        kafka_rows(spark, {})(BatchOffsets(1, ({"t": {"0": 1}},), (end,)))
    with pytest.raises(BadArgument, match="no place in a topic"):
        kafka_rows(spark, {})(BatchOffsets(1, (end,), ({"t": {"0": 1}},)))
