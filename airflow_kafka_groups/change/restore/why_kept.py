"""Why a group must not be changed, by what was read of it right before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_kafka_groups.kafka.admin.results import GroupResult, is_not_found
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, GroupState
from airflow_kafka_groups.kafka.models.group_types import has_eligible_kind
from airflow_kafka_groups.ledger.changes import Change, commits_in

DELETED_MEANWHILE = "offsets of it were deleted meanwhile"  # what is left of it is as it was


class Unread(str):
    """Why a group is kept, or a partition left out, of which nobody knows how it is: the task has to fail."""

    __slots__ = ()


def unread_of(reasons: Iterable[str]) -> Unread | None:
    """Return the first reason that is nobody's decision: something could not be read."""
    return next((reason for reason in reasons if isinstance(reason, Unread)), None)


def unread_part(skipped: Mapping[str, str]) -> str | None:
    """Return which of the partitions that are left out of a change could not be read, the first one; or ``None``."""
    unread = ((where, reason) for where, reason in skipped.items() if isinstance(reason, Unread))
    return next((f"{where} was left out: {reason}" for where, reason in unread), None)


def why_kept(
    change: Change,
    described: GroupResult[GroupDescription] | None,
    now: GroupResult[GroupOffsets] | None,
    may_be_absent: bool = False,
) -> str | None:
    """Return why a group must not be changed, or ``None``: what was described and read of it matches the proposal."""
    if described is None or now is None:
        return Unread("its coordinator returned no result")
    absent = described.error is not None and is_not_found(described.error)
    if described.error is not None and not absent:
        return Unread(f"it cannot be described: {described.error}")
    if now.error is not None or now.value is None:
        return Unread(f"its offsets cannot be read: {now.error}")
    group = described.value
    if absent or group is None or group.state is GroupState.DEAD:
        if not may_be_absent:
            return "it does not exist"
    elif group.state is not GroupState.EMPTY or group.members:
        return f"state {group.state.value}, {len(group.members)} member(s)"
    elif not has_eligible_kind(group.type, group.protocol_type):
        return f"it is a {group.type.value} group of the protocol {group.protocol_type!r}"
    found = commits_in(now.value)
    if found == change.before:
        return None
    were_there = all(change.before.get(where) == value for where, value in found.items())
    return DELETED_MEANWHILE if were_there else "its offsets moved meanwhile"
