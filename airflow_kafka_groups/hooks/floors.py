"""The site's floors: from Airflow's configuration (``[kafka_groups]``) and from the connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import (
    optional,
    parse_object,
    read_duration,
    read_flag,
    read_integer,
    read_names,
    read_number,
    read_place,
    read_text,
)
from airflow_kafka_groups.judge.policy.notice import check_notify
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.connection import ConnectionSettings
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.ledger.floors import SiteFloors

SECTION = "kafka_groups"
DEFAULTS = "KAFKA_GROUPS_DEFAULTS"
"""The environment variable with the defaults of the shipped DAGs; who triggers a run cannot change it."""
DEFAULT_CONNECTION = "kafka_groups_default"
LIMITS = ("min_idle_seconds", "min_observations", "max_gap_seconds")
"""What a group is judged by, that a policy file may set."""
_OTHER_OPTIONS = frozenset({"report_tab"})

_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "min_idle_seconds": read_duration,
    "max_groups": read_integer,
    "max_share": read_number,
    "approve_above": read_integer,
    "approvers": lambda field, value: frozenset(read_names(field, value)),
    "dry_run_only": read_flag,
    "named_deletions": read_flag,
    "ignore_signs_of_life": read_flag,
    "storage_path": read_place,
    "require_commit_log": read_flag,
    "policy_file": read_place,
}


_IN_POLICY = (
    *("include", "exclude", "protected", "min_idle_seconds", "min_observations", "max_groups", "max_share"),
    *("max_plan_age_seconds", "max_gap_seconds", "allow_hidden_topics", "require_commit_log"),
)


def read_floors(where: str, values: Mapping[str, Any]) -> SiteFloors:
    """Read floors out of plain values. Raises ``ConfigurationError`` for a name or a value that cannot be."""
    from airflow_kafka_groups.ledger.floors import SiteFloors

    _require_known(where, values)
    read = {name: _READERS[name](f"{where}.{name}", value) for name, value in values.items()}
    try:
        return SiteFloors(**read)
    except ConfigurationError as error:  # of an argument with the same name, somebody may have given another value
        raise ConfigurationError(f"{where}.{error.field}", read[error.field], error.remedy) from None


def _require_known(where: str, names: Iterable[str]) -> None:
    if unknown := sorted(set(names) - _READERS.keys()):
        raise ConfigurationError(f"{where}.{unknown[0]}", None, f"is not known. Known are {', '.join(_READERS)}")


def connection_floors(settings: ConnectionSettings) -> SiteFloors:
    """Return the floors of a connection alone. Raises ``ConfigurationError`` for one that cannot be read."""
    return read_floors(f"connection {settings.conn_id!r}, floors", settings.floors)


def configured_floors() -> SiteFloors:
    """Return the floors of Airflow's configuration alone.

    Raises ``ConfigurationError`` for one that cannot be read: a site that misspells one must not go without it.
    """
    from airflow.sdk import conf

    # The section has what is misspelled, and commands, which Airflow does not run for these. The options are read one
    # by one, as strings, from wherever Airflow has them.
    in_environment = _environment()
    _require_known(f"[{SECTION}]", in_environment.keys() - _OTHER_OPTIONS)  # before Airflow stumbles over a command
    named = {name: conf.get(SECTION, name, fallback=None) for name in _READERS}
    options = {**in_environment, **(conf.getsection(SECTION) or {}), **named}
    set_here = {name: options[name] for name in options.keys() - _OTHER_OPTIONS if options[name] not in ("", None)}
    return read_floors(f"[{SECTION}]", set_here)


def site_floors(settings: ConnectionSettings, storage_path: Any) -> SiteFloors:
    """Return what counts for a connection: of site and connection, the stricter; and check the storage.

    Where floors are set and none is ``storage_path``, the site's default storage is that floor: another storage has
    another journal, by which every group was never deleted and never found in use.
    """
    floors = configured_floors().stricter(connection_floors(settings))
    if floors.storage_path is None and floors.limits_deletions:
        floors = replace(floors, storage_path=default_storage())
    floors.require_storage(str(storage_path))
    return floors


def default_storage() -> str | None:
    """Return the storage that a site's DAGs use by default. Raises for what cannot be read: it may be a floor."""
    return optional(read_place)(f"{DEFAULTS}.storage_path", site_defaults().get("storage_path"))


def default_cluster(conn_id: str) -> str | None:
    """Return the cluster's folder that a site's DAGs use with a connection, ``None`` if it is the connection's id."""
    defaults = site_defaults()
    if defaults.get("kafka_groups_conn_id", DEFAULT_CONNECTION) != conn_id:
        return None
    return optional(read_text)(f"{DEFAULTS}.cluster", defaults.get("cluster"))


def plan_policy(given: Any, settings: ConnectionSettings, **more: Any) -> PlanPolicy:
    """Build the policy of a plan from a task or parsed options, the connection, and how the site notifies owners.

    :param given: has patterns and limits as attributes. What it has not, or as ``None``, is as by default.
    :param more: fields of the policy that count instead.
    """
    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy

    found = {name: value for name in _IN_POLICY if (value := getattr(given, name, None)) is not None}
    found["protected"] = (*found.get("protected", DEFAULT_PROTECTED), *settings.protected_groups)
    found["notify"] = check_notify(f"{DEFAULTS}.notify", site_defaults().get("notify", {}))
    return PlanPolicy(**found | more)


def site_defaults() -> dict[str, Any]:
    """Return what ``KAFKA_GROUPS_DEFAULTS`` has. Raises ``ConfigurationError`` unless it is a JSON object."""
    defaults = parse_object(os.environ.get(DEFAULTS) or "{}")
    if defaults is None:
        # Do not show the value: it may contain secret Spark properties, and all users see import errors of DAG files.
        raise ConfigurationError(DEFAULTS, None, 'must be a JSON object such as {"dry_run": true}, each name once')
    return defaults


def _environment() -> dict[str, str]:
    """Return the section's options in the environment: Airflow 3.2 does not list those that it does not know."""
    prefix = f"AIRFLOW__{SECTION.upper()}__"
    return {name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)}
