"""Check operators' and sensors' arguments as they are set: when the DAG is parsed, or when a template has rendered.

What a DAG file says outright is wrong at once, and not at three in the morning. A template (``{{ … }}``) or the output
of another task is left alone until it has a value. The names mean the same wherever they occur; what an operator makes
of them it reads itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import (
    read_flag,
    read_group_ids,
    read_integer,
    read_number,
    read_partition_offsets,
    read_patterns,
    read_strings,
    read_text,
)

Reader = Callable[[str, Any], Any]


def is_template(value: Any) -> bool:
    """Say whether a value is not known yet: a template, another task's output, or a list with one in it."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, list | tuple):
        return any(is_template(item) for item in value)
    if isinstance(value, Mapping):
        return any(is_template(item) for pair in value.items() for item in pair)
    return hasattr(value, "iter_references")  # an XComArg


def check_argument(name: str, value: Any) -> None:
    """Raise ``ConfigurationError`` for a known argument with a value that cannot be; ``None`` means not given."""
    read = _READERS.get(name)
    if read is not None and value is not None and not is_template(value):
        read(name, value)


def check_rendered(name: str, before: Any, value: Any) -> None:
    """Refuse a template that has rendered to ``None``: whoever gave one did not mean what leaving it out means.

    Left out, ``group_ids`` of a restore are all groups of the backup. An ``approval`` of nothing is refused elsewhere.
    """
    if value is None and name != "approval" and is_template(before):
        raise ConfigurationError(name, None, "its template rendered to nothing: check what it refers to")


def read_state_names(field: str, value: Any) -> list[Any]:
    """Read states of groups, in whatever case."""
    from airflow_kafka_groups.models import GroupState

    return _members(field, GroupState, value)


def read_type_names(field: str, value: Any) -> list[Any]:
    """Read types of groups, in whatever case."""
    from airflow_kafka_groups.models import GroupType

    return _members(field, GroupType, value)


def _members(field: str, kind: Any, value: Any) -> list[Any]:
    known = {member.value.lower(): member for member in kind}
    names = read_strings(field, value)
    for name in names:
        if name.lower() not in known:
            raise ConfigurationError(field, name, f"is not known. Known are {', '.join(m.value for m in kind)}")
    return [known[name.lower()] for name in names]


def _switch(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(field, value, "must be True or False")


def _ids(field: str, value: Any) -> None:
    read_group_ids(value, field=field)


def _storage(field: str, value: Any) -> None:
    text = read_text(field, value)
    if "://" not in text and not text.startswith("/"):
        raise ConfigurationError(field, value, "must be an absolute path or a URL such as file:///data or s3://bucket")


_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("group_ids", "transactional_ids", "topics"), _ids),
    **dict.fromkeys(("include", "exclude", "protected"), read_patterns),
    **dict.fromkeys(("targets", "offsets"), read_partition_offsets),
    **dict.fromkeys(("max_total_lag", "max_partition_lag", "max_lag", "approve_above"), read_integer),
    **dict.fromkeys(("max_lag_seconds", "seconds", "min_idle_seconds"), read_number),
    **dict.fromkeys(("observe_seconds", "lease_wait_seconds"), partial(read_number, maximum=86_400)),
    **dict.fromkeys(("chunk_size", "max_groups", "keep_newest"), partial(read_integer, minimum=1)),
    **dict.fromkeys(("snapshot_days", "cleanup_days", "change_days"), partial(read_number, minimum=1, maximum=36_500)),
    **dict.fromkeys(
        (
            *("fail_on_error", "fail_if_lagging", "fail_if_kept", "ignore_missing", "require_complete"),
            *("overwrite", "create", "to_end", "only_with_lag"),
        ),
        _switch,
    ),
    "min_observations": partial(read_integer, minimum=2),
    "max_share": partial(read_number, maximum=1),
    "shift_by": partial(read_integer, minimum=-(2**53)),
    "states": read_state_names,
    "types": read_type_names,
    "dry_run": read_flag,
    "storage_path": _storage,
    "kafka_groups_conn_id": read_text,
}
