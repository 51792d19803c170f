"""A judgement from Airflow or a shell where no Spark can run, as Airflow's own images have no Java: on any storage."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.cli.main import main
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError, MaintenanceError, StorageError
from airflow_kafka_groups.hooks.retries import is_final
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.spark.plain_jobs import base_of, needs_no_spark, run_plain_job
from airflow_kafka_groups.storage.file_storage import LocalStorage, storage_below
from tests.histories.judged import verdict_summary, verdicts
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id
from tests.lab.servers.object_store import BUCKET, ObjectStore

VERDICTS = {"stale": "stale", "moving": "moving", "new": "settling"}


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").symlink_to(shutil.which("true", path="/usr/bin:/bin") or "")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')


def asked(base: Any, *more: str) -> list[str]:
    return ["--base", str(base), "--cluster", CLUSTER, "--min-idle-seconds", "3600", *more]


def judging(base: Any, *more: str, kafka: str = "auto") -> KafkaSparkSubmitOperator:
    arguments = asked(base, *more) if kafka == "required" else asked(base, "--commit-log", kafka, *more)
    return KafkaSparkSubmitOperator(
        task_id="judge", application="judge_staleness", application_args=arguments, kafka=kafka
    )


def copied(base: Any, to: Path) -> Path:
    """Copy what is below a folder of an object store to a disk."""
    base.fs.invalidate_cache()
    for key in base.fs.find(base.path):
        place = to / key.removeprefix(f"{base.path}/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(base.fs.cat_file(key))
    return to


@pytest.mark.parametrize("kafka", ["auto", "off"])
def test_a_worker_without_java_judges_and_says_how(store: Path, capsys: pytest.CaptureFixture[str], kafka: str) -> None:
    judging(store, kafka=kafka).execute({})
    assert {row["group_id"]: row["verdict"] for row in verdicts(store, 2)} == VERDICTS
    said = capsys.readouterr().out
    assert "without Spark and without access to Kafka: Spark needs Java 17 or newer" in said
    assert '"job": "judge_staleness"' in said
    assert json.loads(verdict_summary(store, 2).read_text())["evidence"]["not_read"]


def test_a_connection_to_a_cluster_that_no_provider_reaches_is_told_that_a_judgement_needs_none(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark.hooks", None)
    with pytest.raises(ConfigurationError, match=r"requires Airflow's Spark provider.* With spark_conn_id null"):
        judging(store).execute({})


def test_a_process_below_a_driver_of_spark_judges_without_its_jvm(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "of the driver")
    judging(store).execute({})
    assert {row["group_id"]: row["verdict"] for row in verdicts(store, 2)} == VERDICTS


@pytest.mark.safety
def test_a_task_that_is_killed_before_begins_nothing(store: Path) -> None:
    operator = judging(store)
    operator.on_kill()
    with pytest.raises(KafkaGroupsError, match="nothing was started"):
        operator.execute({})
    assert not (store / CLUSTER / "tables").exists()


@pytest.mark.parametrize("lacks", ["spark-submit", "Airflow's Spark provider"])
def test_one_without_spark_submit_or_airflow_s_spark_provider_judges_too(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacks: str
) -> None:
    (tmp_path / "bin" / "spark-submit").unlink()
    if lacks != "spark-submit":
        monkeypatch.setattr("airflow_kafka_groups.operators.support.spark_connection.find_spec", lambda _: None)
    judging(store).execute({})
    why = {"spark-submit": "there is no spark-submit"}.get(lacks, f"{lacks} is not installed")
    assert f"without access to Kafka: {why}" in capsys.readouterr().out
    assert {row["group_id"]: row["verdict"] for row in verdicts(store, 2)} == VERDICTS


def test_an_object_store_is_judged_as_a_disk_is(bucket: Any, store: Path, tmp_path: Path) -> None:
    judging(store).execute({})
    judging(bucket).execute({})
    found = copied(bucket, tmp_path / "copy")
    assert verdicts(found, 2) == verdicts(store, 2)
    folder = f"{CLUSTER}/tables/observations"
    names = [sorted(path.relative_to(at) for path in (at / folder).rglob("*.parquet")) for at in (found, store)]
    assert names[0] == names[1], "they are named by what is in them, and what was written aside is gone"
    for name in names[0]:
        assert (found / name).read_bytes() == (store / name).read_bytes()
    again = run_plain_job(["judge_staleness", *asked(bucket)], bucket)
    assert (again["snapshots_reduced"], again["verdicts"]["stale"]) == (0, 1)
    assert again["output"].startswith(f"s3://{BUCKET}/")


def test_a_fleet_on_an_object_store(bucket: Any) -> None:
    fleet = ["judge_staleness", "--base", str(bucket), "--cluster", "*", "--min-idle", "1h"]
    assert run_plain_job(fleet, bucket)["clusters"][CLUSTER]["groups"] == 3


@pytest.mark.safety
def test_a_snapshot_that_lost_a_file_or_was_changed_is_not_judged(bucket: Any) -> None:
    part = bucket / CLUSTER / "data" / snapshot_id(1) / "part-00000.parquet"
    content = part.read_bytes()
    part.unlink()
    with pytest.raises(MaintenanceError, match=rf"judge_staleness: snapshot {snapshot_id(1)} .*missing: part-00000"):
        judging(bucket).execute({})
    part.write_bytes(content[:-20])
    with pytest.raises(MaintenanceError, match=rf"snapshot {snapshot_id(1)} is incomplete or was changed"):
        judging(bucket).execute({})
    part.write_bytes(content)
    judging(bucket).execute({})


@pytest.mark.safety
def test_an_object_store_that_fails_is_not_taken_for_an_empty_one(bucket: Any, s3: ObjectStore) -> None:
    storage = storage_below(bucket, str(bucket))
    assert storage.exists(f"{bucket}/{CLUSTER}/manifests")
    assert not storage.exists(f"{bucket}/{CLUSTER}/nothing")
    try:
        for call in (storage.files, storage.folders, storage.sizes_below, storage.exists, storage.read):
            s3.let_fail("kafka-groups", "error", 20, status=403, code="AccessDenied")
            with pytest.raises(StorageError, match=f"^{bucket}/{CLUSTER}/manifests could not be .*Give this user"):
                call(f"{bucket}/{CLUSTER}/manifests")
    finally:
        s3.heal()


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "ExpiredToken"])
def test_a_key_that_is_wrong_or_expired_is_not_to_be_given_access(bucket: Any, s3: ObjectStore, code: str) -> None:
    s3.let_fail("kafka-groups", "error", 20, status=403, code=code)
    try:
        with pytest.raises(MaintenanceError, match=r"Check the credentials in the storage's connection"):
            judging(bucket).execute({})
    finally:
        s3.heal()


@pytest.mark.parametrize(("kafka", "more"), [("required", ()), ("auto", ("--table", "lake.verdicts"))])
def test_what_needs_spark_is_told_that_there_is_no_java(kafka: str, more: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer on this machine"):
        judging("/store", *more, kafka=kafka).execute({})


@pytest.mark.safety
def test_the_last_base_is_the_one_that_is_judged(bucket: Any) -> None:
    arguments = [*asked(f"{bucket}/other"), f"--base={bucket}"]
    spark = {"conn_id": None}
    KafkaSparkSubmitOperator(
        task_id="judge", application="judge_staleness", application_args=arguments, kafka="off", spark=spark
    ).execute({})
    place = bucket / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id(2)}.json"
    assert json.loads(place.read_bytes())["output"].startswith(f"s3://{BUCKET}/{bucket.parent.name}/kafka-groups/c/")


def test_a_job_of_somebody_else_is_not_taken_for_one_of_this_package(store: Path) -> None:
    own = KafkaSparkSubmitOperator(
        task_id="own", application="/jobs/own.py", application_args=["judge_staleness", *asked(store)], kafka="off"
    )
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer on this machine"):
        own.execute({})
    assert not (store / CLUSTER / "summaries").exists()


def test_a_failed_job_fails_the_task_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(MaintenanceError, match=r"judge_staleness: .*no snapshot of cluster c in"):
        judging(tmp_path).execute({})
    with pytest.raises(ConfigurationError, match=r"has a wrong argument: .*required: --min-idle"):
        run_plain_job(["judge_staleness", "--base", str(tmp_path), "--cluster", "c"], tmp_path)


def test_a_storage_that_does_not_answer_is_tried_again_as_a_job_of_spark_s_is(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("the storage is busy")

    monkeypatch.setattr(LocalStorage, "read_many", fail)
    for clusters, message in (((), "judge_staleness: the storage"), (("--cluster", "d"), "failed for c, d: .*busy")):
        with pytest.raises(KafkaGroupsError, match=message) as failed:
            run_plain_job(["judge_staleness", *asked(store, *clusters)], store)
        assert not is_final(failed.value)


def test_only_a_job_without_kafka_and_tables_needs_no_spark() -> None:
    base = ["judge_staleness", "--base", "/a"]
    assert needs_no_spark(base)
    assert not needs_no_spark(["lag_report", "--base", "/a"])
    assert base_of(base) == "/a"
    for words in (["--base=/b"], ["--bas", "/b"], ["--base", "/b"]):
        assert base_of([*base, "--cluster", "c", *words]) == "/b", "as the job itself reads them"
    for words in ([], ["--cluster", "c"], ["--base"]):
        assert base_of(["judge_staleness", *words]) is None
    for more in (["--table", "t"], ["--observations-table=t"], ["--kafka-properties", "f"]):
        assert not needs_no_spark([*base, *more])
    for other in ([], ["archive_backlog", "--base", "/a"], ["--base", "/a"]):
        assert not needs_no_spark(other)


def test_the_shell_judges_an_object_store(bucket: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--bootstrap-servers", "b1:9092", "--storage-path", str(bucket), "--cluster", CLUSTER]
    assert main(["judge", *options, "--min-idle", "1h", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["verdict"]: each["groups"] for each in found["verdicts"]} == {"moving": 1, "settling": 1, "stale": 1}
    assert found["snapshot_id"] == snapshot_id(2)
    place = bucket / CLUSTER / "summaries" / "verdicts" / f"{snapshot_id(2)}.json"
    assert json.loads(place.read_bytes())["policy"]["max_gap_seconds"] == 172_800
    with (
        bucket.joinpath(CLUSTER, "tables", "verdicts", f"snapshot_id={snapshot_id(2)}")
        .iterdir()
        .__next__()
        .open("rb") as file
    ):
        assert pq.read_table(file).num_rows == 3
