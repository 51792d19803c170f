"""What became of each group over all runs of a plan: a task that was cleared adds to its first run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.deletion.recheck import Reason

KEPT_BEFORE_RECHECK = {
    Reason.EXCLUDED.value: "Kept by the approver",
    Reason.POLICY.value: "Kept by an edit of the policy",
    Reason.NOT_NOTIFIED.value: "Kept: owner not notified",
    Reason.DELETED_BEFORE.value: "Kept: deleted before",
    Reason.ALIVE_BEFORE.value: "Kept: in use before",
}
"""Reasons for keeping a group that are not the recheck's own."""
NOT_REACHED = "the run did not reach it"
"""Why a planned group was kept of which no run has said anything."""
_NOT_LOOKED_AT = {
    *KEPT_BEFORE_RECHECK,
    *(Reason.PROTECTED, Reason.STOPPED, Reason.EXPIRED, Reason.TOO_SLOW, Reason.LEASE_LOST),
    *(Reason.NOT_LISTED, Reason.NOT_DESCRIBED, Reason.UNREADABLE),
}
"""Reasons that say nothing of whether the group still exists."""


def merge_outcomes(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the latest outcome of each group.

    A deleted group stays deleted when a later run finds it gone, or keeps it for whatever reason. A possibly deleted
    one stays so until a later run has looked at it: one that is gone then was deleted.
    """
    merged: dict[str, dict[str, str]] = {}
    for record in records:
        for item in record["outcomes"]:
            before = merged.get(item["group_id"])
            if before is None or not _stays(before["outcome"], item):
                was_unknown = before is not None and before["outcome"] == Outcome.UNKNOWN
                merged[item["group_id"]] = _confirmed(item) if was_unknown else dict(item)
    return merged


def _stays(before: str, item: Mapping[str, str]) -> bool:
    if before == Outcome.UNKNOWN:
        return item["outcome"] == Outcome.KEPT and item.get("code") in _NOT_LOOKED_AT
    return before == Outcome.DELETED and item["outcome"] in (Outcome.GONE, Outcome.KEPT)


def _confirmed(item: Mapping[str, str]) -> dict[str, str]:
    """Return the outcome of a possibly deleted group that was looked at again."""
    if item["outcome"] != Outcome.GONE:
        return dict(item)
    reason = "deleted: it is gone, though its answer was lost"
    return {**item, "outcome": Outcome.DELETED.value, "code": "confirmed", "reason": reason}


def verified_gone(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the groups that a run deleted and did not find any more when it looked once more."""
    gone: set[str] = set()
    for record in records:
        if found := record["verification"]:
            gone |= {item["group_id"] for item in record["outcomes"] if item["outcome"] == Outcome.DELETED}
            gone -= {*found["present"], *found["unclear"]}
    return gone


def still_present(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the groups that should be gone and are there, with what is known of them, by the last look at each."""
    present: dict[str, str] = {}
    for record in records:
        outcomes = {item["group_id"]: item["outcome"] for item in record["outcomes"]}
        present = {group_id: state for group_id, state in present.items() if outcomes.get(group_id) != Outcome.GONE}
        if found := record["verification"]:
            looked_at = {id_ for id_, outcome in outcomes.items() if outcome == Outcome.DELETED} - {*found["unclear"]}
            present = {group_id: state for group_id, state in present.items() if group_id not in looked_at}
            present |= found["present"]
    return present
