"""The log of commits shows that a consumer is alive which commits the same offset again; how the log is read."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import ArgumentError, JobError, PlanError
from airflow_kafka_groups.judge.evidence import AUTO, REQUIRED, LastCommits, recorded_sentence
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.observe.offsets_topic.scan import scan_batches
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.spark.jobs import commit_history
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run
from airflow_kafka_groups.spark.kafka import offsets_topic
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets_topic import (
    TOPIC,
    NoAccessError,
    Scanned,
    last_commits,
    log_partitions,
    ranges_of,
    read_log,
    scanned,
)
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from tests.histories.lake import write_manifest
from tests.histories.offset_records import commit_key, commit_value
from tests.histories.shorthand import hour
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer, Protocol, committing
from tests.lab.workload.topics import create_topics, produce
from tests.lab.workload.transactions import open_transaction
from tests.spark.kafka import write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CLUSTER = "lab"
DATA = "lastcommits-t"
PREFIX = "lastcommits-"
ALIVE, DEAD = f"{PREFIX}alive", f"{PREFIX}dead"
IDLE = 3.0


def snapshot(bootstrap: str, layout: Layout) -> str:
    async def take() -> str:
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
            return (await take_snapshot(admin, layout, include=[f"{PREFIX}*"])).snapshot_id

    return asyncio.run(take())


@pytest.mark.safety
@pytest.mark.promise(1)
def test_a_live_consumer_that_commits_the_same_offset_before_each_snapshot_is_kept(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path
) -> None:
    create_topics(kafka41.bootstrap, {DATA: 1})
    produce(kafka41.bootstrap, {(DATA, 0): 5})
    commit_offsets(kafka41.bootstrap, {DEAD: {(DATA, 0): 5}})
    layout = Layout(tmp_path, CLUSTER)
    with committing(kafka41.bootstrap, ALIVE, (DATA, 0), 5):
        snapshot(kafka41.bootstrap, layout)
        time.sleep(IDLE + 0.5)
        snapshot_id = snapshot(kafka41.bootstrap, layout)
    properties = str(write_properties(tmp_path, kafka41.bootstrap))
    reader, strict = SnapshotReader(layout, snapshot_id), PlanPolicy(min_idle_seconds=IDLE, max_share=1.0)
    required = replace(strict, require_commit_log=True)

    def judge(*more: str) -> dict[str, Any]:
        arguments = ["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle-seconds", str(IDLE), *more]
        return run(spark, parse_arguments(arguments))

    def planned(policy: PlanPolicy) -> Any:
        return make_plan(load_verdicts(layout, snapshot_id), reader, policy, datetime.now(UTC))

    # Snapshots alone cannot tell the two apart, and the plan says that there was nothing else.
    assert judge()["verdicts"]["stale"] == 2
    assert sorted(planned(strict).group_ids) == [ALIVE, DEAD]
    assert "the log of commits was not read: it was not asked for" in recorded_sentence(planned(strict).evidence)
    with pytest.raises(PlanError, match=r"was not asked for.*require_commit_log"):
        planned(required)

    # A job without access goes on without the log, and says so.
    summary = judge("--commit-log", "auto")
    assert (summary["verdicts"]["stale"], summary["commit_log"]) == (2, {"mode": "auto"})
    assert summary["evidence"]["not_read"] == "the job was given no --kafka-properties"

    summary = judge("--commit-log", "auto", "--kafka-properties", properties)
    assert (summary["verdicts"]["moving"], summary["verdicts"]["stale"]) == (1, 1)
    assert summary["commit_log"]["records"] >= 3
    plan = planned(required)
    assert plan.group_ids == [DEAD]
    assert [(group.group_id, group.verdict) for group in plan.kept] == [(ALIVE, "moving")]
    assert recorded_sentence(plan.evidence).startswith("the history of snapshots and the log of commits until 20")
    with pytest.raises(PlanError, match="less than the idle time"):
        planned(replace(required, min_idle_seconds=86_400))


@pytest.mark.safety
@pytest.mark.parametrize(
    ("cluster", "protocol"), [("kafka44", "classic"), ("kafka44", "consumer"), ("kafka28", "classic")]
)
@pytest.mark.promise(1)
@pytest.mark.connector
def test_a_consumer_that_comes_commits_nothing_and_leaves_between_two_snapshots_is_kept(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, cluster: str, protocol: Protocol
) -> None:
    """A cron job, a consumer that is scaled to zero, a task of Airflow's: nothing was there to read."""
    bootstrap = request.getfixturevalue(cluster).bootstrap
    topic, comes, dead = (f"{PREFIX}{name}-{protocol}" for name in ("quiet", "comes", "gone"))
    create_topics(bootstrap, {topic: 1})
    produce(bootstrap, {(topic, 0): 5})
    for group in (comes, dead):
        with LiveConsumer(bootstrap, group, [topic], protocol=protocol) as consumer:
            consumer.wait_committed()
    layout = Layout(tmp_path, CLUSTER)
    snapshot(bootstrap, layout)
    time.sleep(IDLE + 0.5)
    came_at = datetime.now(UTC) - timedelta(seconds=1)
    with LiveConsumer(bootstrap, comes, [topic], protocol=protocol, commit_every=None):
        pass
    left_at = datetime.now(UTC) + timedelta(seconds=1)
    snapshot_id = snapshot(bootstrap, layout)
    properties = str(write_properties(tmp_path, bootstrap))
    arguments = ["--base", str(tmp_path), "--cluster", CLUSTER, "--min-idle-seconds", str(IDLE)]
    required = [*arguments, "--commit-log", REQUIRED, "--kafka-properties", properties]
    policy = PlanPolicy(min_idle_seconds=IDLE, max_share=1.0, require_commit_log=True)
    run(spark, parse_arguments(arguments))  # without the log, snapshots show the epoch of the consumer protocol
    found = {verdict.group_id: verdict.verdict for verdict in load_verdicts(layout, snapshot_id)}
    assert (found[comes], found[dead]) == ("stale" if protocol == "classic" else "moving", "stale")
    run(spark, parse_arguments(required))
    verdicts = load_verdicts(layout, snapshot_id)
    (at,) = verdicts.table.filter(pc.equal(verdicts.table["group_id"], comes))["last_record_at"].to_pylist()
    assert came_at < at < left_at
    plan = make_plan(verdicts, SnapshotReader(layout, snapshot_id), policy, datetime.now(UTC))
    assert dead in plan.group_ids
    (kept,) = (group for group in plan.kept if group.group_id == comes)
    assert re.match("a member joined or left it .* ago, by the log|offsets or group epoch moved .* ago", kept.reason)


def manifest(tmp_path: Path, cluster_id: str) -> SnapshotManifest:
    """A snapshot that ended now."""
    now = datetime.now(UTC)
    path = write_manifest(tmp_path, "20260101T000000Z-0123abcd", 0, kafka_cluster_id=cluster_id)
    made = SnapshotManifest.from_json(json.loads(path.read_text()) | {"files": []})
    return replace(made, started_at=now - timedelta(seconds=1), observed_at=now)


def test_only_what_was_appended_since_is_read(spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path) -> None:
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    # Names outside PREFIX: this cluster is shared, and the tests come in any order.
    topic, before, after = "since-t", "since-before", "since-after"
    create_topics(kafka41.bootstrap, {topic: 1})
    commit_offsets(kafka41.bootstrap, {before: {(topic, 0): 1}})
    time.sleep(1)
    since = datetime.now(UTC)
    time.sleep(0.2)
    commit_offsets(kafka41.bootstrap, {after: {(topic, 0): 1}})
    with KafkaAdmin(spark, properties) as admin:
        partitions = log_partitions(admin)
        part = ranges_of(admin, partitions, since=since)
        everything = ranges_of(admin, partitions)
        assert [each.offsets for each in ranges_of(admin, partitions, since=datetime.now(UTC))] == [0] * len(partitions)
        log = scanned(spark, admin, properties, part, read_committed=False)
    assert 0 < sum(each.offsets for each in part) < sum(each.offsets for each in everything)
    found = {row["group_id"] for row in last_commits(log.rows).collect()}
    assert after in found
    assert before not in found


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A cluster with an authorizer. The users' names are what they may: see nothing, describe, read, all it takes."""
    users = {name: "p4ss" for name in ("blind", "describes", "reads", "may")}
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=users, config=AUTHORIZER) as cluster:
        for user, operations in {"describes": ["DESCRIBE"], "reads": ["READ"], "may": ["READ"]}.items():
            allow(cluster, user, "TOPIC", TOPIC, *operations)
        allow(cluster, "may", "GROUP", "spark-kafka-", "READ", prefixed=True)
        create_topics(cluster.bootstrap, {DATA: 1})
        commit_offsets(cluster.bootstrap, {DEAD: {(DATA, 0): 1}})
        yield cluster


def read_as(spark: SparkSession, cluster: KafkaCluster, folder: Path, user: str, mode: str) -> LastCommits:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="p4ss";'
    path = write_properties(
        folder,
        cluster.sasl_bootstrap,
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=jaas,
    )
    with KafkaAdmin(spark, load_properties(spark, str(path))) as admin:
        judged = manifest(folder, admin.cluster_id())
    found = read_log(spark, str(path), mode, judged, IDLE)
    if found.rows is not None:
        assert [row["group_id"] for row in found.rows.collect()] == [DEAD]
        assert found.evidence.gap(judged, IDLE) == ""
    return found


@pytest.mark.safety
@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("blind", f"the cluster shows no topic {TOPIC}"),
        ("describes", f"Spark is not permitted to read {TOPIC}. The user needs Describe and Read on the topic"),
        ("reads", f"Spark is not permitted to read {TOPIC}. The user needs .* Read on groups"),
    ],
)
@pytest.mark.connector
def test_a_user_who_may_not_read_the_log_is_judged_by_snapshots_unless_it_is_required(
    spark: SparkSession, guarded: KafkaCluster, tmp_path: Path, user: str, why: str
) -> None:
    found = read_as(spark, guarded, tmp_path, user, AUTO)
    assert found.rows is None
    assert found.evidence.commits_until is None
    assert re.search(why, found.evidence.not_read)
    with pytest.raises(NoAccessError, match=why):
        read_as(spark, guarded, tmp_path, user, REQUIRED)


@pytest.mark.connector
def test_a_user_with_the_rights_that_the_docs_name_reads_it(
    spark: SparkSession, guarded: KafkaCluster, tmp_path: Path
) -> None:
    assert read_as(spark, guarded, tmp_path, "may", REQUIRED).summary["records"] >= 1


@pytest.mark.safety
def test_another_cluster_or_one_that_does_not_answer_fails_the_job_also_where_the_log_is_optional(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path
) -> None:
    path = str(write_properties(tmp_path, kafka41.bootstrap))
    with pytest.raises(JobError, match=r"the snapshots of kafka-1.*--commit-log off"):
        read_log(spark, path, AUTO, manifest(tmp_path, "kafka-1"), IDLE)
    fast = {"default__api__timeout__ms": "2000", "request__timeout__ms": "1000"}
    path = str(write_properties(tmp_path, "127.0.0.1:1", **fast))
    with pytest.raises(JobError, match=r"does not answer.*--commit-log off"):
        read_log(spark, path, AUTO, manifest(tmp_path, "kafka-1"), IDLE)
    with pytest.raises(ArgumentError, match="there is no such file"):
        read_log(spark, "/no/such.properties", AUTO, manifest(tmp_path, "kafka-1"), IDLE)


def test_a_spark_without_the_connector_goes_on_without_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_connector(*_: Any, **__: Any) -> list[str]:
        raise JobError("Spark has no kafka-clients on its class path")

    monkeypatch.setattr(offsets_topic, "prepare_kafka", no_connector)
    judged = manifest(tmp_path, "kafka-1")
    found = read_log(spark, "kafka.properties", AUTO, judged, IDLE)
    assert "Spark has no kafka-clients" in found.evidence.sentence(judged, IDLE)
    with pytest.raises(NoAccessError):
        read_log(spark, "kafka.properties", REQUIRED, judged, IDLE)


NO_RECORD = "norecord-t"


@pytest.mark.connector
def test_a_log_of_aborted_commits_is_read_and_has_no_group(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(version="3.9.2", brokers=1, config={"offsets.topic.num.partitions": "1"}) as cluster:
        create_topics(cluster.bootstrap, {NO_RECORD: 1})
        with open_transaction(cluster.bootstrap, "aborted", {(NO_RECORD, 0): 1}):
            pass
        path, out = str(write_properties(tmp_path, cluster.bootstrap)), str(tmp_path / "out")
        summary = commit_history.run(
            spark, commit_history.parse_arguments(["--kafka-properties", path, "--output", out])
        )
        assert (summary["offsets"], summary["records"]["records"], summary["groups"]) == (2, 0, 0)
        assert summary["read_until"] is not None


@pytest.mark.connector
def test_a_log_that_spark_leaves_out_is_no_log_without_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        offsets_topic,
        "read_ranges",
        lambda *_, **__: spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORD_SCHEMA),
    )
    whole = [Range(Partition(TOPIC, 0), 0, 2)]
    properties = KafkaProperties({"bootstrap.servers": "127.0.0.1:1"})
    with KafkaAdmin(spark, properties) as admin, pytest.raises(JobError, match="2 offsets and Spark would read none"):
        scanned(spark, admin, properties, whole)


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
    (row,) = last_commits(spark.createDataFrame(table)).collect()
    assert row["last_commit_at"].timestamp() >= hour(5).timestamp()


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
@pytest.mark.connector
def test_a_commit_that_gave_way_to_a_later_one_before_it_was_read(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5} for name in BOTH})
    with KafkaAdmin(spark, load_properties(spark, path)) as admin:
        judged = manifest(tmp_path, admin.cluster_id())

    read_slowly(monkeypatch, offsets_topic, busy.bootstrap)
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
@pytest.mark.connector
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
