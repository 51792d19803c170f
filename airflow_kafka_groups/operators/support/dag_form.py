"""The parameters of the shipped DAGs' forms: defaults, titles, descriptions and JSON schemas."""

from __future__ import annotations

import os
from typing import Any

from airflow_kafka_groups.durations import PATTERN_OR_NUMBER
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.floors import DEFAULT_CONNECTION, DEFAULTS, site_defaults
from airflow_kafka_groups.operators.support.described import described, without_default

_Field = dict[str, Any]


def _field(default: Any, title: str, described_by: str, more: str = "", **schema: Any) -> _Field:
    """Return a parameter's default and its JSON schema.

    :param described_by: the argument of an operator whose words are its description; or "", for none.
    :param more: what the form says behind that.
    """
    return {"default": default, "title": title, "described_by": described_by, "description": more, **schema}


def _flag(default: bool, title: str, described_by: str, more: str = "") -> _Field:
    return _field(default, title, described_by, more, type="boolean")


def _number(
    default: float, title: str, described_by: str, more: str = "", type: str = "integer", **bounds: float
) -> _Field:
    return _field(default, title, described_by, more, type=type, **bounds)


def _duration(default: str, title: str, described_by: str, *examples: str, minimum: int = 1) -> _Field:
    """Return a duration, a string in the form: its examples, which Airflow suggests, make it one."""
    schema: _Field = {"type": ["string", "number"], "pattern": PATTERN_OR_NUMBER, "minimum": minimum}
    return _field(default, title, described_by, **schema, examples=[default, *examples])


def _patterns(default: Any, title: str, described_by: str, more: str, type: Any) -> _Field:
    return _field(default, title, described_by, more, items={"type": "string", "minLength": 1}, type=type)


def _choice(default: str, title: str, argument: str, *choices: str) -> _Field:
    described_by = f"MigrateGroupOffsetsOperator.{argument}"
    return _field(default, title, described_by, type="string", enum=list(choices))


CLEANUP_FORM: dict[str, _Field] = {
    "kafka_groups_conn_id": _field(
        DEFAULT_CONNECTION, "Connection", "KafkaGroupsOperator.kafka_groups_conn_id", type="string", minLength=1
    ),
    "dry_run": _flag(True, "Dry run", "DryRunOperator.dry_run"),
    "require_approval": _flag(
        True,
        "Ask before deleting",
        "",
        "A person must approve the plan before it is applied. A dry run needs no approval.",
    ),
    "cluster": _field(  # where no other connection is the default
        DEFAULT_CONNECTION,
        "Cluster",
        "StoredOperator.cluster",
        "Default: the default connection's id.",
        type="string",
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    ),
    "storage_path": _field(
        os.path.join(os.environ.get("AIRFLOW_HOME", os.path.expanduser("~/airflow")), "kafka-groups"),
        "Storage",
        "StoredOperator.storage_path",
        type="string",
        minLength=1,
    ),
    "policy_file": _field(
        None, "Policy file", "PlanCleanupOperator.policy_file", "Empty: no file.", type=["null", "string"]
    ),
    "include": _patterns(["*"], "Groups to consider", "PlanningOperator.include", "One per line.", "array"),
    "exclude": _patterns(  # otherwise Airflow's form requires a value
        [], "Groups to keep", "PlanningOperator.exclude", "One per line.", ["array", "null"]
    ),
    "min_idle_seconds": _duration("7d", "Idle for", "PlanCleanupOperator.min_idle_seconds", "14d", "30d", "36h"),
    "min_observations": _number(2, "Observations", "PlanCleanupOperator.min_observations", minimum=2),
    "max_gap_seconds": _duration("2d", "Longest gap", "PlanCleanupOperator.max_gap_seconds", "12h", "0", minimum=0),
    "commit_log": _field(
        "auto",
        "Log of commits",
        "",
        "Read __consumer_offsets too, which shows consumers that commit the same offset repeatedly. auto: if Spark and "
        "the connection can; required: fail if not.",
        type="string",
        enum=["auto", "off", "required"],
    ),
    "offsets_retention_minutes": _number(
        0, "Offsets retention (min)", "PlanCleanupOperator.offsets_retention_minutes", minimum=0, maximum=52_704_000
    ),
    "max_groups": _number(500, "Maximum groups", "PlanningOperator.max_groups", minimum=1, maximum=1_000_000),
    "max_share": _number(
        0.5, "Maximum share", "PlanningOperator.max_share", type="number", exclusiveMinimum=0, maximum=1
    ),
    "approve_above": _number(
        100,
        "Always ask above",
        "",
        "If approval is off by default, still ask when the plan has more groups or topics than this.",
        minimum=0,
    ),
    "groups_per_second": _number(
        0, "Groups a second", "DeleteGroupsOperator.groups_per_second", type="number", minimum=0
    ),
    "lease": _flag(True, "One clean-up at a time", "DeletingOperator.lease"),
}
"""Parameters of the clean-up, in the order of its form."""

OTHER_FORMS: dict[str, _Field] = {
    "topic_idle_seconds": _duration("7d", "Idle for", "PlanTopicPruningOperator.min_idle_seconds", "14d", "3d", "36h"),
    "plan_id": _field(  # a run without it fails with a message that says what is missing
        None, "Plan", "RestoreGroupOffsetsOperator.plan_id", type=["null", "string"], minLength=1
    ),
    "group_ids": _patterns(
        None,
        "Groups",
        "RestoreGroupOffsetsOperator.group_ids",
        "One per line. Empty: all groups in the backup, or of the source.",
        ["null", "array"],
    ),
    "plan_digest": _field(
        None, "Digest of the plan", "MigrateGroupOffsetsOperator.plan_digest", type=["null", "string"]
    ),
    "groups": _field(None, "Groups to copy", "CopyGroupOffsetsOperator.groups", type=["null", "object"]),
    "source_conn_id": _field(None, "Source", "MigrateGroupOffsetsOperator.source_conn_id", type=["null", "string"]),
    "method": _choice("payload", "Method", "method", "header", "offset-syncs", "checkpoints", "payload", "timestamp"),
    "position": _choice("at-or-before", "Position", "position", "at-or-before", "exact", "at-or-after"),
    "existing": _choice("keep", "Existing offsets", "existing", "keep", "replace", "lower"),
    "topic_pattern": _field(
        "{topic}", "Names of mirrors", "MigrateGroupOffsetsOperator.topic_pattern", type="string", minLength=1
    ),
    "mirror_topic": _field(
        None, "MirrorMaker 2's topic", "MigrateGroupOffsetsOperator.mirror_topic", type=["null", "string"]
    ),
    "overwrite": _flag(False, "Overwrite newer offsets", "RestoreGroupOffsetsOperator.overwrite"),
    "asleep": _patterns(
        [], "Groups to keep alive", "KeepOffsetsAliveOperator.include", "One per line.", ["array", "null"]
    ),
    "allow_membership": _flag(False, "Join and leave", "KeepOffsetsAliveOperator.allow_membership"),
    "max_lag": _number(10_000, "Maximum lag", "ListGroupLagOperator.max_lag", minimum=0),
    "drill_groups": _number(20, "Groups to restore", "RestoreDrillOperator.max_groups", minimum=1, maximum=1_000),
    "snapshot_days": _duration("60d", "Keep snapshots", "PruneFilesOperator.snapshot_days", "26w"),
    "cleanup_days": _duration("730d", "Keep clean-ups", "PruneFilesOperator.cleanup_days", "3650d"),
    "change_days": _duration("365d", "Keep changes", "PruneFilesOperator.change_days", "730d"),
    "keep_newest": _number(10, "Keep the newest", "PruneFilesOperator.keep_newest", minimum=1),
}
"""Parameters of the other DAGs."""


def schema_of(name: str) -> _Field:
    """Return a parameter's default, and its JSON schema with the words of the operator's docstring."""
    schema = dict((CLEANUP_FORM | OTHER_FORMS)[name])
    operator, _, argument = schema.pop("described_by").partition(".")
    titles = {other: repr(field["title"]) for other, field in CLEANUP_FORM.items()}
    said = [without_default(described(operator, titles)[argument])] if operator else []
    return schema | {"description": " ".join(filter(None, [*said, schema["description"]]))}


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
