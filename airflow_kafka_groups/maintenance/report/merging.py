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


def merge_outcomes(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the latest outcome of each group.

    A deleted group stays deleted when a later run finds it gone, or keeps it for whatever reason. A
    possibly deleted one stays so when it is kept because of that.
    """
    merged: dict[str, dict[str, str]] = {}
    for record in records:
        for item in record["outcomes"]:
            before = merged.get(item["group_id"])
            if before is None or not _stays(before["outcome"], item):
                merged[item["group_id"]] = dict(item)
    return merged


def _stays(before: str, item: Mapping[str, str]) -> bool:
    if before == Outcome.UNKNOWN:
        return item.get("code") == Reason.DELETED_BEFORE
    return before == Outcome.DELETED and item["outcome"] in (Outcome.GONE, Outcome.KEPT)


def verified_gone(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the groups that a run deleted and did not find any more when it looked once more."""
    gone: set[str] = set()
    for record in records:
        if found := record["verification"]:
            gone |= {item["group_id"] for item in record["outcomes"] if item["outcome"] == Outcome.DELETED}
            gone -= {*found["present"], *found["unclear"]}
    return gone
