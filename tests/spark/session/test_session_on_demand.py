"""A job that needs no Spark does not start it; what needs it, does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.workers import Workers
from airflow_kafka_groups.spark import session_on_demand
from airflow_kafka_groups.spark.session import this_machine as this_machine_module
from airflow_kafka_groups.spark.session.this_machine import ThisMachine, this_machine
from airflow_kafka_groups.spark.session_on_demand import SessionOnDemand
from airflow_kafka_groups.storage.file_storage import LocalStorage
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


@pytest.mark.parametrize(
    "more",
    [
        ["--base", "s3a://bucket/x"],
        ["--table", "verdicts"],
        ["--observations-table", "observations"],
        ["--commit-log", "auto", "--kafka-properties", "kafka.properties"],
        ["--commit-history", "history"],
    ],
)
def test_what_needs_spark_is_told_that_it_does_not_start(tmp_path: Path, more: list[str]) -> None:
    write_hour(tmp_path, 0)
    done = run_alone("judge_staleness", str(tmp_path), *IDLE, *more)
    assert done.returncode == 1
    assert "judge_staleness: error: Spark does not start: " in done.stderr.splitlines()[-1]
    done = run_alone("judge_staleness", str(tmp_path), *IDLE, *more, SPARK_HOME=str(tmp_path))
    assert "judge_staleness: error: Spark does not start: [Errno 2] No such file" in done.stderr.splitlines()[-1]
    without = "import sys\nsys.modules.update(pyspark=None, py4j=None)"
    done = run_alone("judge_staleness", str(tmp_path), *IDLE, *more, python=without)
    assert done.returncode == 1
    assert "has no pyspark: start it by spark-submit, or install airflow-kafka-groups[spark]" in done.stderr


@pytest.mark.parametrize(
    ("environment", "cores"),
    [
        ({}, None),
        ({"PYSPARK_SUBMIT_ARGS": "--master local pyspark-shell"}, 1),
        (
            {"PYSPARK_SUBMIT_ARGS": "--driver-memory 2g --master local[3] --conf spark.ui.enabled=false pyspark-shell"},
            3,
        ),
        ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=local[*,2] pyspark-shell"}, None),
        ({"PYSPARK_SUBMIT_ARGS": "--master=local[2,4] pyspark-shell"}, 2),
        ({"PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.master=local[3] pyspark-shell"}, 2),
        ({"JAVA_TOOL_OPTIONS": "-Dfile.encoding=UTF-8", "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}, None),
    ],
)
def test_a_session_of_this_machine_alone_need_not_start(
    tmp_path: Path, environment: dict[str, str], cores: int | None
) -> None:
    assert this_machine({"SPARK_HOME": str(tmp_path), **environment}) == ThisMachine(cores, True)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYSPARK_SUBMIT_ARGS": "--master spark://m:7077 pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master spark://m:7077 --conf spark.master=local pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Dspark.hadoop.fs.defaultFS=hdfs://n:8020 pyspark-shell"},
        {"SPARK_SUBMIT_OPTS": "-Dspark.master=spark://m:7077"},
        {"JAVA_TOOL_OPTIONS": "-Dspark.eventLog.enabled=true"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.eventLog.enabled=true pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf 'spark.eventLog.enabled= TRUE' pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.extraListeners=io.a.Listener pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--properties-file site.conf pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master 'local pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "pyspark-shell --master"},
        {"MASTER": "yarn"},
        {"SPARK_REMOTE": "sc://there"},
    ],
)
def test_a_session_of_a_cluster_or_that_somebody_follows_starts(tmp_path: Path, environment: dict[str, str]) -> None:
    assert this_machine({"SPARK_HOME": str(tmp_path), **environment}) is None


@pytest.mark.parametrize("name", ["spark-defaults.conf", "spark-env.sh", "java-opts"])
def test_what_only_a_jvm_reads_starts_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / name).touch()
    assert this_machine({"SPARK_HOME": str(tmp_path)}) is None
    assert this_machine({"SPARK_CONF_DIR": f"{tmp_path}/conf"}) is None
    assert this_machine({"SPARK_HOME": str(tmp_path), "SPARK_CONF_DIR": str(tmp_path)}) == ThisMachine(None, True)


@pytest.mark.parametrize("name", ["core-site.xml", "hive-site.xml"])
def test_hadoops_files_beside_sparks_may_name_another_storage(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert this_machine({"SPARK_CONF_DIR": str(tmp_path)}) == ThisMachine(None, False)


def test_a_spark_whose_python_is_on_the_path_has_its_configuration_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without SPARK_HOME, pyspark finds the Spark that it is in, too."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "python" / "pyspark").mkdir(parents=True)
    found = ModuleSpec("pyspark", None, is_package=True)
    found.submodule_search_locations = [f"{tmp_path}/python/pyspark"]
    monkeypatch.setattr(this_machine_module, "find_spec", lambda _: found)
    assert this_machine({}) == ThisMachine(None, True)
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert this_machine({}) is None


@pytest.mark.parametrize(
    "environment",
    [
        {"HADOOP_CONF_DIR": "/etc/hadoop"},
        {"YARN_CONF_DIR": "/etc/hadoop"},
        {"SPARK_DIST_CLASSPATH": "/etc/hadoop:/usr/lib/hadoop/*"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.hadoop.fs.defaultFS=hdfs://n:8020 pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "-c spark.driver.extraClassPath=/etc/hadoop pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-class-path /etc/hadoop pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--jars site.jar pyspark-shell"},
    ],
)
def test_a_path_without_a_scheme_may_be_of_another_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]
) -> None:
    """To Spark it then is: a judgement must not look for the snapshots elsewhere than the other jobs do."""
    known = this_machine({"SPARK_HOME": str(tmp_path), **environment})
    assert known == ThisMachine(None, False)
    monkeypatch.setattr(session_on_demand, "this_machine", lambda: known)
    monkeypatch.setattr(session_on_demand, "_running_session", lambda: None)
    monkeypatch.setattr(session_on_demand, "_has_jvm", lambda: False)

    def started(_: Any) -> SparkSession:
        raise JobError("it starts")

    monkeypatch.setattr(SessionOnDemand, "start", started)
    with SessionOnDemand("a job") as session:
        assert isinstance(session.storage("file:///x"), LocalStorage)
        for path in ("/x", "x", "hdfs://n/x", "s3a://b/x"):
            with pytest.raises(JobError, match="it starts"):
                session.storage(path)


def test_a_submitted_job_knows_what_it_was_submitted_with(tmp_path: Path) -> None:
    """In the program that spark-submit starts, which has a JVM but no session."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import sys\nsys.path.append({str(ROOT)!r})\n"
        "from airflow_kafka_groups.spark.session.this_machine import this_machine\nprint(this_machine())\n"
    )
    jar = tmp_path / "site.jar"
    with ZipFile(jar, "w") as file:
        value = "<name>fs.defaultFS</name><value>hdfs://n:8020</value>"
        file.writestr("core-site.xml", f"<configuration><property>{value}</property></configuration>")
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[3]"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    for conf, expected in {
        "spark.ui.enabled=false": "ThisMachine(cores=3, has_paths=True)",
        "spark.hadoop.fs.defaultFS=hdfs://n:8020": "ThisMachine(cores=3, has_paths=False)",
        "spark.eventLog.enabled=true": "None",
        f"spark.jars={jar}": "ThisMachine(cores=3, has_paths=False)",
    }.items():
        command = [*submit, "--conf", conf, str(program)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == expected


@pytest.mark.parametrize(("parallelism", "at_once"), [(1, 2), (1000, 4)])
def test_a_session_for_many_partitions_is_no_machine_with_many_cores(
    monkeypatch: pytest.MonkeyPatch, parallelism: int, at_once: int
) -> None:
    """``spark.default.parallelism`` is often set to hundreds, and each result is a snapshot's observations."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[*]", defaultParallelism=parallelism))
    monkeypatch.setattr(SessionOnDemand, "get", lambda _: session)
    snapshots = iter(range(5000))
    with SessionOnDemand("a job", session) as on_demand, Workers(on_demand.cores, is_local=True) as workers:
        assert next(workers.each(str, snapshots)) == (0, "0")
    assert next(snapshots) == at_once


def test_without_spark_no_verdict_loses_what_vouches_for_it(tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    judge(tmp_path)
    before = verdict_summary(tmp_path, 0).read_bytes()
    for more in (["--commit-history", "history"], ["--commit-log", "auto", "--kafka-properties", "kafka.properties"]):
        assert run_alone("judge_staleness", str(tmp_path), *IDLE, *more).returncode == 1
        assert verdict_summary(tmp_path, 0).read_bytes() == before


def test_a_jvm_that_is_there_decides_by_what_it_was_started_with(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a notebook whose session was stopped: the next one has its master and its storage."""
    monkeypatch.setattr(session_on_demand, "_running_session", lambda: None)
    with SessionOnDemand("a job") as session:
        assert session._machine is None


def test_a_session_that_a_user_starts_meanwhile_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[SparkSession] = []
    monkeypatch.setattr(SparkSession, "stop", stopped.append)
    monkeypatch.setattr(session_on_demand, "_running_session", lambda: None)
    with SessionOnDemand("a job") as session:
        monkeypatch.setattr(session_on_demand, "_running_session", lambda: spark)
        assert session.start() is spark
    assert not stopped


def test_ctrl_c_while_spark_starts_leaves_no_jvm(tmp_path: Path) -> None:
    """It hangs otherwise: pyspark has removed the folder in which it was about to write its port."""
    write_hour(tmp_path, 0)
    submit, started = tmp_path / "spark" / "bin" / "spark-submit", tmp_path / "pid"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\necho $$ > {started}.new && mv {started}.new {started}\nexec sleep 120\n")
    submit.chmod(0o755)
    given = os.environ | {"SPARK_HOME": str(submit.parents[1]), "MASTER": "local[1]", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "airflow_kafka_groups.spark", "judge_staleness", "--base", str(tmp_path)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        job = subprocess.Popen(
            [*command, "--cluster", CLUSTER, *IDLE], env=given, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with job:
        while not started.exists() and job.poll() is None:
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)
        job.wait(30)
        jvm = int(started.read_text())
        try:
            with pytest.raises(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
        finally:
            said = job.communicate()[1]
    assert (job.returncode, said) == (130, "judge_staleness: interrupted\n")
