"""The parameter form of the shipped DAGs, and their settings; also usable in your own DAGs.

Defaults come from the environment variable ``KAFKA_GROUPS_DEFAULTS``, a JSON object such as ``{"kafka_groups_conn_id":
"prod", "storage_path": "s3a://bucket/groups", "exclude": ["team-a.*"], "dry_run": false}``. Scheduled runs use them,
and the form shows them. An unknown name is an error of the DAG file, so that a misspelt ``exclude`` is noticed.
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
        "description": "Id of a connection of type kafka_groups or kafka.",
        "type": "string",
        "minLength": 1,
    },
    "dry_run": {
        "default": True,
        "title": "Dry run",
        "description": "Do everything except the deletion.",
        "type": "boolean",
    },
    "require_approval": {
        "default": True,
        "title": "Ask before deleting",
        "description": "A person must approve the plan before it is applied. A dry run needs no approval.",
        "type": "boolean",
    },
    "cluster": {
        "default": "default",
        "title": "Cluster",
        "description": "Name of the cluster's folder in the storage. Use one folder per cluster.",
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    },
    "storage_path": {
        "default": os.path.join(os.environ.get("AIRFLOW_HOME", os.path.expanduser("~/airflow")), "kafka-groups"),
        "title": "Storage",
        "description": "Folder for snapshots, plans, backups and reports: an absolute path, or a URL that Airflow's "
        "workers and Spark can both access (s3a://bucket/folder).",
        "type": "string",
        "minLength": 1,
    },
    "include": {
        "default": ["*"],
        "title": "Groups to consider",
        "description": "Patterns such as orders-*, or re: followed by a regular expression; one per line.",
        **_PATTERNS,
    },
    "exclude": {
        "default": [],
        "title": "Groups to keep",
        "description": "Patterns, one per line. Platform groups (connect-*, __* …) are always kept.",
        **_PATTERNS,
        "type": ["array", "null"],  # otherwise Airflow's form requires a value
    },
    "min_idle_seconds": {
        "default": 604_800,
        "title": "Idle for (s)",
        "description": "A group is stale after this time without a member and without a commit. Default: 7 days.",
        "type": "integer",
        "minimum": 1,
    },
    "min_observations": {
        "default": 2,
        "title": "Observations",
        "description": "A group is stale only if at least this many snapshots show it idle.",
        "type": "integer",
        "minimum": 2,
    },
    "max_gap_seconds": {
        "default": 172_800,
        "title": "Longest gap (s)",
        "description": "A longer gap between snapshots resets the idle time. Default: 2 days. 0: no limit.",
        "type": "integer",
        "minimum": 0,
    },
    "mode": {
        "default": "full",
        "title": "History",
        "description": "full reads all snapshots each time; incremental keeps a state and reads only new snapshots "
        "(the same verdicts); check runs both and fails if they differ.",
        "type": "string",
        "enum": ["full", "incremental", "check"],
    },
    "offsets_retention_minutes": {
        "default": 0,
        "title": "Offsets retention (min)",
        "description": "The brokers' offsets.retention.minutes, to show when offsets expire. 0: unknown.",
        "type": "integer",
        "minimum": 0,
        "maximum": 52_704_000,
    },
    "max_groups": {
        "default": 500,
        "title": "Maximum groups",
        "description": "Maximum number of groups that one run deletes, the longest idle first.",
        "type": "integer",
        "minimum": 1,
        "maximum": 100_000,
    },
    "max_share": {
        "default": 0.5,
        "title": "Maximum share",
        "description": "Maximum share of all groups that one run deletes, e.g. 0.5.",
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
    },
    "approve_above": {
        "default": 100,
        "title": "Always ask above",
        "description": "If approval is off by default, still ask when the plan has more groups than this.",
        "type": "integer",
        "minimum": 0,
    },
    "groups_per_second": {
        "default": 0,
        "title": "Groups a second",
        "description": "Delete at most this many groups a second, to spare busy brokers. 0: no limit.",
        "type": "number",
        "minimum": 0,
    },
    "lease": {
        "default": True,
        "title": "One cleanup at a time",
        "description": "Delete only while this run holds the cluster's lease. Requires READ on the lease's group.",
        "type": "boolean",
    },
}
# Parameters of the other DAGs
_MORE: dict[str, dict[str, Any]] = {
    "plan_id": {
        "default": None,
        "title": "Plan",
        "description": "Id of the plan whose backup is restored (20261122T081500Z-1a2b3c4d). The report has it.",
        "type": ["null", "string"],  # a run without it fails with a message that says what is missing
        "minLength": 1,
    },
    "group_ids": {
        "default": None,
        "title": "Groups to restore",
        "description": "Group ids, one per line. Empty: all groups in the backup.",
        **_PATTERNS,
        "type": ["null", "array"],
    },
    "overwrite": {
        "default": False,
        "title": "Overwrite newer offsets",
        "description": "Also set groups back that have committed other offsets since the backup: their consumers read "
        "records again, or skip some.",
        "type": "boolean",
    },
    "max_lag": {
        "default": 10_000,
        "title": "Maximum lag",
        "description": "Report groups whose total lag exceeds this many messages.",
        "type": "integer",
        "minimum": 0,
    },
    "drill_groups": {
        "default": 20,
        "title": "Groups to restore",
        "description": "Maximum number of groups of the backup that are restored into scratch groups.",
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000,
    },
    "snapshot_days": {
        "default": 60,
        "title": "Keep snapshots (days)",
        "description": "Must exceed the idle time of stale groups, because staleness is judged by the snapshots.",
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
        "description": "Number of files of each kind that are kept regardless of age.",
        "type": "integer",
        "minimum": 1,
    },
}
_KNOWN = {**_FORM, **_MORE}
SCOPE = ("kafka_groups_conn_id", "cluster", "storage_path")


def dag_params(*names: str) -> dict[str, Param]:
    """Return the form's parameters with these names; by default those of the clean-up.

    Raises ``ConfigurationError`` if ``KAFKA_GROUPS_DEFAULTS`` is not a JSON object of known names.
    """
    defaults = _defaults()
    params = {}
    for name in names or _FORM:
        schema = dict(_KNOWN[name])
        default = schema.pop("default")
        params[name] = Param(defaults.get(name, default), **schema)
    return params


def scope_arguments() -> dict[str, str]:
    """Return the arguments that all operators share, as templates of the parameters; pass them as ``default_args``."""
    return {name: f"{{{{ params.{name} }}}}" for name in SCOPE}


def dry_run_argument() -> str:
    """Return the template of ``DeleteGroupsOperator``'s ``dry_run``.

    Airflow writes a run's configuration into the DAG object's own Params, so a second run in the same process
    (``dag.test()`` twice) would use the first run's ``dry_run: false`` as default. Therefore both the parameter and the
    run's own configuration (or, if it has no value, the parsed default) must be false.
    """
    default = bool(dag_params("dry_run")["dry_run"].value)
    return f"{{{{ params.dry_run or (dag_run.conf or {{}}).get('dry_run', {default}) }}}}"


def approval_arguments() -> dict[str, str]:
    """Return the templates of ``dry_run``, ``approval_rule`` and ``approve_above``, for both approval and deletion.

    ``require_approval`` in a run's own configuration takes precedence, because somebody chose it for this run.
    Otherwise the parsed default applies, and if that is false, more than ``approve_above`` groups still require
    approval.
    """
    default = "always" if dag_params("require_approval")["require_approval"].value else "above_cap"
    own = "(dag_run.conf or {}).get('require_approval')"
    return {
        "dry_run": dry_run_argument(),
        "approval_rule": f"{{{{ 'never' if {own} is sameas false else 'always' if {own} else '{default}' }}}}",
        "approve_above": "{{ params.approve_above }}",
    }


def spark_arguments(snapshot_id: str) -> dict[str, Any]:
    """Return the ``SparkSubmitOperator`` arguments of the job that judges staleness.

    :param snapshot_id: the snapshot to judge (a template). The other arguments are templates of the parameters.
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
    """Return the arguments that all Spark jobs share: connection, binary, properties.

    Uses the ``spark-submit`` of this Python's pyspark if installed, unless ``KAFKA_GROUPS_DEFAULTS`` has a
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
        # Do not show the value: it may contain secret Spark properties, and all users see import errors of DAG files.
        raise ConfigurationError(ENVIRONMENT, None, 'must be a JSON object such as {"dry_run": true}')
    for name in defaults:
        if name not in _KNOWN and name not in _SPARK:
            known = ", ".join(sorted({*_KNOWN, *_SPARK}))
            raise ConfigurationError(f"{ENVIRONMENT}, name {name!r}", None, f"is unknown. Known names: {known}")
    return defaults
