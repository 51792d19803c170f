"""How far groups are behind, on real brokers and compared with loops: flags, messages, seconds, sums and lookups."""

import json
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import JobError, SnapshotError
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.frames import LAG_SCHEMA
from airflow_kafka_groups.spark.jobs.lag_report import (
    _SUMS,
    SUMMED_BY,
    largest,
    main,
    of_partitions,
    parse_arguments,
    run,
    sums,
    with_lag,
)
from airflow_kafka_groups.spark.kafka import reader
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.kafka.reader import look_up
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.histories.lake import write_snapshot
from tests.histories.shorthand import START, SnapshotRow, hour, parquet, seen
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import delete_topics, quiet
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.kafka import add, fresh_topics, write_properties
from tests.spark.rows import snapshot_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = [
    *seen(1, group="a.one", offsets={("t", 0): 40, ("t", 1): 100}),
    *seen(1, group="a-two", offsets={("t", 0): 101}),
    *seen(1, group="mon-7", offsets={("t", 0): 90}),
    *seen(1, group="mon-7x", offsets={("u", 0): 1}, log_end=None),
    *seen(1, group="torn", offsets={("u", 0): 1}, error="TOPIC_AUTHORIZATION_FAILED"),
    *seen(1, group="none", offsets={}),
]


def start_at(rows: list[dict[str, Any]], log_start: int) -> list[dict[str, Any]]:
    return [row | {"log_start": log_start} for row in rows]


def test_messages_and_flags(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*ROWS, *start_at(seen(1, group="cut", offsets={("t", 0): 40}), 60)]
    write_snapshot(tmp_path, 1, rows)
    run(spark, parse_arguments(["--base", str(tmp_path), "--cluster", "c"]))
    found = {
        (row["group_id"], row["partition"]): (row["flag"], row["lag"], row["lost"])
        for row in spark.read.parquet(f"{tmp_path}/c/tables/lag_partitions").collect()
    }
    assert found == {
        ("a.one", 0): ("ok", 60, 0),
        ("a.one", 1): ("ok", 0, 0),
        ("a-two", 0): ("beyond_end", None, 0),
        ("mon-7", 0): ("ok", 10, 0),
        ("mon-7x", 0): ("unknown", None, 0),
        ("torn", 0): ("unreadable", None, 0),
        ("cut", 0): ("data_lost", 40, 20),
    }


def test_the_report_on_a_real_cluster(spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path) -> None:
    bootstrap = kafka41.bootstrap
    fresh_topics(bootstrap, {"lr-a": 2, "lr-b": 1})
    hours_ago = int(time.time() * 1000) - 7_200_000
    producer = Producer(quiet(bootstrap))
    for topic, partition in (("lr-a", 0), ("lr-a", 1), ("lr-b", 0)):
        for number in range(6):  # a minute apart, from two hours ago on
            producer.produce(topic, b"x", partition=partition, timestamp=hours_ago + number * 60_000)
    assert producer.flush(60) == 0
    commit_offsets(bootstrap, {"lr-x": {("lr-a", 0): 2, ("lr-a", 1): 6}, "lr-y": {("lr-a", 0): 4, ("lr-b", 0): 0}})
    snapshot_id = snapshot(bootstrap, tmp_path, "lr-x", "lr-y")
    common = ["--base", tmp_path.as_uri(), "--cluster", "c"]
    properties = str(write_properties(tmp_path, bootstrap))
    summary = run(spark, parse_arguments([*common, "--kafka-properties", properties]))
    tables = tmp_path / "c" / "tables"
    rows = {
        (row["group_id"], row["topic"], row["partition"]): row
        for row in spark.read.parquet(str(tables / "lag_partitions"))
        .where(F.col("snapshot_id") == snapshot_id)
        .collect()
    }
    assert {key: row["lag"] for key, row in rows.items()} == {
        ("lr-x", "lr-a", 0): 4,
        ("lr-x", "lr-a", 1): 0,
        ("lr-y", "lr-a", 0): 2,
        ("lr-y", "lr-b", 0): 6,
    }
    for key, number in {("lr-x", "lr-a", 0): 2, ("lr-y", "lr-a", 0): 4, ("lr-y", "lr-b", 0): 0}.items():
        written = hours_ago / 1000 + number * 60
        assert rows[key]["lag_seconds"] == pytest.approx(rows[key]["observed_at"].timestamp() - written, abs=1)
        assert rows[key]["lag_seconds_method"] == "first_unread_record:CreateTime"
    assert [(row["group_id"], row["lag"]) for row in summary["top_groups"]] == [("lr-y", 8), ("lr-x", 4)]
    assert {row["topic"]: row["lag"] for row in summary["top_topics"]} == {"lr-a": 6, "lr-b": 6}
    assert (summary["lookups"], summary["lag"], summary["unreadable_groups"]) == (3, 12, 0)
    assert json.loads((tmp_path / "c" / "summaries" / "lag_partitions" / f"{snapshot_id}.json").read_text()) == summary

    limited = run(spark, parse_arguments([*common, "--kafka-properties", properties, "--max-lookups", "1"]))
    assert limited["seconds_methods"] == {"first_unread_record:CreateTime": 1, "no_lag": 1, "not_looked_up": 2}


def test_messages_alone_need_no_broker(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session belongs to all tests
    write_snapshot(tmp_path, 1, ROWS)
    assert main(["--base", tmp_path.as_uri(), "--cluster", "c"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["lag"], summary["lookups"], summary["unreadable_groups"]) == (70, 0, 1)
    assert summary["seconds_methods"]["not_looked_up"] == 2
    assert main(["--base", tmp_path.as_uri(), "--cluster", "nowhere"]) == 1
    assert "lag_report: error: no snapshot of cluster nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--base", "/b", "--cluster", "c", "--max-lookups", "0"])


def test_an_offset_without_a_record_has_no_timestamp(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path
) -> None:
    fresh_topics(kafka41.bootstrap, {"lr-t": 2})
    producer = Producer(quiet(kafka41.bootstrap, transactional_id="lr-t"))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("lr-t", b"x", partition=0, timestamp=int(START.timestamp() * 1000))
    producer.commit_transaction(60)
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    where, empty = Partition("lr-t", 0), Partition("lr-t", 1)
    found = look_up(spark, properties, [(where, 0), (where, 1), (where, 2), (empty, 0)])
    assert sorted(found) == [
        ("lr-t", 0, 0, int(START.timestamp() * 1000), "CreateTime"),
        ("lr-t", 0, 1, None, "none"),  # the marker of the transaction
        ("lr-t", 0, 2, None, "none"),
        ("lr-t", 1, 0, None, "none"),
    ]
    assert look_up(spark, properties, []) == []


def test_a_snapshot_that_was_changed_is_not_said_to_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    name = write_snapshot(tmp_path, 0, seen(0))
    (tmp_path / "c" / "data" / name / "part-00000.parquet").unlink()
    with pytest.raises(SnapshotError, match=r"missing: part-00000.parquet\. No job uses it\. Restore its files"):
        run(spark, parse_arguments(["--base", tmp_path.as_uri(), "--cluster", "c"]))


def report(spark: SparkSession, base: Path, properties: Path) -> dict[str, Any]:
    arguments = ["--base", base.as_uri(), "--cluster", "c", "--kafka-properties", str(properties)]
    return run(spark, parse_arguments(arguments))


def test_a_record_that_does_not_arrive_in_time_is_not_a_marker(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_topics(kafka41.bootstrap, {"ll-slow": 1})
    add(kafka41.bootstrap, {("ll-slow", 0): 1})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    monkeypatch.setattr(reader, "_WAIT_SECONDS", -1.0)
    assert look_up(spark, properties, [(Partition("ll-slow", 0), 0)]) == []


def test_an_offset_beyond_the_end_has_no_time_however_late_the_client_notices(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_topics(kafka41.bootstrap, {"ll-beyond": 2})
    add(kafka41.bootstrap, {("ll-beyond", 0): 2, ("ll-beyond", 1): 2})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    monkeypatch.setattr(reader, "_POLL_MILLISECONDS", 0)  # the first polls end before any answer
    beyond, end = (Partition("ll-beyond", 0), 5), (Partition("ll-beyond", 1), 2)
    assert look_up(spark, properties, [beyond, end]) == [("ll-beyond", 1, 2, None, "none")]


@pytest.mark.connector
def test_a_client_that_cannot_look_up_times_says_why_and_no_secret(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("bootstrap.servers=localhost:1\nssl.keystore.password=tr0ub4dor\n")
    properties = load_properties(spark, str(path))

    def fail(jvm: Any, *_: Any) -> None:
        said = jvm.java.lang.IllegalStateException("the keystore's tr0ub4dor is wrong")
        jvm.java.util.concurrent.CompletableFuture.failedFuture(said).get()

    monkeypatch.setattr(reader, "_one_round", fail)
    with pytest.raises(JobError) as raised:
        look_up(spark, properties, [(Partition("t", 0), 0)])
    said = "IllegalStateException: the keystore's *** is wrong (brokers localhost:1)"
    assert str(raised.value) == f"timestamps cannot be looked up: {said}"


def test_times_of_another_cluster_are_not_reported(spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path) -> None:
    bootstrap = kafka41.bootstrap
    fresh_topics(bootstrap, {"ll-t": 1})
    add(bootstrap, {("ll-t", 0): 10})
    write_snapshot(tmp_path, 1, seen(1, offsets={("ll-t", 0): 5}, log_end=10), kafka_cluster_id="another")
    with pytest.raises(JobError, match="the snapshot is of the cluster another, and the Kafka properties lead to"):
        report(spark, tmp_path, write_properties(tmp_path, bootstrap))


@pytest.mark.parametrize("again", [2, 8], ids=["shorter than the offset", "longer"])
def test_a_topic_deleted_or_recreated_since_the_snapshot_costs_its_own_times_only(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, again: int
) -> None:
    bootstrap = kafka41.bootstrap
    names = ("ll-stays", "ll-gone", "ll-again")
    fresh_topics(bootstrap, dict.fromkeys(names, 1))
    add(bootstrap, {(name, 0): 10 for name in names})
    commit_offsets(bootstrap, {name: {(name, 0): 5} for name in names})
    snapshot(bootstrap, tmp_path, *names)
    delete_topics(bootstrap, ["ll-gone"])
    fresh_topics(bootstrap, {"ll-again": 1})
    add(bootstrap, {("ll-again", 0): again})
    begun = time.monotonic()
    summary = report(spark, tmp_path, write_properties(tmp_path, bootstrap))
    assert time.monotonic() - begun < 45
    assert summary["seconds_methods"] == {"first_unread_record:CreateTime": 1, "not_looked_up": 2}
    greatest = {row["topic"]: row["max_lag_seconds"] for row in summary["top_topics"]}
    assert greatest.pop("ll-stays") >= 0
    assert greatest == {"ll-gone": None, "ll-again": None}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security__protocol": "SSL", "ssl__truststore__location": "/nowhere"}, "/nowhere"),
        ({"bootstrap__servers": "127.0.0.1:1", "default__api__timeout__ms": "3000"}, "127.0.0.1:1"),
    ],
)
@pytest.mark.connector
def test_the_reason_is_said_if_kafka_cannot_be_reached(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    write_snapshot(tmp_path, 1, seen(1))
    more = {"request__timeout__ms": "2000", **settings}
    with pytest.raises(JobError) as caught:
        report(spark, tmp_path, write_properties(tmp_path, "127.0.0.1:1", **more))
    assert said in str(caught.value)
    assert "Check " in str(caught.value)


@pytest.mark.safety
def test_what_another_job_deleted_while_it_was_written_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of a table that lost rows are not reported."""
    write_snapshot(tmp_path, 1, ROWS)
    files = LocalStorage.files

    def replaced(storage: LocalStorage, folder: str) -> list[str]:
        if "lag_partitions/" in folder:
            shutil.rmtree(folder)
        return files(storage, folder)

    monkeypatch.setattr(LocalStorage, "files", replaced)
    with pytest.raises(JobError, match=r"lag_partitions/.* has 0 rows where \d were written: another job reported at"):
        run(spark, parse_arguments(["--base", str(tmp_path), "--cluster", "c"]))
    assert not list((tmp_path / "c" / "summaries" / "lag_partitions").glob("*.json"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run_id": "20260101T000000Z-0123abcd"}, "rows of snapshot '20260101T000000Z-0123abcd'"),
        ({"state": None}, "1 rows lack a group, a time, a state"),
        (None, "0 rows where its manifest says 1"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_not_reported_on(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any] | None, said: str
) -> None:
    name = write_snapshot(tmp_path, 1, seen(1))
    rows = [] if changes is None else [row | changes for row in seen(1)]
    (tmp_path / "c" / "data" / name / "part-00000.parquet").write_bytes(parquet(rows))
    with pytest.raises(SnapshotError, match=f"is incomplete or was changed: .*{said}"):
        run(spark, parse_arguments(["--base", str(tmp_path), "--cluster", "c"]))
    assert not (tmp_path / "c" / "tables").exists()


GROUPS = ["a.1", "a.2", "ab", "mon-1", "mon-1x", "é", "", "\U0001f600"]
SECONDS_OF_2026 = 1_767_225_600

Row = dict[str, Any]


def random_rows(random: Random) -> list[SnapshotRow]:
    """Make up groups of a snapshot: without ends, beyond them, behind the log start, with errors, or contradictory."""
    rows = []
    for name in random.sample(GROUPS, random.randint(1, len(GROUPS))):
        offsets = {(random.choice("tuv"), number): random.choice([0, 3, 7, 9, 20]) for number in range(6)}
        ends = {at: (random.choice([None, 0, 0, 5]), random.choice([None, 9, 9, 12])) for at in offsets}
        for row in seen(1, group=name, offsets=random.choice([{}, offsets, offsets]), ends=ends):
            row["state"] = random.choice(["Empty"] * 9 + ["Stable"])
            row["error"] = random.choice([None] * 9 + ["E"])
            row["observed_at"] = hour(random.choice([1, 1.5, 1 + 1 / 3_000_000_000]))
            if random.random() < 0.1:
                row["committed_offset"] = None
            rows += [row] * random.choice([1, 1, 1, 2])
    random.shuffle(rows)
    return rows


def slow_lag(row: SnapshotRow) -> tuple[str, int | None, int]:
    """Return the flag, the lag and what is lost."""
    offset, start, end = row["committed_offset"], row["log_start"], row["log_end"]
    if row["error"] is not None or offset is None:
        return "unreadable", None, 0
    if start is None or end is None:
        return "unknown", None, 0
    if offset > end:
        return "beyond_end", None, 0
    if offset < start:
        return "data_lost", end - start, start - offset
    return "ok", end - offset, 0


def first_unread(row: SnapshotRow) -> tuple[str, int, int]:
    return row["topic"], row["partition"], max(row["committed_offset"], row["log_start"])


def slow_time(row: SnapshotRow, known: Mapping[tuple[str, int, int], tuple[int | None, str]]) -> tuple[Any, str]:
    """Return the lag in seconds, and how it was found."""
    flag, lag, _ = slow_lag(row)
    if lag is None:
        return None, flag
    if lag == 0:
        return 0.0, "no_lag"
    if first_unread(row) not in known:
        return None, "not_looked_up"
    milliseconds, clock = known[first_unread(row)]
    if milliseconds is None:
        return None, "no_record_found"
    micros = round(row["observed_at"].timestamp() * 1_000_000) - min(milliseconds, 9 * 10**15) * 1_000
    return max(micros / 1_000_000, 0.0), f"first_unread_record:{clock}"


def slow_partition(row: SnapshotRow, known: Mapping[tuple[str, int, int], tuple[int | None, str]]) -> Row:
    flag, lag, lost = slow_lag(row)
    seconds, method = slow_time(row, known)
    found = {"flag": flag, "lag": lag, "lost": lost}
    found |= {"lag_seconds": seconds, "lag_seconds_method": method}
    return {name: found[name] if name in found else row[name] for name in LAG_SCHEMA.names}


def slow_sums(lags: Sequence[Row], *names: str) -> list[Row]:
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in lags:
        parts[tuple(row[name] for name in names)].append(row)
    found = []
    for key, rows in parts.items():
        known = [row["lag"] for row in rows if row["lag"] is not None]
        behind = [row["lag_seconds"] for row in rows if (row["lag"] or 0) > 0]
        times = [0.0] if known == [0] * len(rows) else [each for each in behind if each is not None]
        sums = {
            "groups": len({row["group_id"] for row in rows}),
            "partitions": len(rows),
            "partitions_without_lag": len(rows) - len(known),
            "partitions_without_seconds": behind.count(None),
            "lag": sum(known),
            "max_partition_lag": max(known, default=None),
            "lost": sum(row["lost"] for row in rows),
            "max_lag_seconds": max(times, default=None),
        }
        found.append({**dict(zip(names, key, strict=True)), **sums})
    return sorted(found, key=lambda row: (-row["lag"], *(row[name].encode() for name in names)))


def of(spark: SparkSession, rows: Sequence[SnapshotRow]) -> DataFrame:
    """Return rows of a snapshot with their lag in messages."""
    return with_lag(snapshot_rows(spark, rows))


def reported(spark: SparkSession, rows: Sequence[SnapshotRow], found: Sequence[Timestamp] = ()) -> DataFrame:
    return of_partitions(of(spark, rows), found)


def _naive(row: Row) -> Row:
    """Spark returns times without a zone."""
    return {"observed_at": row["observed_at"].replace(tzinfo=None)}


def dicts(rows: DataFrame) -> list[Row]:
    return [row.asDict() for row in rows.collect()]


@pytest.mark.parametrize("seed", range(5))
def test_a_report_is_that_of_loops_over_its_rows(spark: SparkSession, seed: int) -> None:
    random = Random(f"lag {seed}")
    rows = random_rows(random)
    most: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        if row["topic"] is not None and (lag := slow_lag(row)[1] or 0) > 0:
            most[first_unread(row)] = max(most[first_unread(row)], lag)
    count = random.choice([1, 3, 100])
    expected = sorted(most, key=lambda place: (-most[place], place))[:count]
    seen_rows = of(spark, rows)
    assert largest(seen_rows, count) == [(Partition(topic, number), offset) for topic, number, offset in expected]

    asked = [*expected, ("t", 0, 9), ("elsewhere", 0, 0)]  # also one without lag, and one of no group
    times = [None, 0, SECONDS_OF_2026 * 1_000, SECONDS_OF_2026 * 1_000 + 3_599_999, 2**63 - 1]
    known = {place: (random.choice(times), random.choice(["CreateTime", "LogAppendTime"])) for place in asked}
    found: list[Timestamp] = [(*place, *time) for place, time in known.items() if random.random() < 0.8]
    known = {place: known[place] for place in known if place in {each[:3] for each in found}}
    lags = [slow_partition(row, known) for row in rows if row["topic"] is not None]
    made = reported(spark, rows, found).cache()
    try:
        key = repr
        assert sorted(dicts(made), key=key) == sorted((row | _naive(row) for row in lags), key=key)
        for keys in SUMMED_BY.values():
            assert dicts(sums(made, *keys)) == slow_sums(lags, *keys)
        names = [each.rpartition(" ")[2] for each in _SUMS]
        nothing = dict.fromkeys(names, 0) | dict.fromkeys(["max_partition_lag", "lost", "max_lag_seconds"])
        assert dicts(sums(made)) == (slow_sums(lags) or [nothing])
    finally:
        made.unpersist()
