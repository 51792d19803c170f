"""The defaults of the shipped DAGs: one JSON object, of which no message shows the content."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import ParamValidationError

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_duration
from airflow_kafka_groups.operators.dag_params import approval_arguments, dag_params, spark_arguments, spark_settings
from tests.unit.cli.test_connection import cluster


@pytest.mark.parametrize(
    "text", ['{"spark_conf": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"},}', '["s3cr3t"]', "s3cr3t"]
)
def test_defaults_that_cannot_be_read_are_not_shown(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """They may hold a secret of Spark's, and an import error is shown to everybody."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", text)
    with pytest.raises(ConfigurationError, match="KAFKA_GROUPS_DEFAULTS: must be a JSON object") as caught:
        dag_params()
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark_conf", "spark.hadoop.fs.s3a.secret.key=s3cr3t"),
        ("spark_conf", [["spark.hadoop.fs.s3a.secret.key", "s3cr3t"]]),
        ("spark_conf", None),
        ("spark_conn_id", 5),
        ("spark_conn_id", " "),
        ("spark_binary", ["spark-submit"]),
    ],
)
def test_a_setting_of_spark_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """The DAG file failed with "'str' object is not a mapping", or its job long after it had begun."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({name: value}))
    with pytest.raises(ConfigurationError, match=rf"KAFKA_GROUPS_DEFAULTS\.{name}.* must be a ") as caught:
        spark_settings()
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.safety
def test_the_error_of_an_earlier_version_s_dag_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clean-up submits the job by Spark's own operator, which shows whatever it does not know."""
    defaults = {"spark_conf": {"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "s3cr3t-of-azure"}}
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps(defaults))
    with pytest.raises(TypeError, match="Invalid arguments were passed to SparkSubmitOperator") as caught:
        SparkSubmitOperator(task_id="judge_staleness", **spark_arguments("{{ ti.xcom_pull('list_offsets') }}"))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.safety
@pytest.mark.parametrize("name", ["storage_path", "policy_file"])
@pytest.mark.parametrize(
    "url", ["s3a://AKIA:s3cr3t@bucket/x", "abfss://c@acct/x?sig=s3cr3t", ["s3a://AKIA:s3cr3t@bucket/x"]]
)
def test_a_default_with_a_password_is_no_field_of_a_form(monkeypatch: pytest.MonkeyPatch, name: str, url: Any) -> None:
    """Airflow stores the form with the DAG, and shows it to everybody who may see the DAG."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({name: url}))
    with pytest.raises(ConfigurationError, match=rf"KAFKA_GROUPS_DEFAULTS\.{name}.*password") as caught:
        dag_params()
    assert "s3cr3t" not in str(caught.value)


def test_the_log_of_commits_is_read_where_that_is_possible_unless_the_site_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert dag_params("commit_log")["commit_log"].value == "auto"
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"commit_log": "required"}')
    assert dag_params("commit_log")["commit_log"].value == "required"
    asked = spark_arguments("20260131T235959Z-0123abcd")
    assert (asked["application"], asked["kafka"]) == ("judge_staleness", "{{ params.commit_log }}")
    words = asked["application_args"]
    assert words[words.index("--commit-log") + 1] == "{{ params.commit_log }}"


@pytest.mark.parametrize(
    ("defaults", "connection", "folder"),
    [
        ("{}", "kafka_groups_default", "kafka_groups_default"),
        ('{"kafka_groups_conn_id": "prod"}', "prod", "prod"),
        ('{"kafka_groups_conn_id": "prod/eu"}', "prod/eu", "prod_eu"),
        ('{"kafka_groups_conn_id": "prod", "cluster": "europe"}', "prod", "europe"),
        ('{"cluster": "default"}', "kafka_groups_default", "default"),
    ],
)
def test_a_shell_finds_what_the_dags_write(
    monkeypatch: pytest.MonkeyPatch, defaults: str, connection: str, folder: str
) -> None:
    """Neither the form nor the command names the cluster's folder: both find the same one."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", defaults)
    params = dag_params()
    assert (params["kafka_groups_conn_id"].value, params["cluster"].value) == (connection, folder)
    assert params["cluster"].resolve() == folder
    assert cluster("--conn-id", connection, "--storage-path", "/data").layout().cluster == folder


def test_the_folder_of_the_default_connection_is_no_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", '{"kafka_groups_conn_id": "prod", "cluster": "europe"}')
    assert cluster("--conn-id", "test", "--storage-path", "/data").layout().cluster == "test"
    assert cluster("--conn-id", "prod", "--cluster", "asia", "--storage-path", "/data").layout().cluster == "asia"


@pytest.mark.parametrize(("value", "seconds"), [("36h", 129_600), ("129600", 129_600), (129_600, 129_600), (0.5, 0.5)])
def test_idle_time_is_a_duration_or_a_number_of_seconds(value: object, seconds: float) -> None:
    param = dag_params("max_gap_seconds")["max_gap_seconds"]
    assert read_duration("max_gap_seconds", param.resolve(value)) == seconds


@pytest.mark.parametrize(
    "name", ["min_idle_seconds", "max_gap_seconds", "snapshot_days", "cleanup_days", "change_days"]
)
@pytest.mark.parametrize("value", ["7x", "", "week", True, None])
def test_the_form_refuses_what_is_no_duration(name: str, value: object) -> None:
    param = dag_params(name)[name]
    param.resolve()
    with pytest.raises(ParamValidationError):
        param.resolve(value)
    assert param.schema["type"][0] == "string", "the widget of Airflow's form"
    assert all(param.resolve(example) for example in param.schema["examples"])


def rendered(argument: str, conf: dict[str, Any]) -> str:
    """Return what Airflow renders an argument of a clean-up to, in a run with this configuration."""
    with DAG("clean_up", schedule=None, params=dag_params()) as dag:
        task = EmptyOperator(task_id="t")
    params = process_params(dag, task, conf, suppress_exception=False)
    template = dag.get_template_env().from_string(approval_arguments()[argument])
    return template.render(params=params, dag_run=SimpleNamespace(conf=conf))


@pytest.mark.parametrize(
    ("site_asks", "conf", "rule"),
    [
        (True, {}, "always"),
        (True, {"require_approval": False}, "never"),
        (True, {"require_approval": True}, "always"),
        (False, {}, "above_cap"),
        (False, {"require_approval": False}, "above_cap"),  # Airflow's form sends what nobody has touched, too
        (False, {"require_approval": True}, "always"),
    ],
)
@pytest.mark.parametrize("overrides", [True, False])
def test_a_run_waives_the_approval_only_where_its_configuration_counts(
    monkeypatch: pytest.MonkeyPatch, *, site_asks: bool, conf: dict[str, Any], rule: str, overrides: bool
) -> None:
    """Airflow's ``[core] dag_run_conf_overrides_params = False``: nobody who triggers a run changes a parameter."""
    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", str(overrides))
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"require_approval": site_asks}))
    by_site = "always" if site_asks else "above_cap"
    may_only_ask = conf.get("require_approval") is True
    assert rendered("approval_rule", conf) == (rule if overrides or may_only_ask else by_site)


@pytest.mark.parametrize("overrides", [True, False])
@pytest.mark.parametrize("site_dry", [True, False])
@pytest.mark.parametrize("conf", [{}, {"dry_run": True}, {"dry_run": False}])
def test_a_run_deletes_only_if_parameter_and_configuration_say_so(
    monkeypatch: pytest.MonkeyPatch, *, site_dry: bool, conf: dict[str, Any], overrides: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", str(overrides))
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"dry_run": site_dry}))
    asked = conf.get("dry_run", site_dry)
    assert rendered("dry_run", conf) == str(asked if overrides else asked or site_dry)


@pytest.mark.parametrize(
    ("name", "value"),
    [("dry_run", "false"), ("dry_run", None), ("approve_above", "100"), ("exclude", "a"), ("storage_path", "")],
)
def test_a_default_that_the_form_refuses_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Airflow says that a DAG has parameters without valid defaults, and not which."""
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({name: value}))
    with pytest.raises(ConfigurationError, match=rf"KAFKA_GROUPS_DEFAULTS\.{name}.*: is not (a|of type) ") as caught:
        dag_params()
    assert len(str(caught.value)) < 300
