"""The scan of the log of commits: compacted, without records, hidden, read twice at once, or read by a wrong clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from threading import Event, Thread, current_thread
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.evidence import REQUIRED
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.observe.offsets_topic.scan import CARRIED, scan_batches
from airflow_kafka_groups.spark.frames import by_value
from airflow_kafka_groups.spark.jobs import commit_history
from airflow_kafka_groups.spark.jobs.commit_history import parse_arguments, run
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from airflow_kafka_groups.spark.offsets_topic import last_commits, reading
from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder, read_log
from airflow_kafka_groups.spark.offsets_topic.reading import Scanned, scanned
from tests.histories.commits import LAST_SCHEMA, describe_commits
from tests.histories.offset_records import commit_key, commit_value, group_key
from tests.histories.shorthand import hour
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics
from tests.lab.workload.transactions import open_transaction
from tests.spark.kafka import write_properties
from tests.spark.offsets_topic.test_last_commits import manifest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

AHEAD = timedelta(minutes=10)


@pytest.mark.safety
@pytest.mark.parametrize("written", [timedelta(0), -timedelta(hours=5)], ids=["now", "hours ago"])
def test_commit_history_of_a_driver_whose_clock_was_ahead_is_no_evidence(
    spark: SparkSession, tmp_path: Path, written: timedelta
) -> None:
    """A snapshot of the minutes in between would be judged by commits that nobody read."""
    write_groups(spark, tmp_path)
    at = datetime.now(UTC) + written
    assert "the clock of its driver was ahead" in not_read(spark, tmp_path, at, at + AHEAD)
    assert not_read(spark, tmp_path, at, at - AHEAD) == not_read(spark, tmp_path, at, at) == ""


@pytest.mark.safety
def test_where_the_judging_driver_s_clock_is_behind_that_one_is_named_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_groups(spark, tmp_path)
    at = datetime.now(UTC)

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Behind:
            return cls.fromtimestamp((at - AHEAD).timestamp(), tz)

    monkeypatch.setattr(last_commits, "datetime", Behind)
    said = not_read(spark, tmp_path, at, at - timedelta(minutes=1))
    assert f"it is {(at - AHEAD).isoformat()} by the judging driver's clock" in said
    assert "the clock of its driver was ahead, or this one is behind" in said


def write_groups(spark: SparkSession, folder: Path) -> None:
    rows = spark.createDataFrame([("g", hour(1), None)], LAST_SCHEMA)
    rows.write.parquet(f"{folder}/groups/run_id=r")


def not_read(spark: SparkSession, folder: Path, written: datetime, until: datetime) -> str:
    """Return why the folder's summary, which was written then, is no evidence."""
    path = folder / "summary.json"
    describe_commits(folder, kafka_cluster_id="k", read_until=until.isoformat())
    os.utime(path, (written.timestamp(), written.timestamp()))
    found = read_folder(spark, folder.as_uri(), "k")
    assert found.rows is not None  # a sign of life counts all the same
    return found.evidence.not_read


NO_RECORD = "norecord-t"


def test_a_log_of_aborted_commits_is_read_and_has_no_group(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(version="3.9.2", brokers=1, config={"offsets.topic.num.partitions": "1"}) as cluster:
        create_topics(cluster.bootstrap, {NO_RECORD: 1})
        with open_transaction(cluster.bootstrap, "aborted", {(NO_RECORD, 0): 1}):
            pass
        path, out = str(write_properties(tmp_path, cluster.bootstrap)), str(tmp_path / "out")
        summary = run(spark, parse_arguments(["--kafka-properties", path, "--output", out]))
        assert (summary["offsets"], summary["records"]["records"], summary["groups"]) == (2, 0, 0)
        found = read_folder(spark, out, summary["kafka_cluster_id"])
        assert found.evidence.commits_until is not None


def test_a_log_that_spark_leaves_out_is_no_log_without_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reading, "read_ranges", lambda *_, **__: spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORD_SCHEMA)
    )
    whole = [Range(Partition(reading.TOPIC, 0), 0, 2)]
    properties = KafkaProperties({"bootstrap.servers": "127.0.0.1:1"})
    with KafkaAdmin(spark, properties) as admin, pytest.raises(JobError, match="2 offsets and Spark would read none"):
        reading.scanned(spark, admin, properties, whole)


@pytest.mark.safety
def test_a_commit_counts_although_its_offset_was_removed_since(spark: SparkSession) -> None:
    """A client without membership commits for a topic that is deleted before the next snapshot."""
    old, late = (int(hour(number).timestamp() * 1000) for number in (-5, 5))
    records = [
        (commit_key("g", "t", 0), commit_value(3, 10, at=old), 0, 0, hour(-5)),
        (commit_key("g", "of-a-day", 0), commit_value(3, 7, at=late), 0, 1, hour(5)),
        (commit_key("g", "of-a-day", 0), None, 0, 2, hour(6)),  # brokers remove the offsets of a deleted topic
    ]
    names = ("key", "value", "partition", "offset", "timestamp")
    kinds = (pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"))
    columns = [pa.array(values, kind) for values, kind in zip(zip(*records, strict=True), kinds, strict=True)]
    table = pa.Table.from_batches(list(scan_batches([pa.record_batch(columns, names=names)])))
    (row,) = last_commits.last_commits(spark.createDataFrame(table)).collect()
    assert row["last_commit_at"].timestamp() >= hour(5).timestamp()


class EndedError(Exception):
    """The end of a reading."""


@pytest.mark.safety
def test_the_end_of_one_does_not_hide_the_log_from_the_other(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the setting, Spark reads no record of an internal topic, and says nothing."""
    seen: list[Any] = []
    nobody: Any = None  # is asked for the end of the log after the reading only
    started, ended = Event(), Event()

    def read(*_: Any, **__: Any) -> Any:
        if current_thread() is second:
            started.set()
            ended.wait(60)
            seen.append(spark.conf.get(reading._INTERNAL_TOPICS))
        else:
            second.start()
            started.wait(60)
        raise EndedError

    def read_all() -> None:
        with pytest.raises(EndedError):
            reading.scanned(spark, nobody, KafkaProperties({}), [])

    before = spark.conf.get(reading._INTERNAL_TOPICS)
    second = Thread(target=read_all)
    monkeypatch.setattr(reading, "read_ranges", read)
    read_all()
    ended.set()
    second.join()
    assert (seen, spark.conf.get(reading._INTERNAL_TOPICS)) == (["true"], before)


def test_executors_need_no_copy_of_this_package(tmp_path: Path) -> None:
    """What tasks run is shipped by value: here it runs where the package cannot be imported."""
    (tmp_path / "function").write_bytes(cloudpickle.dumps(by_value(scan_batches, *CARRIED)))
    program = """
import pickle, sys
sys.modules["airflow_kafka_groups"] = None
import pyarrow as pa
function = pickle.load(open("function", "rb"))
times = pa.array([0, 0], pa.timestamp("us", tz="UTC"))
key = pa.array([bytes.fromhex(text) for text in sys.argv[1].split()])
value = pa.array([bytes.fromhex(sys.argv[2]), b""])
batch = pa.RecordBatch.from_arrays(
    [key, value, pa.array([0, 0], pa.int32()), pa.array([1, 2]), times],
    names=["key", "value", "partition", "offset", "timestamp"],
)
print(sorted((row["kind"], row["group_id"], row["name"], row["number"]) for part in function([batch])
    for row in part.to_pylist() if row["number"] != 0))
"""
    keys = f"{commit_key('g', 't', 0).hex()} {group_key('g').hex()}"
    command = [sys.executable, "-c", program, keys, commit_value(4, 3).hex()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "('commit', 'g', None, None)" in done.stdout
    assert "'corrupt', 1" in done.stdout


COMPACTED = "compacted-t"
BOTH = ["alive", "dead"]
SMALL = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "16384",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.compaction.lag.ms": "0",
}


@pytest.fixture
def busy() -> Iterator[KafkaCluster]:
    """A cluster whose log of commits is cleaned within moments, as it is on a slow machine in minutes."""
    with KafkaCluster(version="3.9.2", brokers=1, config=SMALL, timeout=50) as cluster:
        create_topics(cluster.bootstrap, {COMPACTED: 2})
        yield cluster


def commits_of_others(bootstrap: str, times: int) -> None:
    for number in range(times):
        commit_offsets(bootstrap, {f"other-{each}": {(COMPACTED, 0): number} for each in range(50)})


def those_of(rows: DataFrame) -> list[str]:
    """Compute the rows; what an earlier query of the same frame has shuffled would be taken from there."""
    return sorted(row["group_id"] for row in rows.select("group_id").collect() if row["group_id"] in BOTH)


def read_slowly(monkeypatch: pytest.MonkeyPatch, module: ModuleType, bootstrap: str) -> None:
    """Begin to read when the ends are known, and a group has committed once more."""

    def slowly(*arguments: Any, **more: Any) -> Scanned:
        monkeypatch.setattr(module, "scanned", scanned)
        commit_offsets(bootstrap, {"alive": {(COMPACTED, 0): 5}})
        commits_of_others(bootstrap, 20)
        time.sleep(5)
        return scanned(*arguments, **more)

    monkeypatch.setattr(module, "scanned", slowly)


@pytest.mark.safety
def test_a_commit_that_gave_way_to_a_later_one_before_it_was_read(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5} for name in BOTH})
    with KafkaAdmin(spark, load_properties(spark, path)) as admin:
        judged = manifest(tmp_path, admin.cluster_id())

    read_slowly(monkeypatch, last_commits, busy.bootstrap)
    found = read_log(spark, path, REQUIRED, judged, 60.0)
    assert found.evidence.commits_until is not None
    assert found.rows is not None
    assert those_of(found.rows) == BOTH
    # An executor that has the rows of the log is lost, and only what is left of the log can be read again.
    spark.catalog.clearCache()
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5} for name in BOTH})
    commits_of_others(busy.bootstrap, 20)
    time.sleep(5)
    assert those_of(found.rows) == BOTH


@pytest.mark.safety
def test_the_tables_of_commits_have_it_once(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5, (COMPACTED, 1): 6} for name in BOTH})
    read_slowly(monkeypatch, commit_history, busy.bootstrap)
    out = tmp_path / "out"
    summary = commit_history.run(
        spark, commit_history.parse_arguments(["--kafka-properties", path, "--output", str(out)])
    )
    commits = spark.read.parquet(str(out / "commits")).where("group_id IN ('alive', 'dead')").collect()
    assert sorted((row["group_id"], row["partition"]) for row in commits) == [
        (name, n) for name in BOTH for n in (0, 1)
    ]
    groups = spark.read.parquet(str(out / "groups")).where("group_id IN ('alive', 'dead')").collect()
    assert sorted((row["group_id"], row["partitions"]) for row in groups) == [(name, 2) for name in BOTH]
    assert summary["read_until"] is not None
