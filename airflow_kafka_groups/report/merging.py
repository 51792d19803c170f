"""What became of each group over all runs of a plan: a task that was cleared adds to its first run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.ledger.outcomes import CONFIRMED, Outcome, Reason

KEPT_BEFORE_RECHECK = {
    Reason.EXCLUDED.value: "Kept: excluded, restored or kept alive",
    Reason.POLICY.value: "Kept by an edit of the policy",
    Reason.NOT_NOTIFIED.value: "Kept: owner not notified",
    Reason.DELETED_BEFORE.value: "Kept: deleted before",
    Reason.ALIVE_BEFORE.value: "Kept: in use before",
}
"""Reasons for keeping a group from before its recheck."""
KEPT_WITHOUT_RECHECK = {
    **KEPT_BEFORE_RECHECK,
    Reason.PROTECTED.value: "Kept: protected",
    Reason.STOPPED.value: "Kept: stopped",
    Reason.EXPIRED.value: "Kept: plan expired",
    Reason.LEASE_LOST.value: "Kept: lease lost",
    Reason.TOO_SLOW.value: "Kept: read too slowly",
    Reason.CAME_BACK.value: "Kept: came back",
}
"""All reasons for keeping a group that are not the recheck's own."""
KEPT_IN_ORDER = (
    *("over_cap", "doubt", "notice", "waiting", "excluded", "protected", "by_rule", "reported", "unreadable"),
    *("no_offsets", "settling", "moving", "untouchable", "live"),
)
"""Why a plan keeps groups, those first that somebody should look at: a live group needs no explanation."""
NOT_REACHED = "the run did not reach it"
"""Why a planned group was kept of which no run has said anything."""
_NOT_LOOKED_AT = {
    *KEPT_BEFORE_RECHECK,
    *(Reason.PROTECTED, Reason.STOPPED, Reason.EXPIRED, Reason.TOO_SLOW, Reason.LEASE_LOST),
    *(Reason.NOT_LISTED, Reason.NOT_DESCRIBED, Reason.UNREADABLE),
}
"""Reasons that say nothing of whether the group still exists."""


def runs_that_count(records: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], bool | None]:
    """Return the runs that a plan is reported by, and whether these are dry ones; ``None`` if it was not run.

    Dry runs count only if there is no other run.
    """
    real = [record for record in records if not record["dry_run"]]
    return real or records, not real if records else None


def merge_outcomes(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the latest outcome of each group.

    A deleted group stays deleted when a later run finds it gone, or keeps it for whatever reason. A possibly deleted
    one stays so until a later run has looked at it: one that is gone then was deleted.
    """
    merged: dict[str, dict[str, str]] = {}
    for record in records:
        for item in record["outcomes"]:
            group_id = item["group_id"]
            merged[group_id] = _later(merged.get(group_id), item)
    return merged


def _later(before: dict[str, str] | None, item: Mapping[str, str]) -> dict[str, str]:
    """Return what became of a group, after what a later run says of it."""
    if before is not None and before["outcome"] == Outcome.DELETED and item["outcome"] in (Outcome.GONE, Outcome.KEPT):
        return before
    if before is not None and before["outcome"] == Outcome.UNKNOWN:
        if item["outcome"] == Outcome.KEPT and item.get("code") in _NOT_LOOKED_AT:
            return before
        if item["outcome"] == Outcome.GONE:
            return {**item, **CONFIRMED}
    return dict(item)


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
