"""Process what a group has not read, and commit it: on a real Spark and real brokers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark.backlog_commit import NotCommittedError
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, ArgumentError, JobError
from airflow_kafka_groups.spark.jobs.process_group_backlog import main, parse_arguments, run
from airflow_kafka_groups.spark.kafka_properties import load_properties
from airflow_kafka_groups.spark.kafka_reader import explain
from airflow_kafka_groups.spark.preflight import connector_warnings, prepare_kafka
from airflow_kafka_groups.spark.process import BacklogRequest, process_backlog
from tests.lab.cluster import KafkaCluster
from tests.lab.live import LiveConsumer
from tests.lab.ports import free_ports
from tests.lab.topics import quiet
from tests.spark.kafka import add, commit_offsets, committed, fetched_file, fill, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def kafka(kafka41: KafkaCluster) -> str:
    return kafka41.bootstrap


@pytest.fixture
def submit(spark: SparkSession, kafka: str, tmp_path: Path) -> Submit:
    properties = write_properties(tmp_path, kafka)

    def run_job(*arguments: str) -> dict[str, Any]:
        return run(spark, parse_arguments(["--kafka-properties", str(properties), *arguments]))

    return run_job


@pytest.fixture
def transforms(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module; tests put their functions into it."""
    module = ModuleType("users_transforms")
    monkeypatch.setitem(sys.modules, "users_transforms", module)
    return module


def values(rows: Any) -> list[str]:
    return sorted(bytes(row["value"]).decode() for row in rows)


def test_exactly_what_was_unread_is_written_and_then_committed(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    fill(kafka, {("pb-a", 0): 10, ("pb-a", 1): 5, ("pb-b", 0): 3})
    commit_offsets(kafka, {"pb-1": {("pb-a", 0): 4, ("pb-a", 1): 5, ("pb-b", 0): 0}})
    summary = submit("--group", "pb-1", "--output", str(tmp_path / "out"), "--result", str(tmp_path / "result.json"))
    unread = [f"pb-a-0-{number}" for number in range(4, 10)] + [f"pb-b-0-{number}" for number in range(3)]
    assert values(spark.read.parquet(str(tmp_path / "out")).collect()) == sorted(unread)
    assert committed(kafka, "pb-1", ("pb-a", 0), ("pb-a", 1), ("pb-b", 0)) == [10, 5, 3]
    assert (summary["offsets"], summary["committed"], summary["partitions_with_backlog"]) == (9, 2, 2)
    assert json.loads((tmp_path / "result.json").read_text()) == summary

    # And when there is nothing to read: nothing is called, nothing is committed, nothing fails.
    again = submit("--group", "pb-1", "--output", str(tmp_path / "none"))
    assert (again["offsets"], again["committed"], (tmp_path / "none").exists()) == (0, 0, False)


def test_a_transform_that_fails_commits_nothing(
    kafka: str, submit: Submit, transforms: ModuleType, tmp_path: Path
) -> None:
    fill(kafka, {("pb-f", 0): 5})
    commit_offsets(kafka, {"pb-f": {("pb-f", 0): 2}})
    seen: list[int] = []

    def fails(records: DataFrame) -> None:
        seen.append(records.count())
        raise ValueError("no such customer")

    def leaves(records: DataFrame) -> None:
        records.count()
        sys.exit(0)

    def lazy(records: DataFrame) -> None:
        records.select("value")

    def odd(records: DataFrame) -> Any:
        return records.count()

    transforms.__dict__.update(fails=fails, leaves=leaves, lazy=lazy, odd=odd, same=lambda records: records)
    for name, said in {
        "fails": "the transform failed: ValueError: no such customer. Nothing was committed",
        "leaves": "the transform failed: SystemExit",
        "lazy": "ran no Spark job",
        "odd": "returned a int",
        "same": "there is no --output",
    }.items():
        with pytest.raises(JobError, match=said):
            submit("--group", "pb-f", "--transform", f"users_transforms:{name}")
    (tmp_path / "taken").mkdir()
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        submit("--group", "pb-f", "--transform", "users_transforms:same", "--output", str(tmp_path / "taken"))
    assert seen == [3]
    assert committed(kafka, "pb-f", ("pb-f", 0)) == [2]


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


def test_fetched_offsets_bound_the_read_and_have_to_hold_still(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    fill(kafka, {("pb-x", 0): 6})
    commit_offsets(kafka, {"pb-x": {("pb-x", 0): 2}})
    path = fetched_file(tmp_path / "b.json", "pb-x", {("pb-x", 0): 2}, {("pb-x", 0): 6})
    add(kafka, {("pb-x", 0): 4})
    given = ["--backlog", str(path), "--output", str(tmp_path / "out")]
    result = tmp_path / "result.json"
    summary = submit(*given, "--no-commit", "--result", str(result))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4
    assert (summary["committed"], committed(kafka, "pb-x", ("pb-x", 0))) == (0, [2])
    assert [row["offset"] for row in json.loads(result.read_text())["to_commit"]] == [6]

    commit_offsets(kafka, {"pb-x": {("pb-x", 0): 3}})
    with pytest.raises(JobError, match=r"moved since its offsets were fetched.*pb-x\[0\]: 2 then, 3 now"):
        submit(*given, "--no-commit", "--result", str(result))
    assert not result.exists(), "the result of a run that failed must not be taken for this one's"
    fetched_file(path, "pb-x", {("pb-x", 0): 3}, {("pb-x", 0): 6}, kafka_cluster_id="another")
    with pytest.raises(JobError, match="fetched from the cluster another"):
        submit(*given)


def test_what_retention_removed_and_what_was_never_committed_are_decided_by_name(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    fill(kafka, {("pb-r", 0): 8, ("pb-r", 1): 2})
    commit_offsets(kafka, {"pb-r": {("pb-r", 0): 1}})
    admin = AdminClient(quiet(kafka))  # its futures fail once it is gone
    for future in admin.delete_records([TopicPartition("pb-r", 0, 5)]).values():
        future.result(60)
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


def test_a_connection_that_must_not_change_anything_is_obeyed(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    fill(kafka, {("pb-g", 0): 3})
    commit_offsets(kafka, {"pb-guarded": {("pb-g", 0): 1}})

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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it has no bootstrap.servers"),
        ("bootstrap.servers=x:1\nkafka.security.protocol=SSL", "write security.protocol, without the prefix"),
        ("bootstrap.servers=x:1\ngroup.id=g", "take group.id out: Spark sets it itself"),
        ("bootstrap.servers=x:1\nkafka_groups.readonly=true", "kafka_groups.readonly is not known"),
        ("bootstrap.servers=x:1\nkafka_groups.read_only=yes", "must be true or false"),
        ('bootstrap.servers=x:1\nkafka_groups.protected=["("]', "must be a JSON list of regular expressions"),
        ("bootstrap.servers=x:1\nsasl.jaas.config=s3cret\\u00zz", "cannot be read as a Java properties file"),
    ],
)
def test_a_bad_properties_file_is_refused_without_showing_what_is_in_it(
    spark: SparkSession, tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "bad.properties"
    path.write_text(content)
    with pytest.raises(ArgumentError, match=said) as refused:
        load_properties(spark, str(path))
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ArgumentError, match="there is no such file"):
        load_properties(spark, str(tmp_path / "none"))


def test_brokers_that_cannot_be_reached_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    path = write_properties(
        tmp_path, f"127.0.0.1:{port}", default__api__timeout__ms="2000", request__timeout__ms="1000"
    )
    with pytest.raises(JobError, match=rf"the cluster does not answer: Timeout.*Check.*127.0.0.1:{port}"):
        process_backlog(spark, load_properties(spark, str(path)), "g", lambda records: None)


def test_the_session_has_a_connector_that_fits(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_kafka(spark, python_on_workers=True) == []
    assert "has to be 4.2.0" in connector_warnings("", "4.2.0", "")[0]
    assert "is of Spark 4.2.1, and this is Spark 4.2.0: use it" in connector_warnings("4.2.1", "4.2.0", "use it")[0]
    with pytest.raises(JobError, match=r"is of Spark 4\.1\.3, and this is Spark 4\.2\.0: use it"):
        connector_warnings("4.1.3", "4.2.0", "use it")
    monkeypatch.setitem(
        sys.modules["airflow_kafka_groups.spark.preflight"]._CONNECTOR_CLASSES, "commons-pool2", "no.such.Class"
    )
    said = "no commons-pool2 on its class path.*--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    with pytest.raises(JobError, match=said):
        prepare_kafka(spark)


def test_every_end_has_its_exit_code(
    spark: SparkSession,
    kafka: str,
    tmp_path: Path,
    transforms: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session belongs to all tests
    fill(kafka, {("pb-z", 0): 3})
    commit_offsets(kafka, {"pb-z": {("pb-z", 0): 1}})
    properties = str(write_properties(tmp_path, kafka))

    def fails_in_spark(records: DataFrame) -> None:
        records.selectExpr("raise_error('no good record')").collect()

    def somebody_commits(records: DataFrame) -> None:
        records.count()
        commit_offsets(kafka, {"pb-z": {("pb-z", 0): 2}})

    transforms.__dict__.update(fails_in_spark=fails_in_spark, somebody_commits=somebody_commits)
    common = ["--kafka-properties", properties, "--group"]
    ends = [
        ([*common, "pb-z", "--transform", "users_transforms:fails_in_spark"], 1, "no good record"),
        ([*common, "pb-none", "--output", str(tmp_path / "o")], 1, "has no commits to be seen"),
        ([*common, "pb-z", "--transform", "no_such:f"], 2, "--transform (got 'no_such:f')"),
        ([*common, "pb-z", "--transform", "users_transforms:somebody_commits"], 3, "the records are processed, but"),
    ]
    for arguments, code, said in ends:
        assert main(arguments) == code, arguments
        last_line = capsys.readouterr().err.splitlines()[-1]
        assert last_line.startswith("process_group_backlog: error: ")
        assert said in last_line
        assert "ommitted" in last_line or code == 1
    assert main([*common, "pb-z", "--output", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["committed"] == 1


def test_brokers_that_executors_do_not_reach_are_told(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(version="4.1.0", brokers=1) as cluster:
        fill(cluster.bootstrap, {("pb-u", 0): 3})
        commit_offsets(cluster.bootstrap, {"pb-u": {("pb-u", 0): 1}})
        path = write_properties(
            tmp_path, cluster.bootstrap, default__api__timeout__ms="5000", request__timeout__ms="3000"
        )

        def reads_after_the_brokers_went_away(records: DataFrame) -> None:
            cluster.stop()
            records.collect()

        options = {"kafkaConsumer.pollTimeoutMs": "3000"}
        with pytest.raises(SPARK_ERRORS) as failed:
            process_backlog(
                *(spark, load_properties(spark, str(path)), "pb-u", reads_after_the_brokers_went_away), options=options
            )
        assert "the executors do not reach the brokers" in explain(failed.value)


GOOD = ["--kafka-properties", "x", "--group", "g", "--output", "/o"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (GOOD[:4], "--output (got None): give an output, a --transform, or both"),
        (["--kafka-properties", "x", "--output", "/o"], "--group (got None): give a group"),
        (GOOD[2:], "the following arguments are required: --kafka-properties"),
        ([*GOOD, "--no-commit"], "--result (got None): give a path"),
        ([*GOOD, "--on-data-loss", "ignore"], "argument --on-data-loss: invalid choice: 'ignore'"),
        ([*GOOD, "--max-records-per-partition", "-1"], "--max-records-per-partition (got -1): give 0 or more"),
    ],
)
def test_a_bad_argument_is_named(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "give it as module:function"),
        ("no_such_module:f", "No module named 'no_such_module'. Ship the module by --py-files"),
        ("json:no_such", "has no attribute 'no_such'"),
        ("json:__name__", "is not a function"),
    ],
)
def test_a_transform_that_is_not_there_is_told_before_a_broker_is_asked(submit: Submit, name: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        submit("--group", "g", "--transform", name)


def test_the_example_of_the_docs_runs(
    spark: SparkSession,
    kafka: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    found = re.search(r"<!-- START process_backlog_example -->\s*```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert found
    fill(kafka, {("pb-docs", 0): 4})
    commit_offsets(kafka, {"billing-report": {("pb-docs", 0): 1}})
    write_properties(tmp_path, kafka)
    monkeypatch.chdir(tmp_path)
    exec(compile(found[1], str(page), "exec"), {"spark": spark, "output": str(tmp_path / "out")})
    assert capsys.readouterr().out == "3 offsets processed, 1 partitions committed\n"
    assert committed(kafka, "billing-report", ("pb-docs", 0)) == [4]
