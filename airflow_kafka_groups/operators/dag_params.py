"""The parameter form of the shipped DAGs, their settings, and a check of a run's configuration; also for your own DAGs.

Defaults come from the environment variable ``KAFKA_GROUPS_DEFAULTS``, a JSON object such as ``{"kafka_groups_conn_id":
"prod", "storage_path": "s3a://bucket/groups", "exclude": ["team-a.*"], "dry_run": false}``. Scheduled runs use them,
and the form shows them. An unknown name is an error of the DAG file, so that a misspelt ``exclude`` is noticed.

Airflow ignores a key of a run's configuration that is no parameter, and all of them where ``[core]
dag_run_conf_overrides_params`` is off: the run then uses defaults. Pass the check as ``pre_execute``, in
``default_args`` for all tasks of a DAG.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from airflow.sdk import Context, Param, conf
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import optional, read_mapping, read_place, read_text
from airflow_kafka_groups.hooks.floors import DEFAULT_CONNECTION, DEFAULTS, LIMITS
from airflow_kafka_groups.operators.support.dag_form import CLEANUP_FORM, SPARK_DEFAULTS, checked_defaults, schema_of
from airflow_kafka_groups.operators.support.spark_connection import read_spark_arguments
from airflow_kafka_groups.storage.paths import cluster_name_from
from airflow_kafka_groups.storage.url_secrets import has_secret

_SPARK_CONF = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
SCOPE = ("kafka_groups_conn_id", "cluster", "storage_path")
FLEET = tuple(name for name in CLEANUP_FORM if name not in SCOPE[:2])
"""The clean-up's form for many clusters: the policy file names them and their connections."""
_DEFAULT: WeakKeyDictionary[Param, Any] = WeakKeyDictionary()
"""The default of each parameter that was made here."""


def dag_params(*names: str) -> dict[str, Param]:
    """Return the form's parameters with these names; by default those of the clean-up.

    Raises ``ConfigurationError`` if ``KAFKA_GROUPS_DEFAULTS`` is not a JSON object of known names and valid values.
    """
    defaults = checked_defaults()
    connection = str(defaults.get("kafka_groups_conn_id", DEFAULT_CONNECTION))
    defaults = {"cluster": cluster_name_from(connection), **defaults}
    params = {}
    for name in names or CLEANUP_FORM:
        schema = schema_of(name)
        default = schema.pop("default")
        params[name] = Param(defaults.get(name, default), **schema)
        if name in defaults:
            _check_default(name, params[name])
        _DEFAULT[params[name]] = params[name].value
    return params


def dag_arguments(
    *names: str, own: Mapping[str, Param] | None = None, hours: float = 12, retries: int | None = 2
) -> dict[str, Any]:
    """Return the arguments of a ``DAG`` that the shipped ones share: its form, and what is the same for all its tasks.

    Tasks take connection, cluster and storage from the form, and refuse a run's configuration that is unknown.

    :param names: parameters, as of ``dag_params``.
    :param own: parameters that no other DAG has. Default: none.
    :param hours: the time limit of each task. Default 12.
    :param retries: how often a task is tried again, after a minute each; ``None`` for Airflow's default. Default 2.
    """
    params = {**dag_params(*names), **(own or {})}
    of_tasks = {name: template for name, template in scope_arguments().items() if name in params}
    again = {} if retries is None else {"retries": retries, "retry_delay": timedelta(minutes=1)}
    limit = {"pre_execute": refuse_unknown_conf, "execution_timeout": timedelta(hours=hours)}
    return {
        "params": params,
        "default_args": {**of_tasks, **again, **limit},
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["kafka", "consumer-groups"],
    }


def forget_run(of_dag: Mapping[str, Any], of_task: Mapping[str, Any], names: Iterable[str]) -> None:
    """Set parameters of ``dag_params`` back to their defaults, once a task has the values of its run.

    Airflow writes a run's configuration into the Params of the DAG and of its tasks, so a second run in the same
    process (``dag.test()`` twice) would have the first one's limits and patterns.
    """
    every = [dict(params.items()) for params in (of_dag, of_task)]
    for name in names:
        param = every[0].get(name)
        if not isinstance(param, Param) or param not in _DEFAULT:
            continue
        for params in every:
            if name in params and params[name].source != "task":  # a task's own has another default
                params[name].value = _DEFAULT[param]


def scope_arguments() -> dict[str, str]:
    """Return the arguments that all operators share, as templates of the parameters; pass them as ``default_args``."""
    return {name: f"{{{{ params.{name} }}}}" for name in SCOPE}


def dry_run_argument() -> str:
    """Return the template of ``DeleteGroupsOperator``'s ``dry_run``.

    Both the parameter, which may be that of a run before in the same process (see ``forget_run``), and the run's own
    configuration (or, if it has no value, the parsed default) must be false.
    """
    default = bool(dag_params("dry_run")["dry_run"].value)
    return f"{{{{ params.dry_run or (dag_run.conf or {{}}).get('dry_run', {default}) }}}}"


def approval_arguments() -> dict[str, str]:
    """Return the templates of ``dry_run``, ``approval_rule`` and ``approve_above``, for both approval and deletion.

    ``require_approval`` in a run's own configuration takes precedence where it differs from the parsed default, because
    somebody chose it for this run; where Airflow lets no run change parameters (``[core]
    dag_run_conf_overrides_params``), it can ask, but not waive. Otherwise the parsed default applies, and if that is
    false, more than ``approve_above`` groups still require approval: Airflow's form sends an untouched default, too.
    """
    asks = bool(dag_params("require_approval")["require_approval"].value)
    default = "always" if asks else "above_cap"
    own = "(dag_run.conf or {}).get('require_approval')"
    may_waive = asks and conf.getboolean("core", "dag_run_conf_overrides_params")
    waived = f"{own} is sameas false" if may_waive else "false"
    return {
        "dry_run": dry_run_argument(),
        "approval_rule": f"{{{{ 'never' if {waived} else 'always' if {own} else '{default}' }}}}",
        "approve_above": "{{ params.approve_above }}",
    }


def policy_arguments() -> dict[str, str]:
    """Return the templates of ``policy_file``, which is empty where the run has none, and of what it replaces."""
    return {"policy_file": "{{ params.policy_file or '' }}", **{name: f"{{{{ params.{name} }}}}" for name in LIMITS}}


def plan_arguments() -> dict[str, str]:
    """Return the templates of all limits of ``PlanCleanupOperator``, the policy's among them."""
    return {
        **policy_arguments(),
        "include": "{{ params.include | tojson }}",
        "exclude": "{{ (params.exclude or []) | tojson }}",
        **{name: f"{{{{ params.{name} }}}}" for name in ("max_groups", "max_share", "offsets_retention_minutes")},
        "require_commit_log": "{{ params.commit_log == 'required' }}",
    }


def result_of(task_id: str, name: str) -> str:
    """Return the template of what another task of the same mapped group returned under a name.

    :param task_id: the task, with its group. Empty where it returned nothing.
    :param name: the name in its result.
    """
    return f"{{{{ (ti.xcom_pull('{task_id}', map_indexes=ti.map_index) or {{}}).get('{name}', '') }}}}"


def spark_arguments(snapshot_id: str, policy_task_id: str | None = None, cluster: Any = None) -> dict[str, Any]:
    """Return the ``KafkaSparkSubmitOperator`` arguments of the job that judges staleness, as templates.

    :param snapshot_id: the snapshot to judge.
    :param policy_task_id: the ``CheckPolicyOperator`` task whose result has the least idle time, number of snapshots
        and gap of a policy file. Default: none, so that the parameters count.
    :param cluster: the cluster's folder, also as another task's output. Default: the parameter.
    """
    found = dict.fromkeys(LIMITS, f"ti.xcom_pull({policy_task_id!r})") if policy_task_id else {}
    values: dict[str, Any] = {
        name: f"{{{{ {found.get(name, 'params')}.{name} }}}}"
        for name in ("storage_path", "cluster", *LIMITS, "offsets_retention_minutes", "commit_log")
    }
    if cluster is not None:
        values["cluster"] = cluster
    values = {"base": values.pop("storage_path"), **values}
    arguments = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value)]
    return {
        "application": "judge_staleness",
        "application_args": [*arguments, "--snapshot-id", snapshot_id],
        "kafka": "{{ params.commit_log }}",
        "spark": spark_settings(),
    }


def spark_settings() -> dict[str, Any]:
    """Return the arguments that all Spark jobs share: connection, binary, properties.

    Uses the ``spark-submit`` of this Python's pyspark if installed, unless ``KAFKA_GROUPS_DEFAULTS`` has a
    ``spark_binary``; the connection is its ``spark_conn_id``, default ``spark_default``, and null for jobs
    that need no Spark to run without; its ``spark_conf`` adds properties.
    """
    settings = SPARK_DEFAULTS | checked_defaults()
    own = Path(sys.executable).with_name("spark-submit")
    binary = optional(read_text)(f"{DEFAULTS}.spark_binary", settings["spark_binary"] or None)
    arguments: dict[str, Any] = {
        "conn_id": optional(read_text)(f"{DEFAULTS}.spark_conn_id", settings["spark_conn_id"]),
        "conf": {**_SPARK_CONF, **read_mapping(f"{DEFAULTS}.spark_conf", settings["spark_conf"])},
    }
    # Masked here, too: a copied DAG may pass them to Spark's own operator, whose error shows them.
    read_spark_arguments(f"{DEFAULTS}.spark_conf", arguments)
    if binary is not None:
        arguments["spark_binary"] = binary
    elif own.exists():
        arguments |= {"spark_binary": str(own), "env_vars": {"PYSPARK_PYTHON": sys.executable}}
    return arguments


def _check_default(name: str, param: Param) -> None:
    if name in ("storage_path", "policy_file") and has_secret(str(param.value)):  # Airflow shows a form to everybody
        read_place(f"{DEFAULTS}.{name}", param.value)
    try:
        param.resolve()
    except ParamValidationError as exc:
        why = str(exc).removeprefix("Invalid input for param ").partition("\n")[0]
        raise ConfigurationError(f"{DEFAULTS}.{name}", None, f"is not a value of the form: {why}") from None


_SHOWN = 60
_AIRFLOWS_OWN = frozenset({"openlineage"})
"""Keys that Airflow's ``TriggerDagRunOperator`` adds."""


class UnknownConfError(ConfigurationError, AirflowFailException):
    """A run's configuration has a key that is no parameter of the DAG; the task is not retried."""


def refuse_unknown_conf(context: Context) -> None:
    """Raise ``UnknownConfError`` if the run's configuration has a key that is no parameter of the DAG, or no effect."""
    known = sorted(context["dag"].params)
    conf: Mapping[str, Any] = context["dag_run"].conf or {}
    params = context.get("params", conf)
    forget_run(context["dag"].params, getattr(context.get("task"), "params", {}), conf)
    for name, value in conf.items():
        if name in _AIRFLOWS_OWN:
            continue
        if name not in known:
            near = get_close_matches(name[:_SHOWN], known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known parameters: {', '.join(known)}."
            why = f"is not a parameter of the DAG; {remedy}"
        elif params.get(name) != value:
            why = "is ignored by this Airflow ([core] dag_run_conf_overrides_params is off): leave it out."
        else:
            continue
        raise UnknownConfError(f"run configuration, key {name[:_SHOWN]!r}", None, f"{why} This task did nothing")
