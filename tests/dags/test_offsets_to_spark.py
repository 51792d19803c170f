"""The DAG that lets Spark process a group's backlog, on a broker to log in at: the password is nowhere to be seen."""

import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.plugins.report_files import named_reports, read_report
from tests.dags.runs import connect, shipped_dags
from tests.lab.cluster import KafkaCluster
from tests.lab.spark.archive import quick_options
from tests.lab.spark.jars import connector_jars
from tests.lab.workload.groups import commit_offsets
from tests.spark.kafka import committed, fill

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

PASSWORD = "correct-horse-battery"
# The driver dies while a task writes the second slice, once.
KILLED = """
import os, signal
from pathlib import Path

def die_once(records, context):
    driver, died = os.getpid(), Path("@SEEN@")
    with died.with_suffix(".slices").open("a") as slices:
        slices.write(f"{context.slice} ")

    def write(batches):
        for batch in batches:
            yield batch
            if context.slice == 2 and not died.exists():
                died.touch()
                os.kill(driver, signal.SIGKILL)

    values = records.selectExpr("topic", "cast(value as string) as value")
    return values.mapInArrow(write, values.schema)
"""
# It looks around from within the running job: at what every process was started with, and at Spark's own web pages.
TRANSFORM = """
import json, os, urllib.request
from pathlib import Path

def look_around(records):
    assert records.where("offset < 0").count() == 0
    context = records.sparkSession.sparkContext
    pages = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    seen = {"command lines": [], "inherited": dict(os.environ), "conf": dict(context.getConf().getAll())}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            seen["command lines"].append((process / "cmdline").read_text("utf-8", "replace").replace(chr(0), " "))
        except OSError:
            pass
    for page in ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true"):
        seen[page] = urllib.request.urlopen(f"{pages}/{page}", timeout=60).read().decode()
    Path("@SEEN@").write_text(json.dumps(seen))
    return records.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users={"me": PASSWORD}) as cluster:
        yield cluster


@pytest.fixture
def dag(cluster: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    transform = tmp_path / "users_transform.py"
    transform.write_text((TRANSFORM + KILLED).replace("@SEEN@", str(tmp_path / "seen.json")))
    (tmp_path / "events").mkdir()
    conf = {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.submit.pyFiles": str(transform),
        "spark.ui.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
    }
    extra = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    login: dict[str, Any] = {"login": "me", "password": PASSWORD, "extra": extra}
    connect(monkeypatch, cluster.sasl_bootstrap, **login)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"spark_conf": conf}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    return shipped_dags()["offsets_to_spark"]


@pytest.mark.safety
def test_spark_processes_the_backlog_and_shows_no_secret(
    dag: Any, cluster: KafkaCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(cluster.bootstrap, {("ots", 0): 6, ("ots", 1): 2})
    commit_offsets(cluster.bootstrap, {"ots-group": {("ots", 0): 2, ("ots", 1): 2}})
    given = {"storage_path": str(tmp_path / "storage"), "cluster": "lab", "group_id": "ots-group"}
    run = dag.test(run_conf={**given, "transform": "users_transform:look_around", "output": str(tmp_path / "out")})
    logged = "".join(capfd.readouterr())
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert run.state == "success", (states, logged[-8000:])
    assert set(states.values()) == {"success"}

    values = pq.read_table(tmp_path / "out").column("value").to_pylist()
    assert sorted(values) == [f"ots-0-{number}" for number in range(2, 6)]
    assert committed(cluster.bootstrap, "ots-group", ("ots", 0), ("ots", 1)) == [6, 2]
    (report,) = named_reports(dag.dag_id, run.run_id)  # what the run's tab shows
    assert b"4 offsets of 1 partition were processed. Committed." in read_report(report)

    seen = json.loads((tmp_path / "seen.json").read_text())
    assert any("process_group_backlog" in line and "--kafka-properties" in line for line in seen["command lines"])
    assert "spark.eventLog.dir" in seen["environment"]
    assert "KafkaRelation" in seen["sql?details=true&planDescription=true"]
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert "SparkListenerSQLExecutionStart" in events
    assert "sasl.jaas.config = [hidden]" in logged, "the clients' own settings are logged, without the secret"
    for place, text in {**seen, "events": events, "log": logged}.items():
        # The test gives Airflow the connection by a variable, which every child process inherits.
        if place == "inherited":
            text = {name: value for name, value in text.items() if not name.startswith("AIRFLOW_CONN_")}
        assert PASSWORD not in json.dumps(text), place
    stored = "".join(path.read_text() for path in (tmp_path / "storage").rglob("*.json"))
    assert PASSWORD not in stored
    assert not list(Path(tempfile.gettempdir()).glob("kafka-groups-*/kafka.properties"))


@pytest.mark.safety
def test_a_driver_that_is_killed_while_it_writes_costs_one_slice(
    dag: Any, cluster: KafkaCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(cluster.bootstrap, {("kill", 0): 9})
    commit_offsets(cluster.bootstrap, {"kill-group": {("kill", 0): 0}})
    assert dag.get_task("process").retries == 2
    dag.get_task("process").retry_delay = timedelta(0)
    given = {"storage_path": str(tmp_path / "storage"), "cluster": "lab", "group_id": "kill-group"}
    sizes = {"records_per_slice": 3, "records_per_partition": 2, "format": "json", "output_mode": "append"}
    where = {"transform": "users_transform:die_once", "output": str(tmp_path / "out")}
    run = dag.test(run_conf=given | sizes | where)
    assert run.state == "success", "".join(capfd.readouterr())[-8000:]
    assert (tmp_path / "seen.slices").read_text().split() == ["1", "2", "2", "3"]
    rows = [json.loads(line) for path in (tmp_path / "out").rglob("*.json") for line in path.read_text().splitlines()]
    assert sorted(row["value"] for row in rows) == [f"kill-0-{number}" for number in range(9)]
    assert committed(cluster.bootstrap, "kill-group", ("kill", 0)) == [9]
