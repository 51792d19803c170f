"""A key of a run's configuration that is no parameter stops the task: Airflow would go on with the default."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import dag_params, refuse_unknown_conf


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
