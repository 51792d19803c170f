"""A check of a run's configuration for keys that are no parameter of its DAG, such as a misspelt ``exclude``.

Airflow ignores such a key, and the run then uses the parameter's default. It ignores all of them where ``[core]
dag_run_conf_overrides_params`` is off. Pass the check as ``pre_execute``, in ``default_args`` for all tasks of a DAG.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.operators.dag_params import forget_run

if TYPE_CHECKING:
    from airflow.sdk import Context

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
            why = (
                "is ignored by this Airflow ([core] dag_run_conf_overrides_params is off): leave it out, or change the "
                "DAG's default."
            )
        else:
            continue
        raise UnknownConfError(f"run configuration, key {name[:_SHOWN]!r}", None, f"{why} This task did nothing")
