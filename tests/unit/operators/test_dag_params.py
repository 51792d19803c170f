"""The shipped DAGs' form: the site's defaults, what a run's configuration may change, and fields left empty."""

import importlib
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_duration
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.dag_params import (
    approval_arguments,
    dag_params,
    refuse_unknown_conf,
    spark_arguments,
    spark_settings,
)
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
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


# A key of a run's configuration that is no parameter stops the task: Airflow would go on with the default.


def context(conf: dict[str, Any] | None, *, overrides: bool = True) -> Any:
    params = {"exclude": [], "dry_run": True, "min_idle_seconds": 604_800}
    of_run = {**params, **(conf or {})} if overrides else params
    return {"dag": SimpleNamespace(params=params), "dag_run": SimpleNamespace(conf=conf), "params": of_run}


@pytest.mark.parametrize("conf", [None, {}, {"dry_run": False}, {"exclude": ["a"], "min_idle_seconds": 1}])
def test_known_keys_and_no_configuration_pass(conf: dict[str, Any] | None) -> None:
    refuse_unknown_conf(context(conf))


@pytest.mark.safety
def test_a_misspelt_key_fails_for_good_and_names_the_nearest_parameter() -> None:
    with pytest.raises(
        ConfigurationError, match=r"key 'exlude'.*did you mean 'exclude'\? This task did nothing"
    ) as found:
        refuse_unknown_conf(context({"exlude": ["team-keep-*"], "dry_run": False}))
    assert isinstance(found.value, AirflowFailException), "a retry would read the same"


def test_a_key_that_is_like_none_names_them_all_and_is_cut() -> None:
    with pytest.raises(ConfigurationError, match="dry_run, exclude, min_idle_seconds") as found:
        refuse_unknown_conf(context({"z" * 5_000: 1}))
    assert len(str(found.value)) < 300


@pytest.mark.safety
def test_a_configuration_that_airflow_ignores_fails_for_good() -> None:
    """With ``[core] dag_run_conf_overrides_params = False``, a run would delete what its configuration excludes."""
    refuse_unknown_conf(context({"dry_run": True}, overrides=False))
    with pytest.raises(
        ConfigurationError, match=r"key 'exclude'.*dag_run_conf_overrides_params.*This task did nothing"
    ) as found:
        refuse_unknown_conf(context({"exclude": ["team-keep-*"]}, overrides=False))
    assert isinstance(found.value, AirflowFailException)
    assert "team-keep" not in str(found.value)


def test_what_airflow_itself_puts_there_passes() -> None:
    """``TriggerDagRunOperator`` names the triggering task for OpenLineage, unless it is told not to."""
    parent = {"parentRunId": "0", "parentJobName": "dag.task"}
    refuse_unknown_conf(context({"openlineage": parent, "dry_run": False}))
    refuse_unknown_conf(context({"openlineage": parent}, overrides=False))


@pytest.mark.safety
def test_a_run_has_no_values_of_the_run_before_in_the_same_process() -> None:
    """Of ``dag.test()`` twice, the second deleted with the first one's idle time, share and patterns."""
    with DAG("d", schedule=None, params=dag_params("exclude", "min_idle_seconds", "max_share")) as dag:
        task = EmptyOperator(task_id="t")
    conf = {"exclude": ["x"], "min_idle_seconds": 60, "max_share": 1}
    first = process_params(dag, task, conf, suppress_exception=False)
    given: Any = {"dag": dag, "task": task, "dag_run": SimpleNamespace(conf=conf), "params": first}
    refuse_unknown_conf(given)
    assert first == conf, "the task that is running has what its run was given"
    second = process_params(dag, task, {}, suppress_exception=False)
    assert second == {"exclude": [], "min_idle_seconds": "7d", "max_share": 0.5}


# Parts of the shipped DAGs that need no run: fields of the form that are left empty, and names in an alert.


NAME = "a\nForged: all is well" + "x" * 30_000


def dag_file(name: str) -> Any:
    return importlib.import_module(f"airflow_kafka_groups.example_dags.{name}")


@pytest.mark.parametrize(
    ("name", "task_id"),
    [
        ("backup_and_restore_drill", "backup"),
        ("lag_alert", "measure"),
        ("prune_abandoned_topics", "plan"),
        ("cleanup_stale_groups", "plan"),
    ],
)
@pytest.mark.parametrize("excluded", [None, [], ["a*"]])
def test_nothing_to_exclude_is_no_pattern(name: str, task_id: str, excluded: list[str] | None) -> None:
    """Airflow's form sends null for a field that was cleared."""
    dag_params("exclude")["exclude"].resolve(excluded)
    task = getattr(dag_file(name), task_id)
    template = task.dag.get_template_env().from_string(vars(task)["exclude"])
    again = task.prepare_for_execution()
    again.exclude = template.render(params={"exclude": excluded})
    assert again.exclude == tuple(excluded or ())


@pytest.mark.safety
def test_the_lag_alert_names_groups_on_one_line(admin: FakeAdmin) -> None:
    admin.groups = {NAME: FakeGroup({TopicPartition("t", 0): 0})}
    found = ListGroupLagOperator(task_id="t", max_lag=1).execute({})
    with pytest.raises(AirflowFailException, match=r"the most lagging: a\\nForged: all is well") as caught:
        dag_file("lag_alert").alert.function(found)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.safety
def test_the_lag_alert_names_the_most_lagging_groups_whatever_the_order_of_the_xcom() -> None:
    """PostgreSQL has XComs as JSONB, which sorts names by their length: those with the shortest ids were named."""
    lags = {f"g{number}": number for number in range(1, 8)} | {"the-one-that-lags": 9_000_000}
    found = {"lagging": len(lags), "groups": 50, "lagging_groups": lags}
    with pytest.raises(AirflowFailException) as caught:
        dag_file("lag_alert").alert.function(found)
    most = "the-one-that-lags (9000000), g7 (7), g6 (6), g5 (5), g4 (4)"
    assert str(caught.value) == f"8 of 50 groups lag too much, the most lagging: {most}"
