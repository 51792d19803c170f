"""What a job says when Spark is missing or does not start, and how it starts; storages that only Hadoop knows."""

import argparse
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkAttributeError, PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, StorageError
from airflow_kafka_groups.spark import application, requirements, session
from airflow_kafka_groups.spark.hadoop_storage import Hadoop, beside, storage_of
from airflow_kafka_groups.spark.jobs import archive_backlog, judge_staleness, lag_report, roll_up
from airflow_kafka_groups.spark.jobs.judge_staleness import parse_arguments, run
from airflow_kafka_groups.spark.options import folder_path
from airflow_kafka_groups.spark.program import Program
from airflow_kafka_groups.spark.session import session_of
from airflow_kafka_groups.storage.file_storage import Storage
from tests.histories.judged import judge, verdict_summary, verdicts, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id
from tests.spark.rows import storage_elsewhere

pytestmark = pytest.mark.spark


def test_a_machine_without_java_is_told_in_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_java(_: Any) -> SparkSession:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", no_java)
    nothing: Callable[[Any], None] = lambda _: None  # noqa: E731
    assert Program("a_job", None, nothing, nothing, lambda *_: {}, "Nothing").main([]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("a_job: error: Spark does not start: [JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert "Check what it wrote above, that Java 17 or newer is there (JAVA_HOME, or java on the PATH)" in last


def test_a_master_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark gives up after a minute, and goes on with a context that it has stopped."""

    def stopped(_: Any) -> SparkSession:
        raise PySparkException("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was …")

    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", stopped)
    monkeypatch.setattr(SparkConf, "get", lambda *_: "spark://m:7077")
    assert roll_up.main(["--base", "/b", "--output", "/o"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("the master (spark://m:7077) runs and can be reached")


def test_a_python_without_pyspark_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    assert application.main(["roll_up", "--base", "/b"]) == 1
    assert "has no pyspark 4.0 to 4.2, or only the client" in capsys.readouterr().err


@pytest.mark.parametrize("job", application.JOBS)
def test_a_python_with_only_the_client_of_spark_connect_is_told_the_remedy(
    job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no py4j, no ``SparkFiles`` and no JVM, so no job can be imported."""

    class Client:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name in ("pyspark.core", "py4j", "py4j.protocol"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    absent = ("pyspark.core", "pyspark.context")
    monkeypatch.setattr(util, "find_spec", lambda name: None if name in absent else find_spec(name))
    monkeypatch.setattr(sys, "meta_path", [Client, *sys.meta_path])
    for name in [name for name in sys.modules if name.startswith(("py4j", "airflow_kafka_groups.spark."))]:
        monkeypatch.delitem(sys.modules, name)
    assert application.main([job, "--base", "/b"]) == 1
    said = capsys.readouterr().err
    assert "or only the client of Spark Connect, which has no JVM: start it by spark-submit, or install pyspark" in said


def test_a_job_in_a_session_of_spark_connect_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings that a job puts back are kept by session, and this one's name is the JVM's, too."""

    class Remote:
        def __getattr__(self, name: str) -> Any:
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})

    monkeypatch.setattr(session, "running_session", Remote)
    assert application.main(["roll_up", "--base", "/b", "--output", "/o"]) == 1
    said = capsys.readouterr().err
    assert "needs the driver's JVM, and this is a Spark Connect session" in said
    assert "run the job by spark-submit" in said


def test_a_driver_that_this_python_starts_is_quick_unless_its_options_say_otherwise(tmp_path: Path) -> None:
    java, started = shutil.which("java"), tmp_path / "started"
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"  # spark-class calls it to build the driver's command line, and to start the driver
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *launcher.Main*) exec {java} "$@";; esac\necho "$@" > {started}\nexit 1\n'
    )
    program.chmod(0o700)
    environment = os.environ | {
        "JAVA_HOME": str(home),
        "SPARK_SUBMIT_OPTS": "-Dmine=1",
        "PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:TieredStopAtLevel=4 pyspark-shell",
    }
    command = [sys.executable, "-m", "airflow_kafka_groups.spark", "roll_up", "--base", "/b", "--output", "/o"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Spark does not start" in done.stderr
    options = [word for word in started.read_text().split() if word.startswith(("-XX:Tiered", "-Dmine"))]
    assert options == ["-XX:TieredStopAtLevel=1", "-Dmine=1", "-XX:TieredStopAtLevel=4"]


@pytest.mark.parametrize(("text", "folder"), [("s3a://b/out//", "s3a://b/out"), ("/out", "/out"), ("", "")])
def test_a_folder_has_no_slash_at_its_end(text: str, folder: str) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=folder_path)
    assert parser.parse_args(["--output", text]).output == folder


@pytest.mark.parametrize("job", [archive_backlog, judge_staleness, lag_report, roll_up])
def test_a_base_that_spark_would_read_as_a_pattern_is_refused(job: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"--kafka-properties": "x", "--min-idle-seconds": "60"}
    more = [word for option, value in options.items() if option in _help_of(job) for word in (option, value)]
    with pytest.raises(SystemExit) as ended:
        job._program.parse_arguments(["--base", "/folders/*", "--cluster", "c", *more])
    assert ended.value.code == 2
    assert "--base (got '/folders/*'): give a folder or URI without any of" in capsys.readouterr().err


def _help_of(job: Any) -> str:
    parser = argparse.ArgumentParser()
    job._add_arguments(parser)
    return parser.format_help()


MIB = 2**20


def test_a_storage_that_spark_does_not_know_is_told_the_remedy_by_any_path(spark: SparkSession) -> None:
    """Not only --base: also that of an output or a result."""
    with pytest.raises(StorageError, match=r"^s3://bucket/out: .* Outside of EMR, S3 is s3a://"):
        storage_of(spark, "s3://bucket/out")
    with pytest.raises(StorageError, match=r"No FileSystem for scheme.*--packages"):
        storage_of(spark, "nosuch://bucket/x")
    with pytest.raises(StorageError, match=r"^file:out: .*Relative path.*Check the path, and that Spark has the conn"):
        storage_of(spark, "file:out")


class Recorded:
    """A stream of the JVM's.

    :param lost: the number of the answer in whose place an empty one comes, as from a JVM without memory for it.
    """

    def __init__(self, stream: Any, lost: int | None) -> None:
        self.stream, self.lost = stream, lost
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.stream, name)
        return self._counted(found) if name.startswith(("read", "write")) else found

    def _counted(self, call: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            answer = call(*arguments)
            self.sizes.append(len(arguments[0] if answer is None else answer))
            return b"" if len(self.sizes) - 1 == self.lost else answer

        return counted


class Opened:
    """The file system of a storage, whose streams are recorded."""

    def __init__(self, fs: Any, lost: int | None = None) -> None:
        self.fs, self.lost = fs, lost
        self.streams: list[Recorded] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fs, name)

    def open(self, path: Any) -> Recorded:
        self.streams.append(Recorded(self.fs.open(path), self.lost))
        return self.streams[-1]

    def create(self, path: Any, replace: bool) -> Recorded:
        self.streams.append(Recorded(self.fs.create(path, replace), self.lost))
        return self.streams[-1]


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> str:
    return storage_elsewhere(spark, tmp_path)


def test_a_large_file_comes_in_parts_that_the_jvm_has_room_for(spark: SparkSession, elsewhere: str) -> None:
    """At once, a file of 150 MB needs 900 MB of the driver's JVM, which has 1 GB unless somebody says otherwise."""
    there, content = Hadoop(spark, elsewhere), random.randbytes(3 * MIB + 1)
    storage, there._fs = Storage(there, there.path), (opened := Opened(there._fs))
    storage.replace(f"{elsewhere}/x", content)
    assert storage.read_bytes(f"{elsewhere}/x") == content
    written, read = (stream.sizes for stream in opened.streams)
    assert (sum(written), sum(read)) == (len(content), len(content))
    assert max(*written, *read) <= MIB
    storage.replace(f"{elsewhere}/x", b"")
    assert storage.read_bytes(f"{elsewhere}/x") == b""


@pytest.mark.parametrize("lost", [0, 2])
def test_an_answer_that_the_jvm_had_no_memory_for_is_no_end_of_a_file(
    spark: SparkSession, elsewhere: str, lost: int
) -> None:
    there = Hadoop(spark, elsewhere)
    storage = Storage(there, there.path)
    storage.replace(f"{elsewhere}/x", bytes(3 * MIB + 1))
    there._fs = Opened(there._fs, lost)
    with pytest.raises(StorageError, match=r"/x could not be read: .*spark\.driver\.memory"):
        storage.read_bytes(f"{elsewhere}/x")


@pytest.mark.parametrize("root", ["s3a://bucket", "s3a://bucket/", "/"])
def test_what_has_no_folder_around_it_is_told(spark: SparkSession, tmp_path: Path, root: str) -> None:
    with pytest.raises(StorageError, match=f"^{root} is the root of its storage: give a folder in it"):
        beside(root, "_backlog_records")


def test_a_cluster_is_judged_as_on_a_local_disk(spark: SparkSession, tmp_path: Path, elsewhere: str) -> None:
    for number in range(3):
        write_hour(tmp_path, number)
    asked = parse_arguments(["--base", elsewhere, "--cluster", CLUSTER, "--min-idle-seconds", "3600"])
    said = run(spark, asked)
    assert (said["snapshots_reduced"], said["groups"]) == (3, 3)
    found = verdicts(tmp_path, 2)
    assert run(spark, asked)["snapshots_reduced"] == 0
    assert judge(tmp_path)["snapshots_reduced"] == 0
    assert verdicts(tmp_path, 2) == found
    assert (tmp_path / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id(2)}.json").exists()


@pytest.mark.safety
def test_a_file_is_created_once_on_a_storage_that_renames(spark: SparkSession, tmp_path: Path) -> None:
    """What is done where files cannot be linked, such as HDFS; here on a local disk by Hadoop's own calls."""
    storage = storage_of(spark, str(tmp_path))
    there = Hadoop(spark, str(tmp_path))
    remote = Storage(there, there.path)
    for each, path in ((storage, f"{tmp_path}/a/1"), (remote, f"{tmp_path}/b/1")):
        each.create(path, b"one")
        each.create(path, b"one")  # the answer to an earlier try may have been lost
        with pytest.raises(FileExistsAlreadyError):
            each.create(path, b"two")
    assert (tmp_path / "b" / "1").read_text() == "one"
    assert remote.files(f"{tmp_path}/b") == ["1"], "nothing is left beside it"
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="/file/1 could not be "):
        storage.create(f"{tmp_path}/file/1", b"one")


IDLE = ("--min-idle", "1h")
ROOT = Path(__file__).parents[3]


def run_alone(
    job: str, base: str, *more: str, python: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a job as a program on a machine without Java.

    :param python: statements that come first.
    """
    program = f"{python}\nimport sys\nfrom airflow_kafka_groups.spark.application import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, job, "--base", base, "--cluster", CLUSTER]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    given = inherited | {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run([*command, *more], env=given, cwd=base, capture_output=True, text=True, check=False)


def test_what_needs_spark_is_told_that_it_does_not_start(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    done = run_alone("judge_staleness", str(tmp_path), *IDLE)
    assert done.returncode == 1
    assert "judge_staleness: error: Spark does not start: " in done.stderr.splitlines()[-1]
    done = run_alone("judge_staleness", str(tmp_path), *IDLE, SPARK_HOME=str(tmp_path))
    assert "judge_staleness: error: Spark does not start: [Errno 2] No such file" in done.stderr.splitlines()[-1]
    without = "import sys\nsys.modules.update(pyspark=None, py4j=None)"
    done = run_alone("judge_staleness", str(tmp_path), *IDLE, python=without)
    assert done.returncode == 1
    assert "has no pyspark 4.0 to 4.2, or only the client" in done.stderr


def test_without_spark_no_verdict_loses_what_vouches_for_it(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    judge(tmp_path)
    before = verdict_summary(tmp_path, 0).read_bytes()
    for more in (["--table", "t"], ["--commit-log", "auto", "--kafka-properties", "kafka.properties"]):
        assert run_alone("judge_staleness", str(tmp_path), *IDLE, *more).returncode == 1
        assert verdict_summary(tmp_path, 0).read_bytes() == before


def test_a_session_that_runs_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[SparkSession] = []
    monkeypatch.setattr(SparkSession, "stop", stopped.append)
    with session_of("a job") as session:
        assert session is spark
    assert not stopped
