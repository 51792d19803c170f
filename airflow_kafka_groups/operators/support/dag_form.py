"""The parameters of the shipped DAGs' forms, and what the operators' docstrings say of each: commands' help, too.

The docstrings are read from the source, since the command line must not wait for Airflow's import.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from airflow_kafka_groups.durations import PATTERN_OR_NUMBER
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.floors import DEFAULT_CONNECTION, DEFAULTS, site_defaults

_Field = dict[str, Any]
_CLASS = re.compile(r'^class (\w+)\(([^)]*)\):\n    """(.*?)"""', re.M | re.S)
_PARAM = re.compile(r"^    :param (\w+): (.*?)\n(?=    :param |\n|    $)", re.M | re.S)
_DEFAULT = re.compile(r"[.;] [Dd]efault\b.*$")


def _field(default: Any, title: str, of: str, more: str = "", **schema: Any) -> _Field:
    """Return a parameter's default and its JSON schema; without a type, it is the default's.

    :param of: the operator whose words about the argument of this name are the description, or of another one as
        ``Operator.argument``; "" for none.
    :param more: what the form says behind that.
    """
    schema = {"type": _TYPES.get(type(default)), **schema}
    if schema["type"] == "string" and not schema.keys() & {"pattern", "enum"}:
        schema["minLength"] = 1
    return {"default": default, "title": title, "described_by": of, "description": more, **schema}


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): ["null", "string"]}


def _duration(default: str, title: str, of: str, *examples: str, minimum: int = 1) -> _Field:
    """Return a duration, a string in the form: its examples, which Airflow suggests, make it one."""
    schema: _Field = {"type": ["string", "number"], "pattern": PATTERN_OR_NUMBER, "minimum": minimum}
    return _field(default, title, of, **schema, examples=[default, *examples])


def _patterns(default: Any, title: str, of: str, more: str, type: Any) -> _Field:
    return _field(default, title, of, more, items={"type": "string", "minLength": 1}, type=type)


def _choice(title: str, of: str, *choices: str, more: str = "", default: str | None = None) -> _Field:
    return _field(default or choices[0], title, of, more, enum=list(choices))


_LISTED = "One per line."
_CLUSTER = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_HOME = os.environ.get("AIRFLOW_HOME", os.path.expanduser("~/airflow"))
_MIGRATE, _PLAN, _PRUNE = "MigrateGroupOffsetsOperator", "PlanCleanupOperator", "PruneFilesOperator"
_ASK = "A person must approve the plan before it is applied. A dry run needs no approval."
_ASK_ABOVE = "If approval is off by default, still ask when the plan has more groups or topics than this."
_COMMIT_LOG = (
    "Read __consumer_offsets too, which shows consumers that commit the same offset repeatedly. auto: if Spark and the "
    "connection can; required: fail if not."
)
_METHODS = ("header", "offset-syncs", "checkpoints", "payload", "timestamp")
_OR_ALL = "One per line. Empty: all groups in the backup, or of the source."

CLEANUP_FORM: dict[str, _Field] = {
    "kafka_groups_conn_id": _field(DEFAULT_CONNECTION, "Connection", "KafkaGroupsOperator"),
    "dry_run": _field(True, "Dry run", "DryRunOperator"),
    "require_approval": _field(True, "Ask before deleting", "", _ASK),
    "cluster": _field(  # where no other connection is the default
        DEFAULT_CONNECTION, "Cluster", "StoredOperator", "Default: the default connection's id.", pattern=_CLUSTER
    ),
    "storage_path": _field(os.path.join(_HOME, "kafka-groups"), "Storage", "StoredOperator"),
    "policy_file": _field(None, "Policy file", _PLAN, "Empty: no file."),
    "include": _patterns(["*"], "Groups to consider", _PLAN, _LISTED, "array"),
    # Without null, Airflow's form requires a value.
    "exclude": _patterns([], "Groups to keep", _PLAN, _LISTED, ["array", "null"]),
    "min_idle_seconds": _duration("7d", "Idle for", _PLAN, "14d", "30d", "36h"),
    "min_observations": _field(2, "Observations", _PLAN, minimum=2),
    "max_gap_seconds": _duration("2d", "Longest gap", _PLAN, "12h", "0", minimum=0),
    "commit_log": _choice("Log of commits", "", "auto", "off", "required", more=_COMMIT_LOG),
    "offsets_retention_minutes": _field(0, "Offsets retention (min)", _PLAN, minimum=0, maximum=52_704_000),
    "max_groups": _field(500, "Maximum groups", _PLAN, minimum=1, maximum=1_000_000),
    "max_share": _field(0.5, "Maximum share", _PLAN, type="number", exclusiveMinimum=0, maximum=1),
    "approve_above": _field(100, "Always ask above", "", _ASK_ABOVE, minimum=0),
    "groups_per_second": _field(0, "Groups a second", "DeleteGroupsOperator", type="number", minimum=0),
    "lease": _field(True, "One clean-up at a time", "DeleteGroupsOperator"),
}
"""Parameters of the clean-up, in the order of its form."""

OTHER_FORMS: dict[str, _Field] = {
    "topic_idle_seconds": _duration("7d", "Idle for", "PlanTopicPruningOperator.min_idle_seconds", "14d", "3d", "36h"),
    # A run without it fails with a message that says what is missing.
    "plan_id": _field(None, "Plan", "RestoreGroupOffsetsOperator", minLength=1),
    "group_ids": _patterns(None, "Groups", "RestoreGroupOffsetsOperator", _OR_ALL, ["null", "array"]),
    "plan_digest": _field(None, "Digest of the plan", _MIGRATE),
    "groups": _field(None, "Groups to copy", "CopyGroupOffsetsOperator", type=["null", "object"]),
    "source_conn_id": _field(None, "Source", _MIGRATE),
    "method": _choice("Method", _MIGRATE, *_METHODS, default="payload"),
    "position": _choice("Position", _MIGRATE, "at-or-before", "exact", "at-or-after"),
    "existing": _choice("Existing offsets", _MIGRATE, "keep", "replace", "lower"),
    "topic_pattern": _field("{topic}", "Names of mirrors", _MIGRATE),
    "mirror_topic": _field(None, "MirrorMaker 2's topic", _MIGRATE),
    "on_spark": _field(False, "Compare on Spark", _MIGRATE),
    "overwrite": _field(False, "Overwrite newer offsets", "RestoreGroupOffsetsOperator"),
    "asleep": _patterns([], "Groups to keep alive", "KeepOffsetsAliveOperator.include", _LISTED, ["array", "null"]),
    "allow_membership": _field(False, "Join and leave", "KeepOffsetsAliveOperator"),
    "max_lag": _field(10_000, "Maximum lag", "ListGroupLagOperator", minimum=0),
    "drill_groups": _field(20, "Groups to restore", "RestoreDrillOperator.max_groups", minimum=1, maximum=1_000),
    "snapshot_days": _duration("60d", "Keep snapshots", _PRUNE, "26w"),
    "cleanup_days": _duration("730d", "Keep clean-ups", _PRUNE, "3650d"),
    "change_days": _duration("365d", "Keep changes", _PRUNE, "730d"),
    "keep_newest": _field(10, "Keep the newest", _PRUNE, minimum=1),
}
"""Parameters of the other DAGs."""


def schema_of(name: str) -> _Field:
    """Return a parameter's default, and its JSON schema with the words of the operator's docstring."""
    schema = dict((CLEANUP_FORM | OTHER_FORMS)[name])
    operator, _, argument = schema.pop("described_by").partition(".")
    titles = {other: repr(field["title"]) for other, field in CLEANUP_FORM.items()}
    said = [without_default(described(operator, titles)[argument or name])] if operator else []
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


def described(operator: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return what an operator's docstring, and those of its bases, say of each argument.

    :param operator: the name of its class.
    :param names: what to call other arguments; what is not in it stays as it is.
    """
    return {
        name: re.sub(r"``(.+?)``", lambda found: names.get(found[1], found[1].strip('"') or found[1]), text)
        for name, text in _texts(operator).items()
    }


def without_default(text: str) -> str:
    """Return a sentence of what is described without its default, as where a form has it filled in."""
    return f"{text[0].upper()}{_DEFAULT.sub('', text[1:])}."


def _texts(operator: str) -> dict[str, str]:
    if operator not in _classes():  # Airflow's own
        return {}
    bases, own = _classes()[operator]
    return {name: text for base in reversed(bases) for name, text in _texts(base).items()} | own


@cache
def _classes() -> dict[str, tuple[list[str], dict[str, str]]]:
    folder = Path(__file__).parents[1]
    sources = [path.read_text("utf-8") for path in (*folder.glob("*.py"), *folder.glob("support/*.py"))]
    return {
        found[1]: (
            [base.strip() for base in found[2].split(",")],
            {param[1]: _plain(param[2]) for param in _PARAM.finditer(found[3])},
        )
        for source in sources
        for found in _CLASS.finditer(source)
    }


def _plain(text: str) -> str:
    return " ".join(text.split()).removesuffix(".").replace(" (not templated)", "")
