"""Process what a group has not read, and commit it: on a real Spark and real brokers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as CommittedPartition
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.spark.jobs.process_group_backlog import process_backlog
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.unread.group import BacklogRequest, NotCommittedError
from airflow_kafka_groups.spark.unread.ranges import BacklogPolicy
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import delete_records, quiet
from tests.spark.kafka import Submit, add, behind, committed, fetched_file, fill, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def values(rows: Any) -> list[str]:
    return sorted(bytes(row["value"]).decode() for row in rows)


def test_exactly_what_was_unread_is_written_and_then_committed(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    behind(kafka, "pb-1", {("pb-a", 0): (4, 10), ("pb-a", 1): (5, 5), ("pb-b", 0): (0, 3)})
    summary = submit("--group", "pb-1", "--output", str(tmp_path / "out"), "--result", str(tmp_path / "result.json"))
    unread = [f"pb-a-0-{number}" for number in range(4, 10)] + [f"pb-b-0-{number}" for number in range(3)]
    assert values(spark.read.parquet(str(tmp_path / "out")).collect()) == sorted(unread)
    assert committed(kafka, "pb-1", ("pb-a", 0), ("pb-a", 1), ("pb-b", 0)) == [10, 5, 3]
    assert (summary["offsets"], summary["committed"], summary["partitions_with_backlog"]) == (9, 2, 2)
    assert json.loads((tmp_path / "result.json").read_text()) == summary

    # And when there is nothing to read: nothing is called, nothing is committed, nothing fails.
    again = submit("--group", "pb-1", "--output", str(tmp_path / "none"))
    assert (again["offsets"], again["committed"], (tmp_path / "none").exists()) == (0, 0, False)


@pytest.mark.safety
def test_a_transform_that_fails_commits_nothing(kafka: str, submit: Submit, tmp_path: Path) -> None:
    behind(kafka, "pb-f", {("pb-f", 0): (2, 5)})
    seen: list[int] = []

    def fails(records: DataFrame) -> None:
        seen.append(records.count())
        raise ValueError("no such customer\nin the list")

    def leaves(records: DataFrame) -> None:
        records.count()
        sys.exit(0)

    def odd(records: DataFrame) -> Any:
        return records.count()

    def same(records: DataFrame) -> DataFrame:
        return records

    kept = ["--records", str(tmp_path / "records")]
    for transform, said in {
        fails: "the transform failed: ValueError: no such customer. Its slice was not committed",
        leaves: "the transform failed: SystemExit",
        odd: "returned a int",
        same: "there is no --output",
    }.items():
        with pytest.raises(JobError, match=said):
            submit("--group", "pb-f", *kept, transform)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "part-0").touch()
    with pytest.raises(JobError, match=r"taken exists and has part-0: give another --output, or --output-mode overwr"):
        submit("--group", "pb-f", *kept, same, "--output", str(tmp_path / "taken"))
    assert seen == [3]
    assert committed(kafka, "pb-f", ("pb-f", 0)) == [2]


@pytest.mark.safety
def test_a_result_that_cannot_be_written_hides_no_commit_and_no_failed_one(
    kafka: str, submit: Submit, tmp_path: Path
) -> None:
    """With exit code 1 for a path, nobody would look at the group; and the next run has nothing to read."""
    behind(kafka, "pb-r", {("pb-r", 0): (2, 5)})
    (tmp_path / "file").touch()

    def meanwhile(records: DataFrame) -> None:
        records.count()
        (tmp_path / "r").mkdir()
        if moved:
            commit_offsets(kafka, {"pb-r": {("pb-r", 0): 3}})

    asked = (meanwhile, *f"--group pb-r --records {tmp_path}/records --result".split())
    with pytest.raises(StorageError, match="file/r"):
        submit(*asked, f"{tmp_path}/file/r")
    assert not (tmp_path / "r").exists(), "nothing has been processed"
    moved = True
    with pytest.raises(NotCommittedError, match="moved meanwhile"):
        submit(*asked, f"{tmp_path}/r")
    (tmp_path / "r").rmdir()
    moved = False
    with pytest.raises(JobError, match=rf"ended as 'committed', with its ranges in {tmp_path}/records/.*, but .*/r"):
        submit(*asked, f"{tmp_path}/r", "--start-over")
    assert committed(kafka, "pb-r", ("pb-r", 0)) == [5]


@pytest.mark.safety
def test_the_result_of_a_job_that_was_interrupted_says_so_and_has_nothing_to_commit(
    kafka: str, submit: Submit, tmp_path: Path
) -> None:
    behind(kafka, "pb-i", {("pb-i", 0): (2, 5)})

    def interrupted(records: DataFrame) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(interrupted, *f"--group pb-i --no-commit --result {tmp_path}/r".split())
    result = json.loads((tmp_path / "r").read_text())
    assert (result["outcome"], result["error"]) == ("failed", "KeyboardInterrupt")
    assert "to_commit" not in result


@pytest.mark.safety
@pytest.mark.parametrize("folder", ["", "day=2026-01-31"])
def test_data_of_others_is_not_appended_to_since_readers_would_not_see_it(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path, folder: str
) -> None:
    """Spark passes over files beside partitions, and refuses a table whose partitions have two names."""
    output = tmp_path / "table"
    spark.range(17).write.parquet(str(output / folder))
    behind(kafka, "pb-o", {("pb-o", 0): (2, 5)})
    with pytest.raises(JobError, match=r"table has (part-|day=).*, which readers .* give an --output of its own"):
        submit("--group", "pb-o", "--output", str(output), "--output-mode", "append")
    assert committed(kafka, "pb-o", ("pb-o", 0)) == [2]
    assert spark.read.parquet(str(output)).count() == 17


def test_a_column_that_readers_would_take_from_the_folder_is_refused(
    kafka: str, submit: Submit, tmp_path: Path
) -> None:
    behind(kafka, "pb-c", {("pb-c", 0): (2, 5)})

    def named(records: DataFrame) -> DataFrame:
        return records.selectExpr("offset", "'mine' AS Backlog_Slice")

    with pytest.raises(JobError, match="has a column 'Backlog_Slice', which readers take from the folder: rename it"):
        submit("--group", "pb-c", "--output", str(tmp_path / "out"), named)
    assert committed(kafka, "pb-c", ("pb-c", 0)) == [2]


@pytest.mark.safety
def test_nothing_is_committed_for_a_group_that_somebody_used_meanwhile(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    fill(kafka, {("pb-m", 0): 5, ("pb-m2", 0): 1})
    commit_offsets(kafka, {"pb-m": {("pb-m", 0): 2}})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka)))

    def somebody_commits(records: DataFrame) -> None:
        assert records.count() == 3
        commit_offsets(kafka, {"pb-m": {("pb-m", 0): 3}})

    with pytest.raises(NotCommittedError, match=r"moved meanwhile in 1 partition\(s\): pb-m\[0\]: 2 then, 3 now"):
        process_backlog(spark, properties, "pb-m", somebody_commits)
    assert committed(kafka, "pb-m", ("pb-m", 0)) == [3]

    def somebody_commits_elsewhere(records: DataFrame) -> None:
        assert records.count() == 2
        commit_offsets(kafka, {"pb-m": {("pb-m2", 0): 1}})

    with pytest.raises(NotCommittedError, match=r"pb-m2\[0\]: no commit then, 1 now"):
        process_backlog(spark, properties, "pb-m", somebody_commits_elsewhere)

    def somebody_joins(records: DataFrame) -> None:
        records.count()
        joined.start()
        joined.wait_assigned()

    joined = LiveConsumer(kafka, "pb-m", ["pb-m2"], commit_every=None)
    try:
        with pytest.raises(NotCommittedError, match=r"has 1 member\(s\)"):
            process_backlog(spark, properties, "pb-m", somebody_joins)
        assert committed(kafka, "pb-m", ("pb-m", 0)) == [3]
        with pytest.raises(JobError, match=r"has 1 member\(s\): stop its consumers first"):
            process_backlog(spark, properties, "pb-m", lambda records: pytest.fail("the group is in use"))
    finally:
        joined.stop()


@pytest.mark.safety
def test_fetched_offsets_bound_the_read_and_have_to_hold_still(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    behind(kafka, "pb-x", {("pb-x", 0): (2, 6)})
    path = fetched_file(tmp_path / "b.json", "pb-x", {("pb-x", 0): 2}, {("pb-x", 0): 6})
    add(kafka, {("pb-x", 0): 4})
    given = ["--backlog", str(path), "--output", str(tmp_path / "out")]
    result = tmp_path / "result.json"
    summary = submit(*given, "--no-commit", "--result", str(result))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4
    assert (summary["committed"], committed(kafka, "pb-x", ("pb-x", 0))) == (0, [2])
    assert [row["offset"] for row in json.loads(result.read_text())["to_commit"]] == [6]

    commit_offsets(kafka, {"pb-x": {("pb-x", 0): 3}})
    with pytest.raises(JobError, match=r"not where run \S+ left it.*pb-x\[0\]: 2 then, 3 now.*Fetch its offsets again"):
        submit(*given, "--no-commit", "--result", str(result))
    failed = json.loads(result.read_text())
    assert (failed["outcome"], failed["backlog_id"], "to_commit" in failed) == ("failed", "b", False)
    assert "Fetch its offsets again" in failed["error"]
    with pytest.raises(JobError, match=r"moved since its offsets were fetched.*pb-x\[0\]: 2 then, 3 now. Fetch them"):
        submit(*given, "--records", str(tmp_path / "other"), "--output-mode", "append")
    fetched_file(path, "pb-x", {("pb-x", 0): 3}, {("pb-x", 0): 6}, kafka_cluster_id="another")
    with pytest.raises(JobError, match="fetched from the cluster another"):
        submit(*given)


def test_what_retention_removed_and_what_was_never_committed_are_decided_by_name(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    fill(kafka, {("pb-r", 0): 8, ("pb-r", 1): 2})
    commit_offsets(kafka, {"pb-r": {("pb-r", 0): 1}})
    delete_records(kafka, {("pb-r", 0): 5})
    output = ["--group", "pb-r", "--output", str(tmp_path / "out")]
    with pytest.raises(JobError, match=r"committed at 1, and its log starts at 5.*--on-data-loss skip-to-start"):
        submit(*output)
    with pytest.raises(JobError, match=r"pb-r\[1\] has no commit. Decide by --on-no-commit"):
        submit(*output, "--on-data-loss", "skip-to-start")
    assert committed(kafka, "pb-r", ("pb-r", 0), ("pb-r", 1)) == [1, -1001]
    summary = submit(*output, "--on-data-loss", "skip-to-start", "--on-no-commit", "from-start")
    assert (summary["offsets_lost"], summary["lost"], summary["offsets"]) == (4, {"pb-r[0]": 4}, 5)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 5
    assert committed(kafka, "pb-r", ("pb-r", 0), ("pb-r", 1)) == [8, 2]


def test_a_group_that_commits_nothing_yet_begins_where_it_is_told(kafka: str, submit: Submit, tmp_path: Path) -> None:
    fill(kafka, {("pb-n", 0): 3})
    with pytest.raises(JobError, match="has no commits to be seen: name its topics by --topic"):
        submit("--group", "pb-new", "--output", str(tmp_path / "out"))
    with pytest.raises(ArgumentError, match=r"--topic \(got 'pb-typo'\): there is no such topic"):
        submit("--group", "pb-new", "--topic", "pb-typo", "--output", str(tmp_path / "out"))
    summary = submit(
        *("--group", "pb-new", "--topic", "pb-n", "--on-no-commit", "from-end", "--output", str(tmp_path / "out"))
    )
    assert (summary["offsets"], summary["committed"]) == (0, 1)
    assert committed(kafka, "pb-new", ("pb-n", 0)) == [3]


@pytest.mark.safety
def test_an_open_transaction_is_neither_read_nor_taken_for_no_commit(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    fill(kafka, {("pb-tx", 0): 4, ("pb-tx", 1): 1})
    commit_offsets(kafka, {"pb-tx": {("pb-tx", 0): 1, ("pb-tx", 1): 1}, "pb-tx2": {("pb-tx", 0): 1, ("pb-tx", 1): 1}})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka)))
    consumer = Consumer(quiet(kafka, group_id="pb-tx"))
    producer = Producer(quiet(kafka, transactional_id="pb-tx"))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("pb-tx", b"in a transaction", partition=0)
    assert producer.flush(60) == 0
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([CommittedPartition("pb-tx", 0, 3)], group, 60)
    try:
        # Java's client leaves such a partition out of its answer: that must not read as "no commit".
        request = BacklogRequest(group_id="pb-tx", policy=BacklogPolicy(on_no_commit="from-start"))
        with pytest.raises(
            JobError, match=r"cannot be read in 1 partition\(s\), first pb-tx\[0\]: a transaction may be open"
        ):
            process_backlog(spark, properties, request, lambda records: pytest.fail("nothing may be read"))
        counted: list[int] = []
        process_backlog(spark, properties, "pb-tx2", lambda records: counted.append(records.count()))
        assert counted == [3], "the records before the open transaction"
        assert committed(kafka, "pb-tx2", ("pb-tx", 0)) == [4]
    finally:
        producer.abort_transaction(60)
        consumer.close()
    # Brokers answer before they have written to all partitions that the transaction has ended. This waits for it.
    assert committed(kafka, "pb-tx", ("pb-tx", 0)) == [1]
    assert process_backlog(spark, properties, "pb-tx", lambda records: counted.append(records.count()))["offsets"] == 5
    assert counted == [3, 3], "what was aborted is not read, and is passed over"
    assert committed(kafka, "pb-tx", ("pb-tx", 0)) == [6]


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("kafka28", marks=pytest.mark.kafka("2.8.2")),
        pytest.param("kafka41", marks=pytest.mark.kafka("4.1.0")),
    ],
)
@pytest.mark.connector
def test_old_and_new_brokers(spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, version: str) -> None:
    bootstrap = request.getfixturevalue(version).bootstrap
    places = [("pb-v", partition) for partition in range(3)]  # each on another one of three brokers
    fill(bootstrap, {places[0]: 3, places[1]: 4, places[2]: 5})
    commit_offsets(bootstrap, {"pb-v": dict.fromkeys(places, 1)})
    properties = load_properties(spark, str(write_properties(tmp_path, bootstrap)))
    counted: list[int] = []
    summary = process_backlog(spark, properties, "pb-v", lambda records: counted.append(records.count()))
    assert (counted, summary["committed"], committed(bootstrap, "pb-v", *places)) == ([9], 3, [3, 4, 5])


@pytest.mark.safety
def test_a_connection_that_must_not_change_anything_is_obeyed(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    behind(kafka, "pb-guarded", {("pb-g", 0): (1, 3)})

    def never(records: DataFrame) -> None:
        pytest.fail("nothing may be read")

    for switch, said in {
        "kafka_groups.read_only": ("true", "read-only"),
        "kafka_groups.protected": ('["pb-guard.*"]', "protects group 'pb-guarded'"),
    }.items():
        path = write_properties(tmp_path, kafka, **{switch: said[0]})
        with pytest.raises(JobError, match=said[1]):
            process_backlog(spark, load_properties(spark, str(path)), "pb-guarded", never)
    # Reading alone is allowed, and left to somebody else to commit.
    request = BacklogRequest(group_id="pb-guarded", commit=False)
    properties = load_properties(spark, str(path))
    assert process_backlog(spark, properties, request, lambda records: [records.count()].clear())["offsets"] == 2
    assert committed(kafka, "pb-guarded", ("pb-g", 0)) == [1]
