"""The data source on real brokers, through a real session; and on scripted ones, for what goes wrong."""

import subprocess
import sys
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, GreaterThan, In

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.models import GroupListing, GroupOffsets, GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.api_versions import LIST_GROUPS, METADATA, OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.source import register
from airflow_kafka_groups.spark.source.options import SOURCE_COLUMNS, SourceOptions
from airflow_kafka_groups.spark.source.reader import (
    Chunk,
    GroupsReader,
    PushedFilters,
    SourceError,
    fetch,
    list_in_scope,
    select,
)
from airflow_kafka_groups.storage.schemas import arrow_schema
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

NONE = ErrorCode.none
TOPICS = {"sparksource-a": 4, "sparksource-b": 2}
GROUPS = [f"sparksource-app-{number:02d}" for number in range(20)]


@pytest.fixture(scope="module")
def seeded(kafka41: KafkaCluster) -> str:
    """Commit for 20 groups of several coordinators: within the log, at its end, and beyond it (a recreated topic)."""
    create_topics(kafka41.bootstrap, TOPICS)
    produce(kafka41.bootstrap, {("sparksource-a", partition): 10 for partition in range(4)})
    offsets = {
        group: {("sparksource-a", 0): 3, ("sparksource-a", 1): 10, ("sparksource-a", 2): 999, ("sparksource-b", 0): 0}
        for group in GROUPS
    }
    commit_offsets(kafka41.bootstrap, offsets)
    commit_offsets(kafka41.bootstrap, {"sparksource-other": {("sparksource-a", 3): 1}})
    return kafka41.bootstrap


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": bootstrap, "include": "sparksource-*"}
    given |= {name.replace("_", "."): value for name, value in options.items()}
    return spark.read.format("kafka_groups").options(**given).load()


async def offsets_of(bootstrap: str, groups: list[str]) -> dict[str, GroupOffsets]:
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        return (await admin.list_consumer_group_offsets(groups)).succeeded


async def test_a_read_gives_what_the_admin_client_gives_with_the_ends_of_the_logs(
    spark: SparkSession, seeded: str
) -> None:
    register(spark)
    rows = read(spark, seeded, exclude="*-other", groups_per_partition="4").where("topic is not null").collect()
    expected = await offsets_of(seeded, GROUPS)
    found = {(r.group_id, r.topic, r.partition): (r.committed_offset, r.leader_epoch, r.metadata) for r in rows}
    assert found == {
        (group, key.topic, key.partition): (value.offset, value.leader_epoch, value.metadata)
        for group, offsets in expected.items()
        for key, value in offsets.items()
        if value is not None
    }
    assert len(rows) == 4 * len(GROUPS)
    first = {(r.topic, r.partition): (r.log_start, r.log_end, r.lag) for r in rows if r.group_id == GROUPS[0]}
    assert first == {
        ("sparksource-a", 0): (0, 10, 7),
        ("sparksource-a", 1): (0, 10, 0),
        ("sparksource-a", 2): (0, 10, None),
        ("sparksource-b", 0): (0, 0, 0),
    }
    assert {(r.group_type, r.state, r.error) for r in rows} == {("classic", "Empty", None)}
    assert len({r.cluster_id for r in rows}) == 1
    assert len({r.coordinator for r in rows}) == 3


def test_filters_on_group_and_topic_are_taken_over(
    spark: SparkSession, seeded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    register(spark)
    wanted = read(spark, seeded, with_lag="false").where(
        F.col("group_id").startswith("sparksource-app-0") & (F.col("topic") == "sparksource-b")
    )
    plan_text = wanted._jdf.queryExecution().toString()
    assert "Filter (isnotnull(group_id" not in plan_text.split("== Physical Plan ==")[1].replace("isnotnull(topic", "")
    wanted.explain("formatted")
    (pushed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PushedFilters: ")]
    assert "StringStartsWith(group_id,sparksource-app-0)" in pushed
    assert "EqualTo(topic,sparksource-b)" in pushed
    rows = wanted.collect()
    assert {(r.group_id, r.topic, r.log_end, r.lag) for r in rows} == {
        (group, "sparksource-b", None, None) for group in GROUPS[:10]
    }
    named = read(spark, seeded).where(F.col("group_id").isin("sparksource-other", "sparksource-gone"))
    assert [(r.topic, r.partition, r.lag) for r in named.collect()] == [("sparksource-a", 3, 9)]
    assert read(spark, seeded).where("group_id = 'sparksource-none'").count() == 0


def test_only_the_columns_of_the_option_are_read(spark: SparkSession, seeded: str) -> None:
    register(spark)
    rows = read(spark, seeded, columns="lag, group_id,topic").where(F.col("group_id").isin(GROUPS[0], GROUPS[1]))
    assert rows.columns == ["lag", "group_id", "topic"]
    whole = read(spark, seeded).where(F.col("group_id").isin(GROUPS[0], GROUPS[1])).select(*rows.columns)
    found = sorted(map(tuple, rows.collect()), key=str)
    assert len(found) == 8
    assert found == sorted(map(tuple, whole.collect()), key=str)
    assert read(spark, seeded, columns="group_id").where("group_id = 'sparksource-other'").count() == 1


def test_only_the_groups_of_a_filter_are_planned(seeded: str) -> None:
    reader = GroupsReader(SourceOptions.parse({"kafka.bootstrap.servers": seeded}))
    left = GreaterThan(("lag",), 0)
    assert list(
        reader.pushFilters([In(("group_id",), (GROUPS[3], GROUPS[4])), EqualTo(("state",), "Empty"), left])
    ) == [left]
    planned = [group_id for chunk in reader.partitions() for group_id in chunk.groups["group_id"].to_pylist()]
    assert sorted(planned) == GROUPS[3:5]
    assert reader.filters.conditions.keys() == {"group_id", "state"}


def test_what_a_worker_has_imported_is_spared_the_garbage_collection_after_each_task(seeded: str) -> None:
    worker = """
import gc, sys
from airflow_kafka_groups.spark.source.options import SourceOptions
from airflow_kafka_groups.spark.source.reader import GroupsReader

reader = GroupsReader(SourceOptions.parse({"kafka.bootstrap.servers": sys.argv[1]}))
for chunk in reader.partitions() * 2:
    list(reader.read(chunk))
    print(gc.get_freeze_count())
"""
    done = subprocess.run([sys.executable, "-c", worker, seeded], capture_output=True, text=True, check=True)

    counts = [int(line) for line in done.stdout.split()]
    assert counts[0] > 10_000
    assert counts == sorted(counts, reverse=True), "what a task makes must not stay"


def test_a_group_without_offsets_has_one_row_so_that_it_is_not_missing(spark: SparkSession, seeded: str) -> None:
    register(spark)
    with LiveConsumer(seeded, "sparksource-live", ["sparksource-b"], commit_every=None):
        (row,) = read(spark, seeded).where("group_id = 'sparksource-live'").collect()
    assert (row.topic, row.committed_offset, row.state, row.error) == (None, None, "Stable", None)


def test_brokers_that_cannot_be_reached_are_told_with_the_machine_and_the_remedy(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(
        PySparkException, match=r"the driver on .* cannot read the groups: .*127\.0\.0\.1:1.*check bootstrap"
    ):
        read(spark, "127.0.0.1:1").collect()
    options = SourceOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(
        SourceError, match=r"the executor on .* cannot read the groups: .*127\.0\.0\.1:1.*check bootstrap"
    ):
        GroupsReader(options).read(chunk_of("g"))


def test_an_unknown_option_is_refused_at_load(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="no such option"):
        read(spark, "127.0.0.1:1", grups="a")


# What real brokers do not do on cue


def chunk_of(*group_ids: str, protocol_type: str = "") -> Chunk:
    kind: dict[str, Any] = {"type": GroupType.CLASSIC, "state": GroupState.EMPTY, "coordinator": 1}
    listings = [GroupListing(group_id=name, protocol_type=protocol_type, **kind) for name in group_ids]
    return Chunk("c", select(listings, GroupFilter(), PushedFilters()))


async def test_a_listing_that_is_not_complete_fails_the_read() -> None:
    def refuse(broker_id: int, version: int, request: object) -> object:
        code = ErrorCode.cluster_authorization_failed if broker_id == 2 else NONE
        return answers.list_groups(version, code, ("g1",))

    async with FakeCluster(groups={"g1"}) as cluster:
        cluster.control(LIST_GROUPS, refuse)
        options = SourceOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap})
        with pytest.raises(Exception, match="2"):
            await list_in_scope(options, PushedFilters())


async def test_a_group_that_fails_fails_the_read_or_is_reported_but_is_never_missing() -> None:
    def refuse(broker_id: int, version: int, request: object) -> object:
        asked = [group.group_id for group in request.groups]  # type: ignore[attr-defined]
        codes = {name: ErrorCode.group_authorization_failed if name == "bad" else NONE for name in asked}
        return answers.offset_fetch(version, codes, {("t", 0): (7, NONE)})

    async with FakeCluster(groups={"bad", "good"}) as cluster:
        cluster.control(OFFSET_FETCH, refuse)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false"}
        chunk = chunk_of("bad", "good")
        with pytest.raises(SourceError, match=r"the executor on .* group 'bad': .*option\('failures', 'report'\)"):
            await fetch(SourceOptions.parse(options), PushedFilters(), chunk)
        report = SourceOptions.parse(options | {"failures": "report"})
        (batch,) = await fetch(report, PushedFilters(), chunk)
        assert batch.schema.equals(arrow_schema(SOURCE_COLUMNS))
        rows = {row["group_id"]: row for row in batch.to_pylist()}
        assert rows["good"]["committed_offset"] == 7
        assert rows["bad"]["topic"] is None
        assert "GROUP_AUTHORIZATION_FAILED" in rows["bad"]["error"]

        filters = PushedFilters()
        list(filters.take([EqualTo(("topic",), "t")]))
        with pytest.raises(SourceError, match="a filter on topic would hide its row"):
            await fetch(report, filters, chunk)


async def test_a_coordinator_that_an_executor_does_not_reach_is_told_with_the_machine_and_the_remedy() -> None:
    async with FakeCluster(groups={"g"}) as cluster:
        ports = (int(server.rpartition(":")[2]) for server in cluster.bootstrap.split(","))
        advertised = dict(zip(cluster.versions, ports, strict=True)) | {cluster.coordinator("g"): 1}
        cluster.control(METADATA, lambda broker_id, version, request: cluster.metadata(version, ports=advertised))
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "kafka.default.api.timeout.ms": "1000"}
        with pytest.raises(
            SourceError, match=r"executor on .* group 'g': .*127\.0\.0\.1:1\b.*advertised.*Nothing was returned"
        ):
            await fetch(SourceOptions.parse(options), PushedFilters(), chunk_of("g"))


async def test_partitions_that_fail_have_rows_of_their_own_and_metadata_stays_with_its_offset() -> None:
    bad = {("t", 1): (-1, ErrorCode.topic_authorization_failed), ("u", 0): (3, NONE), ("u", 1): (-1, NONE)}

    def some(broker_id: int, version: int, request: object) -> object:
        asked = {group.group_id: NONE for group in request.groups}  # type: ignore[attr-defined]
        return answers.offset_fetch(version, asked, {("t", 0): (7, NONE), **bad})

    async with FakeCluster(groups={"g"}) as cluster:
        cluster.control(OFFSET_FETCH, some)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "with.lag": "false", "failures": "report"}
        (batch,) = await fetch(SourceOptions.parse(options), PushedFilters(), chunk_of("g"))
        rows = {(row["topic"], row["partition"]): row for row in batch.to_pylist()}
        assert {key: row["committed_offset"] for key, row in rows.items()} == {
            ("t", 0): 7,
            ("t", 1): None,
            ("u", 0): 3,
        }, "a partition without a commit has no row, one that failed has"
        errors = {key: row["error"] for key, row in rows.items() if row["error"]}
        assert list(errors) == [("t", 1)]
        assert "TOPIC_AUTHORIZATION_FAILED" in errors["t", 1]
