"""The parameter form of the shipped DAGs, and their settings; of use in your own DAGs too.

Defaults come from one place: the environment variable ``KAFKA_GROUPS_DEFAULTS``, a JSON object such as
``{"kafka_groups_conn_id": "prod", "storage_path": "s3a://bucket/groups", "exclude": ["team-a.*"], "dry_run": false}``.
A scheduled run uses them; a run by hand shows them in the form. A name that is not known is an error of the DAG file,
so that a misspelt ``exclude`` cannot pass for none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from airflow.sdk import Param

from airflow_kafka_groups.exceptions import ConfigurationError

ENVIRONMENT = "KAFKA_GROUPS_DEFAULTS"
_SPARK: dict[str, Any] = {"spark_conn_id": "spark_default", "spark_binary": None, "spark_conf": {}}
_SPARK_CONF = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
_PATTERNS = {"type": "array", "items": {"type": "string"}}
_FORM: dict[str, dict[str, Any]] = {
    "kafka_groups_conn_id": {
        "default": "kafka_groups_default",
        "title": "Connection",
        "description": "Id of a connection of the type kafka_groups (or kafka).",
        "type": "string",
        "minLength": 1,
    },
    "dry_run": {
        "default": True,
        "title": "Dry run",
        "description": "Do everything except for deleting.",
        "type": "boolean",
    },
    "require_approval": {
        "default": True,
        "title": "Ask before deleting",
        "description": "A human has to approve the plan before it is carried out. A dry run needs no approval.",
        "type": "boolean",
    },
    "cluster": {
        "default": "default",
        "title": "Cluster",
        "description": "Name of the cluster's folder in the storage. One folder, one cluster.",
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    },
    "storage_path": {
        "default": os.path.join(os.environ.get("AIRFLOW_HOME", os.path.expanduser("~/airflow")), "kafka-groups"),
        "title": "Storage",
        "description": "Folder of snapshots, plans, backups and reports: an absolute path or a URL that Airflow's "
        "workers and Spark both reach (s3a://bucket/folder).",
        "type": "string",
        "minLength": 1,
    },
    "include": {
        "default": ["*"],
        "title": "Groups to look at",
        "description": "Patterns such as orders-*, or re: and a regular expression; one a line.",
        **_PATTERNS,
    },
    "exclude": {
        "default": [],
        "title": "Groups to keep",
        "description": "Patterns, one a line. The platform's own groups (connect-*, __* …) are kept anyway.",
        **_PATTERNS,
        "type": ["array", "null"],  # or Airflow's form demands one, and cannot be sent without
    },
    "min_idle_seconds": {
        "default": 604_800,
        "title": "Idle for (s)",
        "description": "A stale group has had no member and no commit for this long. Default: 7 days.",
        "type": "integer",
        "minimum": 1,
    },
    "min_observations": {
        "default": 2,
        "title": "Observations",
        "description": "A stale group was seen idle in at least this many snapshots.",
        "type": "integer",
        "minimum": 2,
    },
    "max_gap_seconds": {
        "default": 172_800,
        "title": "Longest gap (s)",
        "description": "A longer time without a snapshot begins the idle time anew: nobody saw what happened in it. "
        "Default: 2 days. 0: no limit.",
        "type": "integer",
        "minimum": 0,
    },
    "mode": {
        "default": "full",
        "title": "History",
        "description": "full reads all snapshots each time; incremental carries a state on and reads the new ones only "
        "(the same verdicts); check does both and fails if they differ.",
        "type": "string",
        "enum": ["full", "incremental", "check"],
    },
    "offsets_retention_minutes": {
        "default": 0,
        "title": "Offsets retention (min)",
        "description": "The brokers' offsets.retention.minutes, to show when offsets expire. 0: not known.",
        "type": "integer",
        "minimum": 0,
        "maximum": 52_704_000,
    },
    "max_groups": {
        "default": 500,
        "title": "At most groups",
        "description": "The most groups one run deletes; the longest idle come first.",
        "type": "integer",
        "minimum": 1,
        "maximum": 100_000,
    },
    "max_share": {
        "default": 0.5,
        "title": "At most share",
        "description": "The largest share of all groups one run deletes, e.g. 0.5.",
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
    },
    "approve_above": {
        "default": 100,
        "title": "Always ask above",
        "description": "Where the defaults do not ask, still ask when more groups than this are planned.",
        "type": "integer",
        "minimum": 0,
    },
    "lease": {
        "default": True,
        "title": "One cleanup at a time",
        "description": "Delete only while this run holds the cluster's lease; needs READ on its group.",
        "type": "boolean",
    },
}
# Of other DAGs than the clean-up.
_MORE: dict[str, dict[str, Any]] = {
    "max_lag": {
        "default": 10_000,
        "title": "Lag that is fine",
        "description": "A group that is more messages behind than this, over all its partitions, is told of.",
        "type": "integer",
        "minimum": 0,
    },
    "drill_groups": {
        "default": 20,
        "title": "Groups to rehearse with",
        "description": "At most so many groups of the backup are restored into scratch groups.",
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000,
    },
    "snapshot_days": {
        "default": 60,
        "title": "Keep snapshots (days)",
        "description": "Longer than groups have to be idle to be stale: the history is what they are judged by.",
        "type": "integer",
        "minimum": 1,
    },
    "cleanup_days": {
        "default": 730,
        "title": "Keep clean-ups (days)",
        "description": "Plans, backups, records and reports. A backup is the only copy of what was deleted.",
        "type": "integer",
        "minimum": 1,
    },
    "change_days": {
        "default": 365,
        "title": "Keep changes (days)",
        "description": "Records of offsets that were reset, altered, restored or deleted, and long listings.",
        "type": "integer",
        "minimum": 1,
    },
    "keep_newest": {
        "default": 10,
        "title": "Keep the newest",
        "description": "So many of each kind are kept whatever their age.",
        "type": "integer",
        "minimum": 1,
    },
}
_KNOWN = {**_FORM, **_MORE}
SCOPE = ("kafka_groups_conn_id", "cluster", "storage_path")


def dag_params(*names: str) -> dict[str, Param]:
    """Give the form's parameters of these names; those of the clean-up when none is given.

    Raises ``ConfigurationError`` when ``KAFKA_GROUPS_DEFAULTS`` is not a JSON object of known names.
    """
    defaults = _defaults()
    params = {}
    for name in names or _FORM:
        schema = dict(_KNOWN[name])
        default = schema.pop("default")
        params[name] = Param(defaults.get(name, default), **schema)
    return params


def scope_arguments() -> dict[str, str]:
    """Give what all operators share, as templates of the parameters: use it as ``default_args``."""
    return {name: f"{{{{ params.{name} }}}}" for name in SCOPE}


def dry_run_argument() -> str:
    """Give the template of ``DeleteGroupsOperator``'s ``dry_run``: a deletion needs two keys.

    Airflow writes a run's configuration into the DAG object's own Params, so that a second run in the same process
    (``dag.test()`` twice) would take the first one's ``dry_run: false`` for the default. So both the parameter and the
    run's own configuration (or, where it says nothing, the default that was parsed) have to say false.
    """
    default = bool(dag_params("dry_run")["dry_run"].value)
    return f"{{{{ params.dry_run or (dag_run.conf or {{}}).get('dry_run', {default}) }}}}"


def approval_arguments() -> dict[str, str]:
    """Give ``dry_run``, ``approval_rule`` and ``approve_above``, the same for approval and deletion, as templates.

    What a run's own configuration says about ``require_approval`` holds: somebody said it for this very run. Where it
    says nothing the default that was parsed holds, and if that is false, more than ``approve_above`` groups are still
    asked about.
    """
    default = "always" if dag_params("require_approval")["require_approval"].value else "above_cap"
    own = "(dag_run.conf or {}).get('require_approval')"
    return {
        "dry_run": dry_run_argument(),
        "approval_rule": f"{{{{ 'never' if {own} is sameas false else 'always' if {own} else '{default}' }}}}",
        "approve_above": "{{ params.approve_above }}",
    }


def spark_arguments(snapshot_id: str) -> dict[str, Any]:
    """Give the ``SparkSubmitOperator`` arguments of the job that judges staleness: ``spark_settings``, path, arguments.

    :param snapshot_id: the snapshot to judge (a template). The rest is what the parameters say, as templates too.
    """
    job = Path(__file__).parents[1] / "spark" / "jobs" / "judge_staleness.py"
    asked = {
        "base": "storage_path",
        "cluster": "cluster",
        "min-idle-seconds": "min_idle_seconds",
        "min-observations": "min_observations",
        "max-gap-seconds": "max_gap_seconds",
        "mode": "mode",
        "offsets-retention-minutes": "offsets_retention_minutes",
    }
    arguments = [word for option, name in asked.items() for word in (f"--{option}", f"{{{{ params.{name} }}}}")]
    return {
        **spark_settings(),
        "application": str(job),
        "application_args": [*arguments, "--snapshot-id", snapshot_id],
    }


def spark_settings() -> dict[str, Any]:
    """Give what every Spark job is submitted with: connection, binary, properties.

    Uses the ``spark-submit`` of this Python's own pyspark if there is one, unless ``KAFKA_GROUPS_DEFAULTS`` has a
    ``spark_binary``; the connection is its ``spark_conn_id``, default ``spark_default``; its ``spark_conf`` adds
    properties.
    """
    settings = {**_SPARK, **{name: value for name, value in _defaults().items() if name in _SPARK}}
    own = Path(sys.executable).with_name("spark-submit")
    arguments: dict[str, Any] = {
        "conn_id": settings["spark_conn_id"],
        "conf": {**_SPARK_CONF, **settings["spark_conf"]},
    }
    if settings["spark_binary"]:
        arguments["spark_binary"] = settings["spark_binary"]
    elif own.exists():
        arguments |= {"spark_binary": str(own), "env_vars": {"PYSPARK_PYTHON": sys.executable}}
    return arguments


def _defaults() -> dict[str, Any]:
    text = os.environ.get(ENVIRONMENT) or "{}"
    try:
        defaults = json.loads(text)
    except ValueError:
        defaults = None
    if not isinstance(defaults, dict):
        # Not the text: Spark properties in it may be secrets, and every user sees why a DAG file fails.
        raise ConfigurationError(ENVIRONMENT, None, 'must be a JSON object such as {"dry_run": true}')
    for name in defaults:
        if name not in _KNOWN and name not in _SPARK:
            known = ", ".join(sorted({*_KNOWN, *_SPARK}))
            raise ConfigurationError(f"{ENVIRONMENT}, name {name!r}", None, f"is not known. Known are {known}")
    return defaults
