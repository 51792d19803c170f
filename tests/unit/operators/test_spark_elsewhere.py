"""A Spark job on a cluster: its secrets stay off the command line, and its task lasts as long as the job."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator
from airflow_kafka_groups.operators.support.spark_connection import submit_hook
from tests.unit.operators.spark_program import Submitted

SECRET = "s3cr3t-of-the-job"
ENV = {"AWS_SECRET_ACCESS_KEY": SECRET, "HADOOP_USER_NAME": "ann"}


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Submitted(tmp_path)


def run(submitted: Submitted, monkeypatch: pytest.MonkeyPatch, master: str, **spark: Any) -> None:
    connection = {"conn_type": "spark", "host": master}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    task = KafkaSparkSubmitOperator(
        task_id="t", application="/my/job.jar", kafka="off", spark={"spark_binary": str(submitted.program), **spark}
    )
    task.execute({})


@pytest.mark.parametrize(
    ("master", "name"), [("yarn", "spark.yarn.appMasterEnv"), ("k8s://https://k:6443", "spark.kubernetes.driverEnv")]
)
def test_variables_of_a_driver_elsewhere_are_not_on_the_command_line(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, master: str, name: str
) -> None:
    """Airflow's hook passes them as ``--conf``, which every user of the machine can read."""
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.kube_client", object(), raising=False)
    submitted.answer("Exit code: 0")
    run(submitted, monkeypatch, master, env_vars=ENV)
    (given,) = submitted.runs
    assert SECRET not in str(given.words)
    assert f"{name}.AWS_SECRET_ACCESS_KEY={SECRET}\n{name}.HADOOP_USER_NAME=ann\n" in given.properties
    assert (given.environment.get("HADOOP_USER_NAME") == "ann") is (master == "yarn"), "as with Airflow's own operator"


def test_variables_of_a_driver_here_are_in_its_environment_only(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(submitted, monkeypatch, "local[1]", env_vars=ENV)
    (given,) = submitted.runs
    assert SECRET not in str(given.words) + given.properties
    assert given.environment["AWS_SECRET_ACCESS_KEY"] == SECRET


def test_without_a_file_for_them_secret_variables_are_refused(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="AWS_SECRET_ACCESS_KEY: cannot be kept off the command line"):
        run(submitted, monkeypatch, "yarn", env_vars=ENV)
    assert submitted.runs == []


@pytest.mark.parametrize("status", ["FINISHED", "FAILED"])
def test_a_job_of_a_standalone_cluster_is_waited_for(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Airflow's hook returns when the driver is submitted; the waiting is in Airflow's operator, which is not ours."""
    polled: list[str] = []

    def track(self: Any) -> None:
        polled.append(self._driver_id)
        self._driver_status = status

    monkeypatch.setattr(SparkSubmitHook, "_start_driver_status_tracking", track)
    submitted.answer("Driver successfully submitted as driver-20261123000000-0001")
    if status == "FINISHED":
        run(submitted, monkeypatch, "spark://m:7077", deploy_mode="cluster")
    else:
        with pytest.raises(Exception, match="driver-20261123000000-0001 ended as FAILED"):
            run(submitted, monkeypatch, "spark://m:7077", deploy_mode="cluster")
    assert polled == ["driver-20261123000000-0001"]


@pytest.mark.parametrize("name", ["yarn_track_via_rm_api", "track_driver_via_k8s_api"])
def test_a_tracking_that_only_airflows_operator_has_is_refused(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With it, the hook returns at once, and the task would be a success before the job has begun."""
    with pytest.raises(ConfigurationError, match=f"spark, {name} .*spark-submit itself waits"):
        run(submitted, monkeypatch, "yarn", **{name: True})
    assert submitted.runs == []


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        ({"conf": "spark.ui.enabled=false"}, "spark, conf: must be a mapping"),
        ({"env_vars": ["A=b"]}, "spark, env_vars: must be a mapping"),
    ],
)
def test_an_argument_of_spark_that_cannot_be_is_named_and_not_tried_again(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, spark: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{why}"):
        run(submitted, monkeypatch, "local[1]", **spark)


def test_properties_may_be_json_as_other_mappings(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    run(submitted, monkeypatch, "local[1]", conf='{"spark.app.own": "7"}', env_vars=None)
    assert "spark.app.own=7" in submitted.runs[0].properties


def test_a_task_s_page_shows_no_secret_of_spark() -> None:
    """Airflow masks values by their names, of which it knows neither Azure's nor JAAS."""
    conf = {
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "s3cr3t-of-azure",
        "spark.kafka.sasl.jaas.config": "s3cr3t-of-jaas",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.Provider",
    }
    spark = {"conf": conf, "env_vars": {"AZURE_ACCOUNT_KEY": "s3cr3t-of-env", "HOME": "/home/ann"}}
    shown = str(_serialize_rendered_fields(KafkaSparkSubmitOperator(task_id="t", application="a.py", spark=spark)))
    assert "s3cr3t" not in shown
    assert "org.apache.Provider" in shown
    assert "/home/ann" in shown


def test_a_task_that_is_killed_before_it_submits_starts_no_job(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow kills the worker's process soon after: nobody would follow the job, nor remove its files."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    spark = {"spark_binary": str(submitted.program)}
    task = KafkaSparkSubmitOperator(task_id="t", application="/my/job.jar", kafka="off", spark=spark)
    monkeypatch.setattr(KafkaSparkSubmitOperator, "_properties", lambda self, folder: self.on_kill() or {})
    with pytest.raises(KafkaGroupsError, match="the task was killed before the job was submitted"):
        task.execute({})
    assert submitted.runs == []


class Started:
    """A spark-submit that ends when it is killed, or by itself."""

    pid, stdout = 2**31 - 1, ("line",)  # the id of no process

    def __init__(self, ended: list[int]) -> None:
        self._ended = ended

    def poll(self) -> int | None:
        return self._ended[0] if self._ended else None

    def kill(self) -> None:
        self._ended.append(-9)

    def wait(self) -> int:
        return self._ended[0] if self._ended else 0


@pytest.mark.safety
def test_a_task_that_is_killed_while_it_starts_spark_submit_ends_the_job(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow asks once: a job that is started in this moment would go on beside the retry."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    spark = {"spark_binary": str(submitted.program)}
    task = KafkaSparkSubmitOperator(task_id="t", application="/my/job.jar", kafka="off", spark=spark)
    ended: list[int] = []

    def start(*_: Any, **__: Any) -> Started:
        task.on_kill()
        return Started(ended)

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", start)
    folder = "airflow_kafka_groups.operators.support.spark_connection.private_folder"
    monkeypatch.setattr(folder, lambda: nullcontext(submitted.program.parent))
    with pytest.raises(Exception, match="Error code is: -9"):
        task.execute({})
    assert ended == [-9]


@pytest.mark.safety
def test_a_kill_after_the_job_s_end_ends_no_process_that_has_its_id_by_now(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives the id of a process that has ended to the next one, whose children are somebody else's."""
    asked: list[int] = []

    class Stranger:
        def __init__(self, pid: int) -> None:
            asked.append(pid)

        def children(self, recursive: bool = False) -> list[Any]:
            return []

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setattr("psutil.Process", Stranger)
    hook = submit_hook({"spark_binary": str(submitted.program)}, [])
    ended: list[int] = []
    hook._submit_sp = Started(ended)
    hook.on_kill()
    assert (asked, ended) == ([Started.pid], [-9])
    hook.on_kill()
    assert (asked, ended) == ([Started.pid], [-9]), "it has ended"
