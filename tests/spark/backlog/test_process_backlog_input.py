"""Bad input to the backlog job, what it says at the start, its exit codes, and the example of its docs."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.observe.offset_values import Range
from airflow_kafka_groups.spark.jobs.process_group_backlog import BacklogOutput, load_transform, main, process_backlog
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import explain, source_options
from airflow_kafka_groups.spark.session import SPARK_ERRORS, prepare_kafka
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.ports import free_ports
from tests.lab.workload.groups import commit_offsets
from tests.pages import shown_parts
from tests.spark.kafka import Submit, behind, committed, fill, write_properties
from tests.spark.rows import a_slice
from tests.unit.spark.unread.scene import A0, A1, B0

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it has no bootstrap.servers"),
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


def test_the_source_gets_the_ranges_that_are_not_empty() -> None:
    options = source_options([Range(A0, 4, 7), Range(A1, 3, 3), Range(B0, 0, 2)])
    assert {name: json.loads(text) for name, text in options.items()} == {
        "assign": {"a": [0], "b": [0]},
        "startingOffsets": {"a": {"0": 4}, "b": {"0": 0}},
        "endingOffsets": {"a": {"0": 7}, "b": {"0": 2}},
    }
    with pytest.raises(JobError, match="same partition"):
        source_options([Range(A0, 0, 1), Range(A0, 2, 3)])


@pytest.mark.safety
def test_a_protected_group_is_not_changed_however_its_letters_are_composed() -> None:
    properties = KafkaProperties({}, protected=("caf\u00e9.*", r"job\[1\]"))
    refused = [
        id_ for id_ in ("cafe\u0301-1", "caf\u00e9", "cafe", "job[1]", "job1") if properties.why_unchangeable(id_)
    ]
    assert refused == ["cafe\u0301-1", "caf\u00e9", "job[1]"]


@pytest.mark.connector
def test_brokers_that_cannot_be_reached_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    path = write_properties(
        tmp_path, f"127.0.0.1:{port}", default__api__timeout__ms="2000", request__timeout__ms="1000"
    )
    with pytest.raises(JobError, match=rf"the cluster does not answer: Timeout.*Check.*127.0.0.1:{port}"):
        process_backlog(spark, load_properties(spark, str(path)), "g", lambda records: None)


@pytest.mark.connector
def test_the_session_has_a_connector_that_fits(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_kafka(spark) == []
    with monkeypatch.context() as patched:
        patched.setattr("airflow_kafka_groups.spark.session._jar_version", lambda *_: "3.5.1")
        with pytest.raises(JobError, match=r"connector is of Spark 3\.5\.1, and this is Spark 4.*--packages"):
            prepare_kafka(spark)
    monkeypatch.setitem(
        sys.modules["airflow_kafka_groups.spark.session"]._CONNECTOR_CLASSES, "commons-pool2", "no.such.Class"
    )
    said = "no commons-pool2 on its class path.*--packages org.apache.spark:spark-sql-kafka-0-10_2.13:"
    said += f"{spark.version}.*without spark-submit: in PYSPARK_SUBMIT_ARGS"
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
    behind(kafka, "pb-z", {("pb-z", 0): (1, 3)})
    properties = str(write_properties(tmp_path, kafka))

    def fails_in_spark(records: DataFrame) -> None:
        records.selectExpr("raise_error('no good record')").collect()

    def somebody_commits(records: DataFrame) -> None:
        records.count()
        commit_offsets(kafka, {"pb-z": {("pb-z", 0): 2}})

    transforms.__dict__.update(fails_in_spark=fails_in_spark, somebody_commits=somebody_commits)
    common = ["--kafka-properties", properties, "--records", str(tmp_path / "records"), "--group"]
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
    again = [*common, "pb-z", "--output", str(tmp_path / "out")]
    assert main(again) == 1
    assert "Somebody else moved it: look at it. Then begin at its present commits" in capsys.readouterr().err
    assert main([*again, "--start-over"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["committed"] == 1


@pytest.mark.connector
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
        ([*GOOD[:4], "--transform", "m:f"], "--records (got None): give a folder for what a restart needs"),
        ([*GOOD, "--max-records-per-slice", "-1"], "--max-records-per-slice (got -1): give 0 or more"),
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
        submit("--group", "g", "--transform", name, "--records", "/r")


@pytest.mark.parametrize(
    ("text", "said"), [("def f(:", "SyntaxError"), ("raise RuntimeError('no licence')", "no licence")]
)
def test_a_module_that_cannot_be_imported_is_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / f"broken_{len(text)}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArgumentError, match=rf"--transform .*its module cannot be imported: .*{said}"):
        load_transform(f"broken_{len(text)}:f")
    assert f"broken_{len(text)}.py" in capsys.readouterr().err, "the line of the user's code"


@pytest.mark.safety
def test_the_name_of_a_file_format_may_have_capitals(spark: SparkSession, tmp_path: Path) -> None:
    """A format that is none of files is appended to, so that a restart would double rows."""
    for attempt in (1, 2):
        output = BacklogOutput(spark, str(tmp_path / "out"), "Parquet", "errorifexists")
        output.write(spark.range(3), a_slice("r", 1, attempt))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["backlog_slice=r-000001-2"]


@pytest.mark.safety
def test_a_restart_obeys_the_output_mode_in_a_format_that_is_none_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """The first try was refused, and the second one appended to the data that this mode protects, and was committed."""
    place, table = str(tmp_path / "out"), "org.apache.spark.sql.parquet"  # as BacklogOutput sees Delta's, or JDBC's
    spark.range(10, 12).write.parquet(place)
    for attempt in (1, 2):
        with pytest.raises(SPARK_ERRORS, match="already exists"):
            BacklogOutput(spark, place, table, "errorifexists").write(spark.range(3), a_slice("x", 1, attempt))
    overwriting = BacklogOutput(spark, place, table, "overwrite")
    overwriting.write(spark.range(3), a_slice("x", 1, 2))
    overwriting.write(spark.range(3, 5), a_slice("x", 2, 2))
    assert sorted(row["id"] for row in spark.read.parquet(place).collect()) == [0, 1, 2, 3, 4]


@pytest.mark.safety
def test_two_runs_do_not_overwrite_each_other_while_both_write(spark: SparkSession, tmp_path: Path) -> None:
    """Each deleted the other's slices before each of its own, and both committed what was in neither output."""
    place = str(tmp_path / "out")
    before, first, second = (BacklogOutput(spark, place, "parquet", "overwrite") for _ in range(3))
    before.write(spark.range(3), a_slice("b", 1))
    first.write(spark.range(3), a_slice("x", 1))
    first.write(spark.range(3), a_slice("x", 2))
    assert {path.name[:15] for path in (tmp_path / "out").iterdir()} == {"backlog_slice=x"}, "as overwrite says"
    second.write(spark.range(3), a_slice("y", 1))
    with pytest.raises(JobError) as caught:
        first.write(spark.range(3), a_slice("x", 3))
    for part in (f"--output {place!r}", "backlog_slice=y-000001-1", "an --output of its own", "--start-over"):
        assert part in str(caught.value)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["backlog_slice=y-000001-1"], "nothing is deleted"
    restarted = BacklogOutput(spark, place, "parquet", "overwrite")
    (tmp_path / "out" / "backlog_slice=x-000001-1").mkdir()
    with pytest.raises(JobError, match="backlog_slice=y-000001-1"):
        restarted.write(spark.range(3), a_slice("x", 2))


@pytest.mark.safety
@pytest.mark.parametrize("when", ["before", "after", "after, and deleted"])
def test_a_slice_that_another_run_overwrites_while_it_is_written_is_not_committed(
    spark: SparkSession, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of one slice looked at its output only before it wrote: both committed, and one of them had no output."""
    place = str(tmp_path / "out")
    first, second = (BacklogOutput(spark, place, "parquet", "overwrite") for _ in range(2))
    save = DataFrameWriter.save

    def overwritten(writer: DataFrameWriter, path: str) -> None:
        monkeypatch.setattr(DataFrameWriter, "save", save)
        if when == "before":
            second.write(spark.range(3), a_slice("y", 1))
        save(writer, path)
        if when != "before":
            second.write(spark.range(3), a_slice("y", 1))
        if when == "after, and deleted":
            second.discard()

    monkeypatch.setattr(DataFrameWriter, "save", overwritten)
    seen = "which deleted this slice" if when == "after, and deleted" else "backlog_slice=y-000001-1"
    with pytest.raises(JobError, match=seen):
        first.write(spark.range(3), a_slice("x", 1))


def test_the_example_of_the_docs_runs(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    behind(kafka, "billing-report", {("pb-docs", 0): (1, 4)})
    write_properties(tmp_path, kafka)
    monkeypatch.chdir(tmp_path)
    code = compile(shown_parts()["process_backlog_example"], "process_backlog_example", "exec")
    exec(code, {"spark": spark, "output": str(tmp_path / "out")})
    assert capsys.readouterr().out == "3 offsets processed, 1 partitions committed\n"
    assert committed(kafka, "billing-report", ("pb-docs", 0)) == [4]
