"""A judgement from Airflow on a worker that has no Java, as Airflow's own images have none."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.plain_job import PlainJob, needs_no_spark
from tests.spark.judged import verdicts, write_hour
from tests.spark.lake import CLUSTER


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").symlink_to(shutil.which("true", path="/usr/bin:/bin") or "")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')


def judging(base: str, kafka: str = "auto", table: str = "") -> KafkaSparkSubmitOperator:
    asked = ["--base", base, "--cluster", CLUSTER, "--min-idle-seconds", "3600"]
    if kafka != "required":
        asked += ["--commit-log", kafka]
    return KafkaSparkSubmitOperator(
        task_id="judge", application="judge_staleness", application_args=asked, kafka=kafka, table=table
    )


@pytest.mark.parametrize("kafka", ["auto", "off"])
def test_a_worker_without_java_judges_and_says_how(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kafka: str
) -> None:
    for number in range(3):
        write_hour(tmp_path / "store", number)
    with caplog.at_level(logging.INFO):
        judging(str(tmp_path / "store"), kafka).execute({})
    found = {row["group_id"]: row["verdict"] for row in verdicts(tmp_path / "store", 2)}
    assert found == {"stale": "stale", "moving": "moving", "new": "settling"}
    assert (
        "runs on this machine, without Spark and without access to Kafka: Spark needs Java 17 or newer on this machine"
        in caplog.text
    )
    said = next(json.loads(line) for line in caplog.messages if line.startswith('{"job"'))
    assert said["verdicts"]["stale"] == 1
    assert said["evidence"]["not_read"]


def test_one_without_spark_submit_or_airflow_s_spark_provider_judges_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_hour(tmp_path / "store", number)
    (tmp_path / "bin" / "spark-submit").unlink()
    judging(str(tmp_path / "store")).execute({})
    assert "to Kafka: there is no spark-submit" in caplog.text
    monkeypatch.setattr("airflow_kafka_groups.operators.support.spark_connection.find_spec", lambda _: None)
    judging(str(tmp_path / "store")).execute({})
    assert "to Kafka: Airflow's Spark provider is not installed" in caplog.text


@pytest.mark.parametrize(
    ("base", "more"),
    [
        ("/store", {"kafka": "required"}),
        ("s3a://bucket/store", {}),
        ("file://host/store", {"kafka": "required"}),
        ("/store", {"table": "lake.verdicts"}),
    ],
)
def test_what_needs_spark_is_told_that_there_is_no_java(base: str, more: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer on this machine"):
        judging(base, **more).execute({})


def test_a_failed_job_fails_the_task_with_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(KafkaGroupsError, match=r"the job judge_staleness failed: .*no snapshot of cluster c in"):
        judging(str(tmp_path)).execute({})


def test_a_killed_task_stops_its_job(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time\nprint('began', flush=True)\ntime.sleep(60)\n")
    job, failed = PlainJob(["judge_staleness"], dict(os.environ), "it is tried out"), []

    def run() -> None:
        try:
            job.submit(str(tmp_path / "sleeps.py"))
        except KafkaGroupsError as exc:
            failed.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    while job._process is None:
        time.sleep(0.01)
    job.on_kill()
    thread.join(20)
    assert not thread.is_alive()
    assert failed
    with pytest.raises(KafkaGroupsError):
        job.submit(str(tmp_path / "sleeps.py"))


def test_only_a_job_on_a_local_disk_that_writes_no_table_needs_no_spark() -> None:
    base = ["judge_staleness", "--base", "/a"]
    assert needs_no_spark(base)
    assert needs_no_spark(["lag_report", "--base", "file:///a", "--owners", "/b.json"])
    for more in (
        ["--output", "s3a://b/c"],
        ["--table", "t"],
        ["--observations-table", "t"],
        ["--commit-history", "/h"],
    ):
        assert not needs_no_spark([*base, *more])
    for other in ([], ["archive_backlog", "--base", "/a"], ["judge_staleness", "--base", "s3a://b"], ["--base", "/a"]):
        assert not needs_no_spark(other)
    assert not needs_no_spark(["lag_report", "--base", "/a", "--owners", "gs://b/owners.json"])
