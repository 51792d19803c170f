"""The session of a job: the one that runs, or one of its own, which starts or says why not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.session import session_of
from tests.histories.judged import judge, verdict_summary, write_hour
from tests.histories.lake import CLUSTER

pytestmark = pytest.mark.spark
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
    assert "has no pyspark: start it by spark-submit, or install airflow-kafka-groups[spark]" in done.stderr


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
