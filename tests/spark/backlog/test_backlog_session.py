"""The user's session and functions, slices and streams, outcomes and results, and what retention removed."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.jobs.process_group_backlog import process_backlog, reads_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.program import Program
from airflow_kafka_groups.spark.session import SPARK_ERRORS, options_hidden, prepare
from airflow_kafka_groups.spark.unread.group import NotCommittedError, NotVerifiedError
from airflow_kafka_groups.spark.unread.run import READ_NOTHING
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import delete_records, quiet
from tests.pages import shown_parts
from tests.spark.kafka import Submit, add, behind, committed, fetched_file, fresh_topics, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.safety]

MINE = {
    "spark.sql.redaction.options.regex": "(?i)my_column",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.shuffle.partitions": "7",
}


@pytest.fixture
def mine(spark: SparkSession) -> Iterator[SparkSession]:
    before = {name: spark.conf.get(name) for name in MINE}
    for name, value in MINE.items():
        spark.conf.set(name, value)
    spark.sparkContext.setJobGroup("mine", "my own work")
    yield spark
    spark.sparkContext._jsc.clearJobGroup()
    for name, found in before.items():
        spark.conf.set(name, str(found))


def test_the_users_session_is_left_as_it_was_found(mine: SparkSession, kafka: str, tmp_path: Path) -> None:
    behind(kafka, "bs-s", {("bs-s", 0): (1, 3)})
    properties = load_properties(mine, str(write_properties(tmp_path, kafka)))
    during: list[Any] = []

    def look(records: DataFrame) -> None:
        during.append((records.count(), mine.conf.get("spark.sql.redaction.options.regex")))

    process_backlog(mine, properties, "bs-s", look)
    ((count, hidden),) = during
    assert (count, "my_column" in str(hidden), "jaas" in str(hidden)) == (2, True, True)
    assert {name: mine.conf.get(name) for name in MINE} == MINE
    group, description = (
        mine.sparkContext.getLocalProperty(name) for name in ("spark.jobGroup.id", "spark.job.description")
    )
    assert (group, description) == ("mine", "my own work")


@pytest.mark.parametrize("where", ["in the session's thread", "in another thread"])
def test_a_job_in_a_session_that_was_there_before_leaves_it_running(
    mine: SparkSession, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    """In another thread, the session is not the active one: the job stopped it, and with it all other work."""
    stopped: list[SparkSession] = []

    def job(spark: SparkSession, _: Any) -> dict[str, Any]:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        return {"rows": spark.range(3).count()}

    nothing: Callable[[Any], None] = lambda _: None  # noqa: E731
    program = Program("a_job", None, nothing, nothing, job, "Nothing")
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as pool:
        patched.setattr(SparkSession, "stop", lambda session: stopped.append(session))  # all other tests need it
        assert (pool.submit(program.main, []).result() if "another" in where else program.main([])) == 0
    assert not stopped
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"rows": 3}
    assert {name: mine.conf.get(name) for name in MINE} == MINE
    assert mine.range(2).count() == 2


def in_threads(records: DataFrame) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(lambda part: records.where(f"partition = {part}").count(), (0, 1))) == 3


def in_a_group_of_its_own(records: DataFrame) -> None:
    records.sparkSession.sparkContext.setJobGroup("theirs", "a group of the transform")
    assert records.count() == 3
    records.sparkSession.sparkContext._jsc.clearJobGroup()


def cached(records: DataFrame) -> None:
    kept = records.cache()
    assert kept.union(kept).count() == 6
    kept.unpersist()


@pytest.mark.parametrize("transform", [in_threads, in_a_group_of_its_own, cached])
def test_a_transform_may_use_threads_and_job_groups(kafka: str, submit: Submit, tmp_path: Path, transform: Any) -> None:
    name = transform.__name__
    behind(kafka, f"bs-{name}", {(f"bs-{name}", 0): (1, 3), (f"bs-{name}", 1): (0, 1)})
    summary = submit("--group", f"bs-{name}", transform, "--records", str(tmp_path))
    assert (summary["committed"], summary["warnings"]) == (2, [])


def test_a_transform_that_reads_nothing_is_a_warning(kafka: str, submit: Submit, tmp_path: Path) -> None:
    behind(kafka, "bs-l", {("bs-l", 0): (1, 3)})

    def lazy(records: DataFrame) -> None:
        records.select("value")

    summary = submit("--group", "bs-l", lazy, "--records", str(tmp_path))
    assert summary["warnings"] == [READ_NOTHING.format(what="slice 1 of 1")]
    assert ([row["offset"] for row in summary["before"]], summary["committed"]) == ([1], 1)


def test_a_query_that_fails_has_read(spark: SparkSession) -> None:
    rows, was_read = reads_of(spark.range(3))
    with pytest.raises(Exception, match="no good"):
        rows.selectExpr("raise_error('no good')").collect()
    rows.count()
    assert was_read()


def test_a_transform_gets_ranges_and_a_run_id_that_stay_the_same(kafka: str, submit: Submit, tmp_path: Path) -> None:
    behind(kafka, "bs-c", {("bs-c", 0): (1, 7)})
    seen: list[Any] = []

    def with_context(records: DataFrame, context: Any) -> None:
        seen.append((context.run_id, context.slice, context.slices, context.attempt, context.repeats))
        assert [row["offset"] for row in records.sort("offset").collect()] == [
            offset for each in context.ranges for offset in range(each.start, each.end)
        ]
        if len(seen) == 2:
            raise ValueError("a bad day")

    arguments: list[Any] = ["--group", "bs-c", with_context, "--records", str(tmp_path)]
    arguments += ["--max-records-per-slice", "3", "--result", str(tmp_path / "result.json")]
    with pytest.raises(JobError, match="the transform failed: ValueError: a bad day"):
        submit(*arguments)
    failed = json.loads((tmp_path / "result.json").read_text())
    assert (failed["outcome"], failed["slices_committed"], failed["slices"]) == ("failed", 1, 2)
    assert committed(kafka, "bs-c", ("bs-c", 0)) == [4]
    add(kafka, {("bs-c", 0): 2})
    summary = submit(*arguments)
    run_id = summary["run_id"]
    assert seen == [(run_id, 1, 2, 1, False), (run_id, 2, 2, 1, False), (run_id, 2, 2, 2, True)]
    assert summary["repeats"] == [{"topic": "bs-c", "partition": 0, "start": 4, "end": 7}]
    assert committed(kafka, "bs-c", ("bs-c", 0)) == [7], "a restart ends the run as it began"


def test_what_is_processed_and_not_committed_is_in_the_result(
    kafka: str, submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind(kafka, "bs-r", {("bs-r", 0): (2, 5)})
    processed: list[int] = []

    def moves_the_group(records: DataFrame) -> None:
        processed.append(records.count())
        commit_offsets(kafka, {"bs-r": {("bs-r", 0): 3}})

    arguments: list[Any] = ["--group", "bs-r", moves_the_group, "--records", str(tmp_path)]
    arguments += ["--result", str(tmp_path / "result.json")]
    unread = [{"topic": "bs-r", "partition": 0, "start": 2, "end": 5}]
    with pytest.raises(NotCommittedError):
        submit(*arguments)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["outcome"], result["uncommitted"]) == ("not_committed", unread)
    assert result["error"].startswith("nothing was committed: group 'bs-r' moved meanwhile")

    commit_offsets(kafka, {"bs-r": {("bs-r", 0): 2}})
    read_back = KafkaAdmin.committed

    def no_answer(self: KafkaAdmin, group_id: str, partitions: Any) -> Any:
        if committed(kafka, "bs-r", ("bs-r", 0)) == [5]:
            raise JobError("the coordinator is gone")
        return read_back(self, group_id, partitions)

    with monkeypatch.context() as patch:
        patch.setattr(KafkaAdmin, "committed", no_answer)
        with pytest.raises(NotVerifiedError, match="cannot be read back: the coordinator is gone"):
            submit(*arguments)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["outcome"], result["uncommitted"]) == ("unverified", unread)
    summary = submit(*arguments)
    assert (summary["outcome"], summary["uncommitted"], processed) == ("committed", [], [3])


def test_a_task_that_is_retried_finds_what_its_first_try_processed(kafka: str, submit: Submit, tmp_path: Path) -> None:
    behind(kafka, "bs-t", {("bs-t", 0): (2, 6)})
    path = fetched_file(tmp_path / "b.json", "bs-t", {("bs-t", 0): 2}, {("bs-t", 0): 6})
    counts: list[int] = []

    def count(records: DataFrame) -> None:
        counts.append(records.count())

    arguments: list[Any] = ["--backlog", str(path), "--no-commit", "--result", str(tmp_path / "result.json")]
    arguments += [count, "--max-records-per-slice", "2"]
    first = submit(*arguments)
    (tmp_path / "result.json").unlink()
    again = submit(*arguments)
    assert counts == [2, 2]
    assert json.loads((tmp_path / "result.json").read_text()) == again
    assert {**again, "seconds": 0, "warnings": []} == {**first, "seconds": 0}
    assert "had ended before: nothing was processed or written now" in again["warnings"][0]
    assert Path(str(again["record"])).parts[-3] == "_backlog_records"
    over = submit(*arguments, "--start-over")
    assert (counts, over["repeats"]) == ([2] * 4, [{"topic": "bs-t", "partition": 0, "start": 2, "end": 6}])


def test_a_session_of_spark_connect_is_refused_in_a_sentence(tmp_path: Path) -> None:
    class Remote:
        """What a session of Spark Connect answers when it is asked for its JVM."""

        def __getattr__(self, name: str) -> Any:
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})

    remote: Any = Remote()
    path = tmp_path / "kafka.properties"
    path.write_text("bootstrap.servers=b:1")
    for what, call in {
        "access to files": lambda: storage_of(remote, "/x"),
        "reading Kafka properties": lambda: load_properties(remote, str(path)),
        "a job": lambda: options_hidden(remote).__enter__(),
        "a job, prepared": lambda: prepare(remote),
    }.items():
        with pytest.raises(
            JobError, match=f"{what.partition(',')[0]} needs the driver's JVM, and this is a Spark Connect session"
        ):
            call()


@pytest.mark.parametrize("transform", [lambda rows: None, lambda rows: rows.rdd.count()], ids=["nothing", "an RDD"])
def test_whether_a_query_has_read_is_known_at_once(spark: SparkSession, transform: Callable[[DataFrame], Any]) -> None:
    """It took ten seconds for each slice, also for a sink that writes by foreachPartition."""
    rows, was_read = reads_of(spark.range(3))
    transform(rows)
    started = time.monotonic()
    assert not was_read()
    assert time.monotonic() - started < 5


def test_a_stream_counts_an_hour_that_two_runs_have_read_once(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    code = shown_parts()["streaming_example"].replace("broker1:9092", kafka).replace("/streams/orders", str(tmp_path))
    assert len(code.splitlines()) <= 30
    fresh_topics(kafka, {"orders": 1})
    producer = Producer(quiet(kafka))

    def run(*minutes: int) -> list[tuple[Any, ...]]:
        for minute in minutes:
            at = datetime(2026, 1, 1, minute // 60, minute % 60, tzinfo=UTC).timestamp()
            producer.produce("orders", b"x", partition=0, timestamp=int(at * 1000))
        assert producer.flush(60) == 0
        exec(compile(code, "streaming_example", "exec"), {"spark": spark})
        rows = spark.read.schema("hour timestamp, topic string, records long").parquet(str(tmp_path / "hours"))
        return sorted((f"{row['hour']:%H}", row["records"]) for row in rows.collect())

    assert run(1, 2) == []
    assert run(59, 61) == [], "the hour may not be over"
    assert run(80, 150) == [("00", 3), ("01", 2)]


def test_results_of_slices_are_added_up_by_a_query(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"F": F}
    exec(compile(shown_parts()["per_slice_example"], "per_slice_example", "exec"), names)
    behind(kafka, "slices", {("slices-a", 0): (1, 7), ("slices-b", 0): (0, 4)})
    arguments = ["--group", "slices", names["totals"], "--output", str(tmp_path / "out")]
    summary = submit(*arguments, "--max-records-per-slice", "3")
    assert summary["slices"] > 2
    found = names["of_all_slices"](spark, str(tmp_path / "out")).collect()
    assert {row["topic"]: row["records"] for row in found} == {"slices-a": 6, "slices-b": 4}
    assert spark.read.parquet(str(tmp_path / "out")).count() > 2, "a transform sees a slice, and not the backlog"
    assert committed(kafka, "slices", ("slices-a", 0), ("slices-b", 0)) == [7, 4]


def test_a_try_whose_records_are_gone_names_the_way_on(submit: Submit, kafka: str, tmp_path: Path) -> None:
    behind(kafka, "br", {("br", 0): (0, 20)})
    slices = list[int]()

    def cut(records: Any) -> None:
        slices.append(records.count())
        if len(slices) == 1:
            delete_records(kafka, {("br", 0): 15})

    asked: list[Any] = ["--group", "br", cut, "--records", str(tmp_path / "records")]
    asked += ["--max-records-per-slice", "5"]
    with pytest.raises(SPARK_ERRORS):  # it was begun before anybody could know
        submit(*asked)
    for more in ([], ["--on-data-loss", "skip-to-start"]):
        with pytest.raises(JobError, match=r"br\[0\] begins at 15, .* 5 .*--start-over --on-data-loss skip-to-start"):
            submit(*asked, *more)
    assert committed(kafka, "br", ("br", 0)) == [5]
    summary = submit(*asked, "--start-over", "--on-data-loss", "skip-to-start")
    assert (summary["outcome"], summary["offsets_lost"], slices) == ("committed", 10, [5, 5])
    assert committed(kafka, "br", ("br", 0)) == [20]


def test_a_new_run_in_the_output_of_one_that_was_given_up_is_told_to_keep_its_committed_slices(
    submit: Submit, kafka: str, tmp_path: Path, spark: SparkSession
) -> None:
    behind(kafka, "bo", {("bo", 0): (0, 20)})
    output = tmp_path / "out"

    def cut(records: DataFrame, context: Any) -> DataFrame:
        if context.slice == 2:
            delete_records(kafka, {("bo", 0): 15})
        return records

    asked: list[Any] = ["--group", "bo", cut, "--output", str(output)]
    with pytest.raises(SPARK_ERRORS):
        submit(*asked, "--max-records-per-slice", "5")
    (output / "_writes-of-a-killed-run-1").touch()
    over = ("--start-over", "--on-data-loss", "skip-to-start")
    said = r"out exists and has backlog_slice=.* of another run: give another --output, or --output-mode append; overw"
    with pytest.raises(JobError, match=said):  # what the first one committed is nowhere else
        submit(*asked, *over)
    submit(*asked, *over, "--output-mode", "append")
    assert sorted(row["offset"] for row in spark.read.parquet(str(output)).collect()) == [*range(5), *range(15, 20)]


def failed_once(submit: Submit, kafka: str, folder: Path, name: str) -> list[Any]:
    """Let a transform fail on the backlog of a group, from 2 to 9 of one partition; return the job's arguments."""

    def fail(records: Any) -> None:
        raise ValueError("not yet")

    behind(kafka, name, {(name, 0): (2, 9)})
    asked = ["--group", name, "--records", str(folder / "records")]
    with pytest.raises(JobError, match="not yet"):
        submit(fail, *asked)
    return [count, *asked]


def count(records: Any) -> None:
    records.count()


def test_a_run_is_given_up_also_where_nothing_is_left_to_read(submit: Submit, kafka: str, tmp_path: Path) -> None:
    asked = failed_once(submit, kafka, tmp_path, "bn")
    commit_offsets(kafka, {"bn": {("bn", 0): 9}})  # its consumer came back, and read everything
    with pytest.raises(JobError, match=r"Somebody else moved it.*--start-over"):
        submit(*asked)
    assert submit(*asked, "--start-over")["offsets"] == 0
    add(kafka, {("bn", 0): 3})
    assert submit(*asked)["offsets"] == 3


def test_a_try_whose_log_ends_before_its_records_names_the_way_on(submit: Submit, kafka: str, tmp_path: Path) -> None:
    """As after an unclean election of a leader; here the topic is recreated, and the group set to where it was."""
    asked = failed_once(submit, kafka, tmp_path, "bt")
    behind(kafka, "bt", {("bt", 0): (2, 5)})
    with pytest.raises(JobError, match=r"bt\[0\] ends at 5, and its records up to 9 .* left.*truncated.*--start-over"):
        submit(*asked)
    assert committed(kafka, "bt", ("bt", 0)) == [2]
    summary = submit(*asked, "--start-over")
    assert (summary["outcome"], summary["offsets"]) == ("committed", 3)
    assert committed(kafka, "bt", ("bt", 0)) == [5]
