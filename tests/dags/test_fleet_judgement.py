"""A judgement of many clusters in an object store, by a task of a real Airflow: side by side, and stopped midway."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from tests.dags.runs import runnable
from tests.histories.judged import hour_rows
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import snapshot_id
from tests.lab.servers.object_store import BUCKET, ObjectStore

pytestmark = [pytest.mark.safety, pytest.mark.airflow]
NAMES = [f"c{number}" for number in range(8)]
BROKEN = "c2"
CONN_ID = "lab_s3"


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectStore]:
    with ObjectStore() as server:
        yield server


@pytest.fixture
def looked_up_by(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let Airflow open S3 by a connection, as Amazon's provider does; return the threads that look it up."""
    from airflow.sdk import BaseHook
    from airflow.sdk.io import fs, store
    from s3fs import S3FileSystem

    threads: list[str] = []

    def get_fs(conn_id: str | None, options: Any) -> Any:
        threads.append(threading.current_thread().name)
        found = BaseHook.get_connection(str(conn_id))
        login = {"key": found.login, "secret": found.password, "endpoint_url": found.extra_dejson["endpoint_url"]}
        return S3FileSystem(**login, skip_instance_cache=True)

    extra = {"endpoint_url": s3.endpoint}
    connection = {"conn_type": "aws", "login": "lab", "password": "lab-secret", "extra": extra}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "host": "b1:9092"}')
    monkeypatch.setattr(fs, "_register_filesystems", lambda: {"s3": get_fs})
    monkeypatch.setattr(store, "_STORE_CACHE", {})
    return threads


@pytest.fixture
def base(s3: ObjectStore, looked_up_by: list[str], tmp_path: Path) -> Iterator[Any]:
    """Return the fleet's folder, one of whose clusters has a manifest that cannot be read."""
    from airflow.sdk import ObjectStoragePath

    base = ObjectStoragePath(f"s3://{CONN_ID}@{BUCKET}/{uuid4().hex}")
    for name in NAMES:
        for hour in range(3):
            write_snapshot(tmp_path, hour, hour_rows(hour), cluster=name)
        (tmp_path / CLUSTER).rename(tmp_path / name)
    (tmp_path / BROKEN / "manifests" / f"{snapshot_id(0)}.json").write_text("{")
    base.fs.put(f"{tmp_path}/", str(base.path), recursive=True)
    yield base
    s3.heal()


def run_of(base: Any, limit: timedelta | None = None) -> Any:
    """Judge the fleet in a task, in a run of its own."""
    from airflow.sdk import DAG

    asked = ["--base", f"s3://{CONN_ID}@{base.path}", "--cluster", "*", "--min-idle", "1h", "--commit-log", "off"]
    with DAG(dag_id=f"judge_{uuid4().hex}", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        KafkaSparkSubmitOperator(
            task_id="judge",
            application="judge_staleness",
            application_args=asked,
            kafka="off",
            spark={"conn_id": None},
            execution_timeout=limit,
        )
    runnable(dag)
    return dag.test()


def written(base: Any) -> list[str]:
    base.fs.invalidate_cache()
    return sorted(key.removeprefix(f"{base.path}/") for key in base.fs.find(base.path))


def judged(base: Any) -> set[str]:
    """Return the clusters with a summary, each of which has verdicts."""
    keys = [key.split("/") for key in written(base)]
    verdicts = {key[0] for key in keys if key[1:3] == ["tables", "verdicts"]}
    summaries = {key[0] for key in keys if key[1:3] == ["summaries", "verdicts"]}
    assert summaries <= verdicts
    return summaries


def threads_left() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(("observations", "callers", "read"))]


def test_one_cluster_that_fails_fails_the_task_which_has_looked_up_the_connection_once(
    base: Any, looked_up_by: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run_of(base).state == "failed"
    assert f"cluster {BROKEN} failed: snapshot {snapshot_id(0)}" in caplog.text
    assert judged(base) == {*NAMES} - {BROKEN}
    assert looked_up_by == [threading.main_thread().name]
    sound, broken = (base / name / "manifests" / f"{snapshot_id(0)}.json" for name in (NAMES[0], BROKEN))
    broken.write_bytes(json.dumps({**json.loads(sound.read_bytes()), "cluster": BROKEN}).encode())
    assert run_of(base).state == "success"
    assert judged(base) == {*NAMES}
    assert not threads_left()


def test_a_task_that_is_stopped_in_the_middle_ends_and_leaves_nothing_half_done(base: Any, s3: ObjectStore) -> None:
    s3.let_fail("", "slow", 10**9, seconds=0.3)
    run = run_of(base, timedelta(seconds=6))
    assert run.state == "failed"
    (task,) = run.get_task_instances()
    assert task.duration < 6 + 20
    assert not threads_left()
    s3.heal()
    left = written(base)
    assert judged(base) < {*NAMES} - {BROKEN}
    time.sleep(1)
    assert written(base) == left, "nobody writes behind its back"
    run_of(base)
    assert judged(base) == {*NAMES} - {BROKEN}
