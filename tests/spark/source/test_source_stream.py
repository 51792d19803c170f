"""The stream of changes: what differs between two looks, exactly once, also when a batch is repeated."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.source import register
from airflow_kafka_groups.spark.source.options import SOURCE_COLUMNS, SourceOptions
from airflow_kafka_groups.spark.source.reader import Chunk, PushedFilters, select
from airflow_kafka_groups.spark.source.stream import Bucket, ChangesReader, ChangeState, changes
from airflow_kafka_groups.storage.schemas import arrow_schema
from tests.histories.shorthand import hour
from tests.lab.cluster import KafkaCluster
from tests.lab.spark.jars import MINOR
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics
from tests.pages import ROOT

# Spark gives each batch's Python process ten seconds to connect, and has no setting for it.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(240), pytest.mark.flaky(reruns=4, reruns_delay=20)]

PREFIX = "sparkstream-"
TOPIC = "sparkstream-t"
NOTHING = Chunk("c", select([], GroupFilter(), PushedFilters()))


def look(*commits: tuple[str, int, int, int | None, str]) -> Any:
    """Make what a batch saw: (group, partition, offset, leader epoch, metadata)."""
    row: dict[str, Any] = dict.fromkeys(column.name for column in SOURCE_COLUMNS)
    row |= {"observed_at": hour(0), "state": "Empty", "topic": "t", "group_type": "classic", "protocol_type": ""}
    names = ("group_id", "partition", "committed_offset", "leader_epoch", "metadata")
    rows = [row | dict(zip(names, commit, strict=True)) for commit in commits]
    return pa.Table.from_pylist(rows, schema=arrow_schema(SOURCE_COLUMNS))


def compared(before: Any, now: Any) -> set[tuple[Any, ...]]:
    names = ("change", "group_id", "partition", "previous_offset", "committed_offset")
    return {tuple(row[name] for name in names) for batch in changes(before, now) for row in batch.to_pylist()}


def test_changes_are_new_moved_and_removed_commits_and_nothing_else() -> None:
    before = look(("same", 0, 5, None, ""), ("moved", 0, 5, None, ""), ("back", 1, 5, 3, ""), ("gone", 0, 5, None, ""))
    now = look(("same", 0, 5, None, ""), ("moved", 0, 9, None, ""), ("back", 1, 2, 3, ""), ("new", 0, 1, None, ""))
    assert compared(before, now) == {
        ("moved", "moved", 0, 5, 9),
        ("moved", "back", 1, 5, 2),
        ("removed", "gone", 0, 5, 5),
        ("new", "new", 0, None, 1),
    }
    assert compared(now, now) == set()
    assert compared(look(("g", 0, 5, None, "")), look(("g", 0, 5, 1, ""))) == {("moved", "g", 0, 5, 5)}
    assert compared(look(("g", 0, 5, None, "")), look(("g", 0, 5, None, "m"))) == {("moved", "g", 0, 5, 5)}
    assert compared(look(), look()) == set()


NEEDS_POSITION = pytest.mark.skipif(MINOR == "4.1", reason="Spark 4.2 is the first that says where a stream is")


@NEEDS_POSITION
def test_a_query_gives_each_change_once_over_its_restarts(
    spark: SparkSession, kafka44: KafkaCluster, tmp_path: Path
) -> None:
    register(spark)
    prefix = f"{PREFIX}{uuid4().hex[:6]}-"  # a try that ended early has left its groups
    create_topics(kafka44.bootstrap, {TOPIC: 2})
    committed = {f"{prefix}{name}": {(TOPIC, 0): 1, (TOPIC, 1): 2} for name in "abc"}
    commit_offsets(kafka44.bootstrap, committed)

    def run_query() -> list[tuple[Any, ...]]:
        changed = (
            spark.readStream.format("kafka_groups")
            .option("kafka.bootstrap.servers", kafka44.bootstrap)
            .option("include", f"{prefix}*")
            .option("with.lag", "false")
            .option("state.path", str(tmp_path / "state"))
            .load()
        )
        writer = changed.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "out")).select(
            "change", "group_id", "partition", "previous_offset", "committed_offset"
        )
        return sorted(tuple(row) for row in rows.collect())

    first = sorted(("new", group, partition, None, partition + 1) for group in committed for partition in (0, 1))
    assert run_query() == first
    commit_offsets(kafka44.bootstrap, {f"{prefix}a": {(TOPIC, 1): 7}, f"{prefix}d": {(TOPIC, 0): 4}})
    asyncio.run(delete(kafka44.bootstrap, f"{prefix}c"))
    second = [
        ("moved", f"{prefix}a", 1, 2, 7),
        ("new", f"{prefix}d", 0, None, 4),
        ("removed", f"{prefix}c", 0, 1, 1),
        ("removed", f"{prefix}c", 1, 2, 2),
    ]
    assert run_query() == sorted(first + second)


@NEEDS_POSITION
def test_the_examples_of_the_documentation_run(
    spark: SparkSession, kafka44: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "spark" / "source.md").read_text()
    names: dict[str, Any] = {"spark": spark}
    for example in ("source_example", "stream_example"):
        found = re.search(rf"<!-- START {example} -->\n```python\n(.*?)```", text, re.DOTALL)
        assert found, f"docs/spark/source.md has lost its {example}"
        code = found[1].replace("broker1:9092", kafka44.bootstrap).replace("/streams/app", str(tmp_path))
        exec(compile(code, example, "exec"), names)
    assert "sum(lag)" in capsys.readouterr().out
    query, deadline = names["query"], time.monotonic() + 120
    try:
        while query.lastProgress is None and query.isActive and time.monotonic() < deadline:
            time.sleep(0.2)
        assert query.exception() is None
        assert query.lastProgress is not None
    finally:
        query.stop()


async def delete(bootstrap: str, group_id: str) -> None:
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        (await admin.delete_consumer_groups([group_id])).raise_for_errors()


def test_a_folder_that_an_executor_does_not_share_is_refused(tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "state.path": str(tmp_path)}
    bucket = Bucket(0, {"batch": 1, "buckets": 1}, {"batch": 2, "buckets": 1}, NOTHING)
    with pytest.raises(ConfigurationError, match=r"state\.path .*batch 1 saw is not there for .*: give a storage that"):
        ChangesReader(SourceOptions.parse(options)).read(bucket)


def test_a_stream_needs_a_folder_and_a_batch_must_not_have_one(spark: SparkSession) -> None:
    register(spark)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match=r"state\.path.*a stream needs a folder"):
        ChangesReader(SourceOptions.parse(options))
    with pytest.raises(PySparkException, match=r"state\.path.*is for readStream"):
        spark.read.format("kafka_groups").options(**options, **{"state.path": "/s"}).load().collect()


@pytest.mark.safety
def test_two_attempts_of_a_task_return_and_keep_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A speculative task, or an executor that was given up and lives: both look, and the group moves in between."""
    options = SourceOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "state.path": str(tmp_path)})
    both, first_is_done = threading.Barrier(2), threading.Event()
    bucket = Bucket(0, {"batch": 0}, {"batch": 1, "buckets": 2}, NOTHING)

    def attempt(offset: int) -> list[int]:
        reader = ChangesReader(options)

        def looks(*_: Any) -> Any:
            both.wait(10)
            if offset == 12:
                first_is_done.wait(10)
            return look(("g", 0, offset, None, ""))

        monkeypatch.setattr(reader, "_look", looks)
        found = [row["committed_offset"] for part in reader.read(bucket) for row in part.to_pylist()]
        first_is_done.set()
        return found

    with ThreadPoolExecutor() as threads:
        found = list(threads.map(attempt, (10, 12)))
    (kept,) = ChangeState(str(tmp_path)).load(0, {"batch": 1}).to_pylist()
    assert found == [[10], [10]], "the move to 12 is of the next batch"
    assert kept["committed_offset"] == 10


FIRST = {"batch": 1}


class Slow(fs.LocalFileSystem):  # type: ignore[misc]  # Arrow has no types
    """A file system on which another task saves right after one has looked whether there is a file."""

    other: Callable[[], None] | None = None

    def get_file_info(self, path: Any) -> Any:
        found, other = super().get_file_info(path), self.other
        self.other = None
        if other is not None:
            other()
        return found


@pytest.mark.safety
def test_a_task_that_looked_before_another_one_saved_does_not_replace_what_that_one_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = ChangeState(tmp_path.as_uri()), ChangeState(tmp_path.as_uri())
    returned: list[Any] = []
    slow = Slow()
    slow.other = lambda: returned.append(others.save(0, FIRST, look(("g", 0, 12, None, ""))))
    monkeypatch.setattr(mine, "_place", lambda *parts: (slow, "/".join((str(tmp_path), *parts))))
    returned.append(mine.save(0, FIRST, look(("g", 0, 10, None, ""))))
    kept = others.load(0, FIRST)
    assert [each["committed_offset"].to_pylist() for each in returned] == [kept["committed_offset"].to_pylist()] * 2


@pytest.mark.safety
@pytest.mark.parametrize("folder", ["s3a://bucket/state", "dbfs:/state"])
def test_a_uri_that_only_spark_knows_is_named(folder: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=f"Unrecognized filesystem type in URI: {folder}"):
        ChangeState(folder).load(0, FIRST)


@pytest.mark.safety
def test_a_local_folder_is_given_as_hadoop_writes_it(tmp_path: Path) -> None:
    saved = ChangeState(f"file:{tmp_path}").save(0, FIRST, look(("g", 0, 12, None, "")))
    assert ChangeState(str(tmp_path)).load(0, FIRST) == saved


class Interrupted(fs._MockFileSystem):  # type: ignore[misc]  # one that is no local disk, in memory
    """A file system on which something happens before and after a call, by the number of the call."""

    at: float | None = None
    calls = 0
    then: Callable[[], None]

    def reached(self, step: float) -> None:
        if self.at == self.calls + step:
            self.at = None
            self.then()

    def get_file_info(self, path: Any) -> Any:
        self.reached(0)
        found = super().get_file_info(path)
        self.reached(0.5)
        self.calls += 1
        return found

    def move(self, source: str, target: str) -> None:
        self.reached(0)
        super().move(source, target)
        self.reached(0.5)
        self.calls += 1


@pytest.mark.safety
@pytest.mark.parametrize("at", [number / 2 for number in range(10)])
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_on_an_object_store_no_task_replaces_what_another_one_returned(
    at: float, order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store has no move that fails if the target is there: whoever moved last had the last word."""
    names = (UUID(int=number) for number in order)
    monkeypatch.setattr("airflow_kafka_groups.spark.source.stream.uuid.uuid4", lambda: next(names))
    system, returned = Interrupted(), list[Any]()
    mine, others = ChangeState("mock"), ChangeState("mock")
    for state in (mine, others):
        monkeypatch.setattr(state, "_place", lambda *parts: (system, "/".join(("stream", *parts))))

    def save(state: ChangeState, offset: int) -> None:
        with suppress(ConfigurationError):  # both gave way: the query is restarted
            returned.append(state.save(0, FIRST, look(("g", 0, offset, None, ""))))

    system.at, system.then = at, lambda: save(others, 12)
    save(mine, 10)
    kept = mine.load(0, FIRST)
    found = [*returned, *([] if kept is None else [kept])]
    assert {each["committed_offset"][0].as_py() for each in found} in ({10}, {12}, set())


@pytest.mark.safety
def test_what_two_tasks_left_that_died_is_one_of_them_only_if_they_saw_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system, state = fs._MockFileSystem(), ChangeState("mock")
    monkeypatch.setattr(state, "_place", lambda *parts: (system, "/".join(("stream", *parts))))
    state.save(0, FIRST, look(("g", 0, 10, None, ""), ("h", 0, 1, None, "")))
    for same, rows in ((True, [("h", 0, 1, None, ""), ("g", 0, 10, None, "")]), (False, [("g", 0, 12, None, "")])):
        pq.write_table(look(*rows), f"stream/batch-1/bucket-0.{same}.parquet", filesystem=system)
        if same:
            assert state.load(0, FIRST).num_rows == 2
    with pytest.raises(ConfigurationError, match=r"state\.path .*two tasks saw .* differently"):
        state.load(0, FIRST)
