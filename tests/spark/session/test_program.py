"""What a job says when Spark itself is missing or does not start."""

from __future__ import annotations

import argparse
import os
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

from airflow_kafka_groups.spark import application, session_on_demand
from airflow_kafka_groups.spark.jobs import archive_backlog, judge_staleness, lag_report, roll_up
from airflow_kafka_groups.spark.names import WITHOUT_SPARK
from airflow_kafka_groups.spark.options import folder_path
from airflow_kafka_groups.spark.program import Program
from airflow_kafka_groups.spark.session import preflight as packages

pytestmark = pytest.mark.spark


def test_a_machine_without_java_is_told_in_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_java(_: Any) -> SparkSession:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(session_on_demand, "_running_session", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", no_java)
    nothing: Callable[[Any], None] = lambda _: None  # noqa: E731
    assert Program("a_job", None, nothing, nothing, lambda *_: {}, "Nothing").main([]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("a_job: error: Spark does not start: [JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert last.endswith(
        "Check that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and what it wrote above"
    )


def test_a_master_that_does_not_answer_is_named_and_not_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark gives up after a minute, and goes on with a context that it has stopped."""

    def stopped(_: Any) -> SparkSession:
        raise PySparkException("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was …")

    monkeypatch.setattr(session_on_demand, "_running_session", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", stopped)
    monkeypatch.setattr(SparkConf, "get", lambda *_: "spark://m:7077")
    assert roll_up.main(["--base", "/b", "--output", "/o"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "Java" not in last
    assert last.endswith("check that spark://m:7077 is its master, runs, and can be reached")


def test_a_python_without_pyspark_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert application.main(["roll_up", "--base", "/b"]) == 1
    assert "has no pyspark: start it by spark-submit, or install airflow-kafka-groups[spark]" in capsys.readouterr().err


@pytest.mark.parametrize("job", [job for job in application.JOBS if job not in WITHOUT_SPARK])
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
    assert "has only the client of Spark Connect, which has no JVM: start it by spark-submit, or install pysp" in said


def test_a_job_in_a_session_of_spark_connect_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings that a job puts back are kept by session, and this one's name is the JVM's, too."""

    class Remote:
        def __getattr__(self, name: str) -> Any:
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})

    monkeypatch.setattr(session_on_demand, "_running_session", Remote)
    assert application.main(["roll_up", "--base", "/b", "--output", "/o"]) == 1
    said = capsys.readouterr().err
    assert "needs the driver's JVM, and this is a Spark Connect session" in said
    assert "run the job by spark-submit" in said


def test_a_spark_before_4_is_not_called_a_client(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no ``pyspark.core`` either: its own spark-submit was told to use spark-submit."""
    absent, own = "pyspark.core", "pyspark.context"
    found = {absent: None, own: find_spec("pyspark")}
    monkeypatch.setattr(packages, "find_spec", lambda name: found[name] if name in found else find_spec(name))
    assert application.main(["roll_up", "--base", "/b"]) == 1
    assert "is older than 4.0: use Spark 4.2, with which the jobs are tested" in capsys.readouterr().err


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
