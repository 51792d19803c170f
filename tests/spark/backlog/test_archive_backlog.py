"""What doomed groups never read is kept: what is in the archive equals what was produced."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError, StorageError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.spark.frames import ARCHIVE_SCHEMA
from airflow_kafka_groups.spark.jobs import archive_backlog as archives
from airflow_kafka_groups.spark.jobs.archive_backlog import (
    archive_name,
    check_archive,
    main,
    of_groups,
    parse_arguments,
    read_archive,
    read_plan,
    run,
    shared_ranges,
    write_archive,
)
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from airflow_kafka_groups.spark.session import settings_of
from airflow_kafka_groups.spark.snapshots import rows_of_groups
from airflow_kafka_groups.spark.unread.group import commits_in_snapshot
from airflow_kafka_groups.spark.unread.ranges import Backlog
from airflow_kafka_groups.storage.layout import Layout
from tests.histories.shorthand import seen
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import delete_records, delete_topics, quiet, wait_for_topics
from tests.spark.kafka import add, behind, fill, write_properties
from tests.spark.rows import snapshot_rows
from tests.unit.change.plan.plans import group
from tests.unit.change.plan.plans import plan as deletion_plan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

A0, A1 = Partition("a", 0), Partition("a", 1)
Archive = Callable[..., dict[str, Any]]


@pytest.fixture
def archive(spark: SparkSession, kafka: str, tmp_path: Path) -> Archive:
    properties = write_properties(tmp_path, kafka)
    common = ["--kafka-properties", str(properties), "--base", tmp_path.as_uri(), "--cluster", "c"]
    return lambda *arguments: run(spark, parse_arguments([*common, *arguments]))


def snapshot(bootstrap: str, base: Path, *group_ids: str) -> str:
    async def take() -> str:
        async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
            return (await take_snapshot(admin, Layout(base, "c"), group_ids=group_ids)).snapshot_id

    return asyncio.run(take())


def backlog(*ranges: Range) -> Backlog:
    return Backlog(ranges=ranges, ends={each.partition: each.end for each in ranges})


def test_the_archive_equals_what_was_produced(
    spark: SparkSession, kafka: str, archive: Archive, tmp_path: Path
) -> None:
    fill(kafka, {("ab-a", 0): 10, ("ab-a", 1): 4, ("ab-b", 0): 3})
    commit_offsets(
        kafka,
        {
            "ab/odd group=1": {("ab-a", 0): 4, ("ab-a", 1): 4, ("ab-b", 0): 0},
            "ab-007": {("ab-a", 0): 8},
            "ab-done": {("ab-b", 0): 3},
        },
    )
    groups = ["ab/odd group=1", "ab-007", "ab-done"]
    snapshot_id = snapshot(kafka, tmp_path, *groups)
    summary = archive(*(argument for group in groups for argument in ("--group", group)))
    rows = spark.read.schema(ARCHIVE_SCHEMA).parquet(summary["output"]).collect()
    found = sorted((row["group_id"], row["topic"], row["partition"], row["offset"]) for row in rows)
    assert found == sorted(
        [("ab/odd group=1", "ab-a", 0, number) for number in range(4, 10)]
        + [("ab/odd group=1", "ab-b", 0, number) for number in range(3)]
        + [("ab-007", "ab-a", 0, number) for number in (8, 9)]
    )
    for row in rows:
        assert bytes(row["value"]).decode() == f"{row['topic']}-{row['partition']}-{row['offset']}"
        assert bytes(row["key"]).decode() == f"k{row['offset']}"
    assert (summary["groups"], summary["records"], summary["offsets"], summary["exact"]) == (3, 11, 11, True)
    (path,) = (tmp_path / "c" / "summaries" / "archives").glob("*.json")
    assert Path(summary["output"]).parent.name == "archives"
    assert Path(summary["output"]).name.startswith(f"archive_id={archive_name(snapshot_id, groups)}-")
    assert path.name == f"{archive_name(snapshot_id, groups)}.json"
    assert json.loads(path.read_text()) == summary
    assert archive("--group", "ab-007")["records"] == 2, "other groups of the same snapshot are not in its way"


def test_a_group_that_read_everything_has_an_empty_archive(
    spark: SparkSession, kafka: str, archive: Archive, tmp_path: Path
) -> None:
    behind(kafka, "ab-e", {("ab-e", 0): (2, 2)})
    snapshot(kafka, tmp_path, "ab-e")
    summary = archive("--group", "ab-e", "--output", str(tmp_path / "out"))
    assert (summary["records"], summary["exact"]) == (0, True)
    assert spark.read.schema(ARCHIVE_SCHEMA).parquet(str(tmp_path / "out")).count() == 0


def test_offsets_without_a_record_are_counted_and_explained(kafka: str, archive: Archive, tmp_path: Path) -> None:
    fill(kafka, {("ab-t", 0): 2, ("ab-k", 0): 2})
    producer = Producer(quiet(kafka, transactional_id="ab-t"))
    producer.init_transactions(60)
    for number, commit in ((0, True), (1, False)):  # one marker each; what is aborted is not archived
        producer.begin_transaction()
        producer.produce("ab-t", f"transactional {number}", partition=0)
        assert producer.flush(60) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    commit_offsets(kafka, {"ab-t": {("ab-t", 0): 1}})
    snapshot(kafka, tmp_path, "ab-t")
    summary = archive("--group", "ab-t", "--output", str(tmp_path / "out"))
    assert (summary["offsets"], summary["records"], summary["offsets_without_record"]) == (5, 2, 3)
    (partition,) = summary["partitions"]
    assert partition["without_record"] == 3
    uncommitted = archive("--group", "ab-t", "--isolation-level", "read_uncommitted", "--output", str(tmp_path / "all"))
    assert uncommitted["records"] == 3
    with pytest.raises(JobError, match="3 offsets have no record"):
        archive("--group", "ab-t", "--require-exact", "--output", str(tmp_path / "exact"))
    assert not (tmp_path / "exact.json").exists()


@pytest.mark.safety
def test_what_an_open_transaction_hides_is_told_and_counted(kafka: str, archive: Archive, tmp_path: Path) -> None:
    """The archive called itself exact, and lacked what others wrote since the transaction began."""
    behind(kafka, "ab-h", {("ab-h", 0): (1, 3)})
    producer = Producer(quiet(kafka, transactional_id="ab-h"))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("ab-h", "open", partition=0)
    assert producer.flush(60) == 0
    add(kafka, {("ab-h", 0): 2})
    snapshot(kafka, tmp_path, "ab-h")
    summary = archive("--group", "ab-h", "--output", str(tmp_path / "out"))
    assert (summary["offsets"], summary["records"]) == (2, 2)
    assert (summary["exact"], summary["offsets_behind_open_transaction"]) == (False, 3)
    assert [text[:45] for text in summary["warnings"]] == ["3 unread offsets are behind the beginning of "]
    with pytest.raises(JobError, match="3 offsets have no record"):
        archive("--group", "ab-h", "--require-exact", "--output", str(tmp_path / "exact"))
    whole = archive("--group", "ab-h", "--isolation-level", "read_uncommitted", "--output", str(tmp_path / "all"))
    assert (whole["records"], whole["exact"], whole["warnings"]) == (5, True, [])
    producer.abort_transaction(60)


def test_partitions_in_which_a_group_never_committed_are_told(kafka: str, archive: Archive, tmp_path: Path) -> None:
    """They were added after the group's last commit: the archive does not have what was written there."""
    behind(kafka, "ab-n", {("ab-n", 0): (1, 3)})
    admin = LibrdkafkaAdmin(quiet(kafka))  # its futures fail once it is gone
    admin.create_partitions([NewPartitions("ab-n", 3)])["ab-n"].result(60)
    wait_for_topics(kafka, {"ab-n": 3})
    snapshot(kafka, tmp_path, "ab-n")
    summary = archive("--group", "ab-n", "--output", str(tmp_path / "nothing"))
    assert (summary["partitions_without_commit"], summary["warnings"]) == (0, []), "they are empty"
    add(kafka, {("ab-n", 2): 4})
    summary = archive("--group", "ab-n", "--output", str(tmp_path / "some"))
    assert (summary["records"], summary["partitions_without_commit"]) == (2, 1)
    (said,) = summary["warnings"]
    assert "(first: group 'ab-n', ab-n[2]). These records are not archived" in said


def test_what_is_gone_stops_the_archive_or_is_left_out_by_name(kafka: str, archive: Archive, tmp_path: Path) -> None:
    behind(kafka, "ab-g", {("ab-gone", 0): (1, 2), ("ab-cut", 0): (1, 6)})
    snapshot(kafka, tmp_path, "ab-g")
    delete_topics(kafka, ["ab-gone"])
    delete_records(kafka, {("ab-cut", 0): 4})
    said = r"ab-cut\[0\] is committed at 1, and its log starts at 4.*ab-gone\[0\] does not exist any more"
    with pytest.raises(JobError, match=said):
        archive("--group", "ab-g")
    summary = archive("--group", "ab-g", "--on-missing-topic", "skip", "--on-data-loss", "skip-to-start")
    assert (summary["records"], summary["offsets_lost"], len(summary["decided"])) == (2, 3, 2)
    assert summary["exact"] is False, "3 of 5 unread records of a topic are not in it, and of another topic none"
    with pytest.raises(
        JobError, match=r"; 2 partition\(s\) were decided on, first ab-cut\[0\] is committed at 1, and its"
    ):
        archive(
            *("--group", "ab-g", "--on-missing-topic", "skip", "--on-data-loss", "skip-to-start"),
            *("--require-exact", "--output", str(tmp_path / "exact")),
        )


def test_a_plan_names_its_groups_and_its_snapshot(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session belongs to all tests
    behind(kafka, "ab-p", {("ab-p", 0): (1, 3)})
    snapshot_id = snapshot(kafka, tmp_path, "ab-p")
    plan = deletion_plan(plan_id=snapshot_id, cluster="c", snapshot_id=snapshot_id, groups=(group("ab-p"),))
    path = Path(str(save_plan(Layout(tmp_path, "c"), plan)))
    written = json.loads(path.read_text())
    arguments = ["--kafka-properties", str(write_properties(tmp_path, kafka)), "--base", tmp_path.as_uri()]
    arguments += ["--cluster", "c", "--plan-id"]
    assert main([*arguments, snapshot_id]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["plan_id"], summary["records"], summary["partitions"]) == (snapshot_id, 2, 1)
    assert main([*arguments, snapshot_id]) == 0
    assert "is of the same request" in json.loads(capsys.readouterr().out.splitlines()[-1])["warnings"][0]
    assert main([*arguments, snapshot_id, "--require-exact"]) == 1
    assert "archive_backlog: error: " in (said := capsys.readouterr().err.splitlines()[-1])
    assert "is of another request (its require_exact): an archive is never overwritten" in said
    assert main([*arguments, "newest"]) == 2
    folder = (tmp_path / "c").as_uri()
    path.write_text(json.dumps({**written, "warnings": []}))
    with pytest.raises(JobError, match="was changed after it was made"):
        read_plan(spark, folder, snapshot_id)
    path.write_text("{}")
    with pytest.raises(JobError, match=rf"{path.name} is not a plan"):
        read_plan(spark, folder, snapshot_id)


@pytest.mark.safety
def test_a_plan_of_two_files_is_read_and_neither_may_be_edited(spark: SparkSession, tmp_path: Path) -> None:
    plan = deletion_plan(groups=(group("ab-1"), group("ab-ü")))
    header = Path(str(save_plan(Layout(tmp_path, plan.cluster), plan)))
    folder = (tmp_path / plan.cluster).as_uri()
    assert read_plan(spark, folder, plan.plan_id) == ({"ab-1", "ab-ü"}, plan.snapshot_id)
    other = header.with_name("20260301T130000Z-0123abcd.json")
    for suffix in (".json", ".parquet"):
        other.with_suffix(suffix).write_bytes(header.with_suffix(suffix).read_bytes())
    with pytest.raises(JobError, match=rf"{other.name} is plan {plan.plan_id} of cluster prod: it was copied"):
        read_plan(spark, folder, other.stem)
    copytree(tmp_path / plan.cluster, tmp_path / "elsewhere")
    with pytest.raises(JobError, match="of cluster prod: it was copied"):
        read_plan(spark, (tmp_path / "elsewhere").as_uri(), plan.plan_id)
    header.with_suffix(".parquet").write_bytes(deletion_plan(groups=(group("another"),)).body)
    with pytest.raises(JobError, match="does not hold the groups of the plan"):
        read_plan(spark, folder, plan.plan_id)
    header.with_suffix(".parquet").unlink()
    with pytest.raises(StorageError, match="could not be read"):
        read_plan(spark, folder, plan.plan_id)
    header.write_text(header.read_text().replace("prod", "another"))
    with pytest.raises(JobError, match="was changed after it was made"):
        read_plan(spark, folder, plan.plan_id)


def test_groups_of_which_the_snapshot_does_not_know_all_are_refused(spark: SparkSession) -> None:
    rows = [
        *seen(0, group="fine"),
        *seen(0, group="live", state="Stable", members=1),
        *seen(0, group="torn", log_end=None, error="TOPIC_AUTHORIZATION_FAILED"),
    ]
    stored = snapshot_rows(spark, rows)

    def read(*names: str) -> set[str]:
        return {*commits_in_snapshot(rows_of_groups(stored, {*names}), {*names})}

    assert read("fine") == {"fine"}
    said = r"'away' is not in the snapshot; group 'live' was Stable, not Empty; group 'torn' could not be read \(TOPIC"
    with pytest.raises(JobError, match=said):
        read("fine", "live", "torn", "away")


def test_partitions_are_read_once_for_all_groups() -> None:
    backlogs = {"x": backlog(Range(A0, 4, 9), Range(A1, 0, 2)), "y": backlog(Range(A0, 7, 9))}
    assert shared_ranges(backlogs) == [Range(A0, 4, 9), Range(A1, 0, 2)]


def test_an_archive_needs_no_word_that_a_session_reserves(spark: SparkSession, tmp_path: Path) -> None:
    strict = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.enforceReservedKeywords": "true"}
    wanted = {"x": backlog(Range(A0, 4, 6))}
    with settings_of(spark, {**strict, "spark.sql.ansi.doubleQuotedIdentifiers": "true"}):
        records = spark.createDataFrame(
            [(None, b"v", "a", 0, offset, None, 0, None) for offset in (4, 5, 6)], RECORD_SCHEMA
        )
        write_archive(of_groups(records, wanted), str(tmp_path / "archive"), "parquet")
        assert check_archive(spark, str(tmp_path / "archive"), "parquet", wanted)["records"] == 2


def test_an_archive_that_is_not_what_was_asked_for_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    records = spark.createDataFrame(
        [(None, b"v", "a", 0, offset, None, 0, None) for offset in (4, 5, 6)], RECORD_SCHEMA
    )
    wanted = {"x": backlog(Range(A0, 4, 7))}
    folder = str(tmp_path / "archive")
    write_archive(of_groups(records, wanted), folder, "parquet")
    (count,) = check_archive(spark, folder, "parquet", wanted)["partitions"]
    assert (count["records"], count["without_record"]) == (3, 0)
    for other, said in (
        ({"x": backlog(Range(A0, 4, 6))}, r"3 records with 3 offsets from 4 to 6, and \[4, 6\) was asked for"),
        ({"y": backlog(Range(A0, 4, 7))}, "has rows of group 'x'"),
    ):
        with pytest.raises(JobError, match=said):
            check_archive(spark, folder, "parquet", other)
    twice = str(tmp_path / "twice")
    write_archive(of_groups(records.union(records), wanted), twice, "parquet")
    with pytest.raises(JobError, match="6 records with 3 offsets"):
        check_archive(spark, twice, "parquet", wanted)
    (short,) = check_archive(spark, folder, "parquet", {"x": backlog(Range(A0, 4, 9))})["partitions"]
    assert short["without_record"] == 2


@pytest.mark.parametrize("extra", [[], ["--plan-id", "p", "--group", "g"]])
def test_either_a_plan_or_groups_are_given(capsys: pytest.CaptureFixture[str], extra: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--kafka-properties", "x", "--base", "/b", "--cluster", "c", *extra])
    assert ended.value.code == 2
    assert "give either a plan or groups" in capsys.readouterr().err


def test_an_archive_in_another_format_is_no_part_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One file of ORC, and no reader of Parquet reads the archives of any plan."""
    given = ["--kafka-properties", "x", "--base", "/b", "--cluster", "c", "--group", "g", "--format"]
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*given, "orc"])
    assert ended.value.code == 2
    assert "--output (got None): give a folder for an archive as orc: the table archives is Parquet" in (
        capsys.readouterr().err
    )
    assert parse_arguments([*given, "orc", "--output", "/b/o"]).format == "orc"
    assert parse_arguments([*given, "PARQUET"]).output is None


def test_sixty_groups_of_a_topic_are_archived_in_few_files_by_topic_and_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A folder for each group made 480 files of 23 KB; each name of Kafka's, and each clock, has its place."""
    topic, groups = "t" * 249, [f"g{number}" for number in range(57)] + ["", "a\0b", "é" * 124]
    days = [datetime(2026, 1, day, 23, tzinfo=UTC) for day in (1, 2)] + [None, datetime(9999, 1, 1, tzinfo=UTC)]
    records = [(None, b"v", topic, offset % 8, offset, days[offset % 4], 0, None) for offset in range(80)]
    wanted = {name: backlog(*(Range(Partition(topic, number), 0, 80) for number in range(8))) for name in groups}
    archived = of_groups(spark.createDataFrame(records, RECORD_SCHEMA).repartition(8), wanted)
    with settings_of(spark, {"spark.sql.shuffle.partitions": "8"}):
        write_archive(archived, str(tmp_path / "out"), "parquet")
    files = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.parquet")]
    assert len(files) <= 4
    folders = {f"topic={topic}/day={day}" for day in ("2026-01-01", "2026-01-02", "unknown")}
    assert {str(path.parent) for path in files} == folders
    assert check_archive(spark, str(tmp_path / "out"), "parquet", wanted)["records"] == 60 * 80
    found = read_archive(spark, str(tmp_path / "out"), "parquet").select("group_id", "topic").distinct().collect()
    assert {(row["group_id"], row["topic"]) for row in found} == {(name, topic) for name in groups}


@pytest.mark.parametrize("size", ["20KB", "1GB"])
def test_an_archive_s_files_have_the_size_that_is_aimed_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setitem(archives._SIZE, "spark.sql.adaptive.advisoryPartitionSizeInBytes", size)
    records = spark.range(0, 2_000, 1, 8).selectExpr(
        *("NULL AS key", "unhex(repeat(sha2(string(id), 256), 4)) AS value", "'a' AS topic", "0 AS partition"),
        *("id AS offset", "current_timestamp() AS timestamp", "0 AS timestampType", "NULL AS headers"),
    )
    write_archive(of_groups(records, {"g": backlog(Range(A0, 0, 2_000))}), str(tmp_path / "out"), "parquet")
    files = list((tmp_path / "out").rglob("*.parquet"))
    assert len(files) == 1 if size == "1GB" else len(files) > 4


def test_a_group_with_two_commits_in_one_partition_is_refused() -> None:
    """What is between the two would be in no archive, if the later one counted."""
    rows = [*seen(0, group="g", offsets={("t", 0): 5}), *seen(0, group="g", offsets={("t", 0): 50})]
    with pytest.raises(JobError, match=r"'g' is there twice, with t\[0\] committed at 5 and 50: nothing was archived"):
        commits_in_snapshot(rows, {"g"})
    assert commits_in_snapshot([rows[0]] * 2, {"g"})["g"][Partition("t", 0)]


@pytest.mark.parametrize("lacking", ["partition", "committed_offset"])
def test_a_row_that_lacks_a_partition_or_an_offset_is_no_commit(lacking: str) -> None:
    (row,) = seen(0, group="g", offsets={("t", 0): 5})
    with pytest.raises(JobError, match="'g' has a row of t without a partition or an offset: nothing was archived"):
        commits_in_snapshot([row | {lacking: None}], {"g"})
