"""The parameters of the shipped DAGs' forms: defaults, titles, descriptions and JSON schemas."""

from __future__ import annotations

import os
from typing import Any

from airflow_kafka_groups.durations import PATTERN_OR_NUMBER
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.floors import DEFAULT_CONNECTION, DEFAULTS, site_defaults

_PATTERNS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_DURATION = {"type": ["string", "number"], "pattern": PATTERN_OR_NUMBER}
"""A string in the form: its examples, which Airflow suggests, make it one."""
CLEANUP_FORM: dict[str, dict[str, Any]] = {
    "kafka_groups_conn_id": {
        "default": DEFAULT_CONNECTION,
        "title": "Connection",
        "description": "Id of a connection of type kafka_groups or kafka.",
        "type": "string",
        "minLength": 1,
    },
    "dry_run": {
        "default": True,
        "title": "Dry run",
        "description": "Only show what would be changed or deleted.",
        "type": "boolean",
    },
    "require_approval": {
        "default": True,
        "title": "Ask before deleting",
        "description": "A person must approve the plan before it is applied. A dry run needs no approval.",
        "type": "boolean",
    },
    "cluster": {
        "default": DEFAULT_CONNECTION,  # where no other connection is the default
        "title": "Cluster",
        "description": "Name of the cluster's folder in the storage. Use one folder per cluster. Default: the default "
        "connection's id.",
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
    "policy_file": {
        "default": None,
        "title": "Policy file",
        "description": "A YAML file with rules: an absolute path, or a URL that workers can read. Its rules replace "
        "the idle time and observations below; the other limits still apply. Empty: no file.",
        "type": ["null", "string"],
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
        "description": "Patterns, one per line. Platform groups (connect-*, __* …) are kept, too.",
        **_PATTERNS,
        "type": ["array", "null"],  # otherwise Airflow's form requires a value
    },
    "min_idle_seconds": {
        "default": "7d",
        "title": "Idle for",
        "description": "A group is stale after this time without a member and without a commit: 7d, 36h, 30 min. A "
        "number is in seconds.",
        **_DURATION,
        "minimum": 1,
        "examples": ["7d", "14d", "30d", "36h"],
    },
    "min_observations": {
        "default": 2,
        "title": "Observations",
        "description": "A group is stale only if at least this many snapshots show it idle.",
        "type": "integer",
        "minimum": 2,
    },
    "max_gap_seconds": {
        "default": "2d",
        "title": "Longest gap",
        "description": "A longer gap between snapshots resets the idle time: 2d, 6h, or seconds. 0: no limit.",
        **_DURATION,
        "minimum": 0,
        "examples": ["2d", "12h", "0"],
    },
    "commit_log": {
        "default": "auto",
        "title": "Log of commits",
        "description": "Read __consumer_offsets too, which shows consumers that commit the same offset repeatedly. "
        "auto: if Spark and the connection can; required: fail if not.",
        "type": "string",
        "enum": ["auto", "off", "required"],
    },
    "offsets_retention_minutes": {
        "default": 0,
        "title": "Offsets retention (min)",
        "description": "The brokers' offsets.retention.minutes, to show when offsets expire, and idle times that "
        "do not fit. 0: as the brokers say, if they do.",
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
        "maximum": 1_000_000,
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
        "description": "If approval is off by default, still ask when the plan has more groups or topics than this.",
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
        "title": "One clean-up at a time",
        "description": "Delete only while this run holds the cluster's lease. Requires READ on the group "
        "airflow-kafka-groups-lease, with the connection's prefix.",
        "type": "boolean",
    },
}
"""Parameters of the clean-up, in the order of its form."""

OTHER_FORMS: dict[str, dict[str, Any]] = {
    "topic_idle_seconds": {
        "default": "7d",
        "title": "Idle for",
        "description": "A topic of a live group is abandoned after this time without a subscription and without a "
        "commit: 7d, 36h, 30 min. A number is in seconds.",
        **_DURATION,
        "minimum": 1,
        "examples": ["7d", "14d", "3d", "36h"],
    },
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
        "default": "60d",
        "title": "Keep snapshots",
        "description": "Must exceed the idle time of stale groups, because staleness is judged by the snapshots. A "
        "number is in days.",
        **_DURATION,
        "minimum": 1,
        "examples": ["60d", "26w"],
    },
    "cleanup_days": {
        "default": "730d",
        "title": "Keep clean-ups",
        "description": "Plans, backups, records and reports. A backup is the only copy of what was deleted. A number "
        "is in days.",
        **_DURATION,
        "minimum": 1,
        "examples": ["730d", "3650d"],
    },
    "change_days": {
        "default": "365d",
        "title": "Keep changes",
        "description": "Records of offsets that were reset, altered, restored or deleted, long listings, and backlogs "
        "for Spark. A number is in days.",
        **_DURATION,
        "minimum": 1,
        "examples": ["365d", "730d"],
    },
    "keep_newest": {
        "default": 10,
        "title": "Keep the newest",
        "description": "Number of files of each kind that are kept regardless of age.",
        "type": "integer",
        "minimum": 1,
    },
}
"""Parameters of the other DAGs."""

SPARK_DEFAULTS: dict[str, Any] = {"spark_conn_id": "spark_default", "spark_binary": None, "spark_conf": {}}
"""Settings of the Spark jobs: they are no parameters."""


def checked_defaults() -> dict[str, Any]:
    """Return what ``KAFKA_GROUPS_DEFAULTS`` has.

    Raises ``ConfigurationError`` unless it is a JSON object, and for a name that is no parameter and no setting.
    """
    known = {*CLEANUP_FORM, *OTHER_FORMS, *SPARK_DEFAULTS, "notify"}
    defaults = site_defaults()
    for name in defaults:
        if name not in known:
            remedy = f"is unknown. Known names: {', '.join(sorted(known))}"
            raise ConfigurationError(f"{DEFAULTS}, name {name!r}", None, remedy)
    return defaults
