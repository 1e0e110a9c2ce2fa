"""A batch's size from Spark's offset log, as Spark writes it; without a session."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.batch_size import OFFSETS
from headgate.errors import BadArgument
from headgate.policies import Uniform
from headgate.spark.backfill.offsets import BatchOffsets, file_rows, kafka_rows
from headgate.spark.checkpoint import (
    check_checkpoint,
    files_between,
    first_offsets,
    open_checkpoint,
    query_in,
)
from headgate.spark.gate.pin import resolver
from headgate.spark.gate.pin.batch_size import seconds_of_batch, sizes_of_batch
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.testing.clock import ManualClock
from tests.harness.object_stores import memory

__all__ = ["memory"]


def _log(checkpoint: Path, batch: int, *offsets: Any) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
    (folder / str(batch)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))


def _source(checkpoint: Path, name: str, text: str, index: int = 0) -> Path:
    folder = checkpoint / "sources" / str(index)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def _sizes(checkpoint: Path, batch: int) -> list[tuple[float, str]] | None:
    found = sizes_of_batch(checkpoint, batch)
    return None if found is None else [(size.units, size.unit) for size in found]


def test_a_checkpoint_is_given_as_spark_takes_it_or_refused_with_what_to_do(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert open_checkpoint(given) == tmp_path
    assert open_checkpoint("s3a://bucket/x") == ObjectPath("s3a://bucket", "x")
    with pytest.raises(BadArgument, match=r"hdfs://node/x.*cannot read: give a folder"):
        open_checkpoint("hdfs://node/x")


@pytest.mark.parametrize("given", ["s3a://key:geheim@bucket/x", "s3a://bucket/x?key=geheim"])
def test_a_checkpoint_with_credentials_in_its_address_is_refused_and_not_repeated(given: str) -> None:
    for take in (check_checkpoint, open_checkpoint):
        with pytest.raises(BadArgument, match=r"checkpoint='s3a://bucket/x'.*environment") as refused:
            take(given)
        assert "geheim" not in str(refused.value)
    assert check_checkpoint("abfss://c@account.dfs.core.windows.net/x").startswith("abfss://c@")


def test_kafka_counts_ends_minus_starts_over_all_partitions(tmp_path: Path) -> None:
    _log(tmp_path, 6, {"rides": {"0": 100, "1": 50}})
    _log(tmp_path, 7, {"rides": {"0": 160, "1": 50, "2": 7}})
    assert _sizes(tmp_path, 7) == [(67.0, OFFSETS)], "a partition that is new begins at 0"


def test_the_first_batch_of_a_topic_begins_where_the_source_says(tmp_path: Path) -> None:
    _log(tmp_path, 0, {"rides": {"0": 1000}})
    _source(tmp_path, "0", '\0v1\n{"rides":{"0":400}}')
    assert _sizes(tmp_path, 0) == [(600.0, OFFSETS)]


def test_sources_that_count_rows_or_steps(tmp_path: Path) -> None:
    _log(tmp_path, 0, {"offset": 50, "timestamp": 1})
    assert _sizes(tmp_path, 0) == [(50.0, OFFSETS)]
    _log(tmp_path, 1, {"offset": 150, "timestamp": 2}, 4, {"offset": 1_700_000_000_000})
    _log(tmp_path, 2, {"offset": 151, "timestamp": 3}, 6, {"offset": 1_700_000_000_500})
    assert _sizes(tmp_path, 2) == [(1.0, OFFSETS), (2.0, "steps"), (500.0, "steps")]


@pytest.mark.parametrize("end", [7, {"offset": 1_700_000_000_000}])
def test_where_steps_begin_is_not_known(tmp_path: Path, end: Any) -> None:
    """A source may count from the year 1970: a first batch would be taken for larger than it is."""
    _log(tmp_path, 0, end)
    assert _sizes(tmp_path, 0) is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ({"t": {"0": 1_000_000, "1": 0}}, {"t": {"0": 0, "1": 500_000}}),  # the topic was made anew
        ({"t": {"0": 5}}, {"t": {"0": 9}, "new": {"0": 5_000_000}}),  # it joined by its pattern
        (9, 4),
        ({"offset": 9, "timestamp": 1}, {"offset": 4, "timestamp": 2}),
    ],
)
def test_offsets_that_go_back_or_begin_anywhere_say_nothing(
    tmp_path: Path, start: Any, end: Any
) -> None:
    _log(tmp_path, 3, start)
    _log(tmp_path, 4, end)
    assert _sizes(tmp_path, 4) is None


def test_a_source_that_has_nothing_yet(tmp_path: Path) -> None:
    _log(tmp_path, 0, None, {"offset": 5, "timestamp": 1})
    assert _sizes(tmp_path, 0) == [(0.0, OFFSETS), (5.0, OFFSETS)]


def _entry(path: Path, batch: int, scheme: str = "file://") -> str:
    return json.dumps({"path": f"{scheme}{path}".replace(" ", "%20"), "timestamp": 1, "batchId": batch})


def test_files_are_their_bytes(tmp_path: Path) -> None:
    names = [tmp_path / f"a file {n}" for n in range(3)]
    for n, name in enumerate(names):
        name.write_bytes(b"x" * 10 * (n + 1))
    _log(tmp_path, 3, {"logOffset": 1})
    _log(tmp_path, 4, {"logOffset": 3})
    _source(tmp_path, "2", "v1\n" + _entry(names[0], 2))
    _source(tmp_path, "3", "v1\n" + _entry(names[1], 3) + "\n" + _entry(names[2], 3))
    assert _sizes(tmp_path, 4) == [(60.0, "bytes")]
    names[1].unlink()
    assert _sizes(tmp_path, 4) == [(3.0, "files")], "what cannot be looked at can be counted"


def test_files_in_a_compacted_log(tmp_path: Path) -> None:
    names = [tmp_path / str(n) for n in range(4)]
    for name in names:
        name.write_bytes(b"xx")
    _log(tmp_path, 8, {"logOffset": 8})
    _log(tmp_path, 9, {"logOffset": 10})
    lines = [_entry(name, batch) for name, batch in zip(names, (3, 7, 9, 9), strict=True)]
    _source(tmp_path, "9.compact", "\n".join(["v1", *lines]))
    _source(tmp_path, "10", "v1\n" + _entry(names[3], 10))
    assert _sizes(tmp_path, 9) == [(6.0, "bytes")], "two files of batch 9 and one of batch 10"


def test_an_old_batch_is_in_the_next_compacted_log(tmp_path: Path) -> None:
    """Spark removes the single files after a while: a backfill of weeks ago finds them here."""
    names = [tmp_path / str(n) for n in range(30)]
    lines = [_entry(name, batch) for batch, name in enumerate(names[:20])]
    _source(tmp_path, "9.compact", "\n".join(["v1", *lines[:10]]))
    _source(tmp_path, "19.compact", "\n".join(["v1", *lines]) + "\n")
    found = files_between(tmp_path, 0, {"logOffset": 3}, {"logOffset": 6})
    assert [int(entry["batchId"]) for entry in found] == [4, 5, 6]
    with pytest.raises(OSError, match="25"):
        files_between(tmp_path, 0, {"logOffset": 24}, {"logOffset": 25})


def test_a_long_log_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [_entry(tmp_path / str(n), n) for n in range(5_000)]
    _source(tmp_path, "4999.compact", "\n".join(["v1", *lines]))
    read: list[int] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: read.append(1) or loads(text))
    found = files_between(tmp_path, 0, {"logOffset": 4996}, {"logOffset": 4999})
    assert [int(entry["batchId"]) for entry in found] == [4997, 4998, 4999]
    assert len(read) < 10


def test_some_of_very_many_files_stand_for_the_others(tmp_path: Path) -> None:
    name = tmp_path / "one"
    name.write_bytes(b"x" * 7)
    _log(tmp_path, 0, {"logOffset": 0})
    _source(tmp_path, "0", "\n".join(["v1", *[_entry(name, 0)] * 2_500]))
    assert _sizes(tmp_path, 0) == [(7.0 * 2_500, "bytes")]


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ({"sourceVersion": 1, "reservoirVersion": 7}, None),
        ("text", None),
        (None, "v2\n{}\n5"),
        (None, "v1"),
        (None, "v1\n{}\n{torn"),
    ],
)
def test_what_nobody_knows_has_no_size(tmp_path: Path, end: Any, text: str | None) -> None:
    _log(tmp_path, 4, {"offset": 5, "timestamp": 1})
    _log(tmp_path, 5, end)
    if text is not None:
        (tmp_path / "offsets" / "5").write_text(text)
    assert _sizes(tmp_path, 5) is None


def test_no_log_no_size(tmp_path: Path) -> None:
    assert _sizes(tmp_path, 5) is None
    _log(tmp_path, 5, {"offset": 5})
    assert _sizes(tmp_path, 5) is None, "the batch before it is not known"


def test_a_checkpoint_names_its_query(tmp_path: Path) -> None:
    assert query_in(tmp_path) is None
    (tmp_path / "metadata").write_text('{"id":"8c2d04fb"}')
    assert query_in(tmp_path) == "8c2d04fb"
    (tmp_path / "metadata").write_text("torn")
    assert query_in(tmp_path) is None


def test_a_folder_that_is_no_checkpoint_is_refused_at_the_call(tmp_path: Path) -> None:
    assert check_checkpoint(tmp_path) == str(tmp_path), "an empty one may become one"
    assert check_checkpoint(tmp_path / "later") == str(tmp_path / "later")
    assert check_checkpoint("s3a://bucket/later") == "s3a://bucket/later"
    (tmp_path / "rows.parquet").write_text("")
    with pytest.raises(BadArgument, match="neither metadata nor offsets"):
        check_checkpoint(tmp_path)
    with pytest.raises(BadArgument, match="neither metadata nor offsets"):
        check_checkpoint(tmp_path / "rows.parquet")
    for nothing in ("", 5):
        with pytest.raises(BadArgument, match="checkpointLocation"):
            check_checkpoint(nothing)  # type: ignore[arg-type]
    (tmp_path / "metadata").write_text("{}")
    assert check_checkpoint(tmp_path) == str(tmp_path)


def test_the_time_that_a_batch_covers_is_in_the_log(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch, told in enumerate(
        ('{"batchTimestampMs":1000}', '{"batchTimestampMs":3500}', "{}", '{"batchTimestampMs":1}', "[]")
    ):
        (offsets / str(batch)).write_text(f"v1\n{told}\n7\n")
    assert seconds_of_batch(tmp_path, 1) == 2.5
    assert seconds_of_batch(tmp_path, 0) is None, "nobody knows when the first one's rows began"
    assert seconds_of_batch(tmp_path, 2) is None, "it is not told"
    assert seconds_of_batch(tmp_path, 4) is None, "no log of a kind that is known here"
    assert seconds_of_batch(tmp_path, 9) is None
    (offsets / "2").write_text('v1\n{"batchTimestampMs":9000}\n7\n')
    assert seconds_of_batch(tmp_path, 2) == 5.5
    assert seconds_of_batch(tmp_path, 3) is None, "a clock that went back"


# ------------------------------------------------------------------------------- in an object store


def test_a_checkpoint_in_an_object_store_tells_the_same(memory: ObjectPath) -> None:
    store = store_of(memory)

    def put(name: str, text: str) -> None:
        store.put(memory / name, text.encode())

    put("metadata", '{"id":"q"}')
    put("offsets/6", 'v1\n{}\n{"rides":{"0":100}}\n{"logOffset":3}')
    put("offsets/7", 'v1\n{}\n{"rides":{"0":160}}\n{"logOffset":5}')
    put("sources/0/0", '\0v1\n{"rides":{"0":40}}')
    entries = [json.dumps({"path": f"s3a://b/{n}", "timestamp": 1, "batchId": n}) for n in range(6)]
    put("sources/1/4.compact", "\n".join(["v1", *entries[:5]]))
    put("sources/1/5", "\n".join(["v1", entries[5]]))
    assert query_in(memory) == "q"
    found = sizes_of_batch(memory, 7)
    assert found is not None
    assert [(size.units, size.unit) for size in found] == [(60.0, OFFSETS), (2.0, "files")]
    assert first_offsets(memory, 0) == {"rides": {"0": 40}}
    assert sizes_of_batch(memory, 9) is None
    store.put(memory / "metadata", b'{"id":"another"}')
    assert query_in(memory) == "another", "what did not fit is looked at again"


def test_a_first_batch_waits_shortly_for_its_checkpoint_however_long_a_look_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    looks: list[float] = []

    def look(*_: object) -> tuple[None, str]:
        clock.sleep(0.1)  # two requests to an object store
        looks.append(clock())
        return None, ""

    monkeypatch.setattr(resolver, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    monkeypatch.setattr(resolver.SizedBatches, "_look", look)
    found = resolver.Resolver(Uniform()).checkpoint_of(tmp_path, "q", wait=True)
    assert found == (None, "")
    assert 2 <= len(looks) <= 4


def test_a_reader_of_another_source_than_the_querys_is_refused_with_what_to_give(tmp_path: Path) -> None:
    by_rate, by_topic = BatchOffsets(3, (4,), (13,)), BatchOffsets(3, ({},), ({"t": {"0": 5}},))
    of_topic = kafka_rows(None, {"subscribe": "t"})  # type: ignore[arg-type]
    of_files = file_rows(lambda paths: pytest.fail("nothing is read"), tmp_path)
    for reader, batch in ((of_topic, by_rate), (of_files, by_rate), (of_files, by_topic)):
        with pytest.raises(BadArgument, match=r"of batch 3 is no .* source.*function of your own"):
            reader(batch)
    with pytest.raises(BadArgument, match=r"source=1: batch 3 has 1 source"):
        file_rows(lambda paths: pytest.fail("nothing is read"), tmp_path, source=1)(by_topic)
