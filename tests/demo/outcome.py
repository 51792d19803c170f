"""What the demo's clean-up did, counted from its own records and held against brokers and mails. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from tests.demo.mailbox import Mail

if TYPE_CHECKING:
    from tests.demo.workload import DemoWorkload as Truth

Offsets = Mapping[tuple[str, int], int]


def summarise(plan: Mapping[str, Any], audit: Mapping[str, Any], truth: Truth, left: Set[str]) -> dict[str, int]:
    """Count what happened to groups.

    :param plan: the plan that was carried out, as stored.
    :param audit: the record of its run, as stored.
    :param truth: what the workload made.
    :param left: the groups that the brokers list now.
    """
    counts = plan["counts"]
    deleted = deleted_groups(audit)
    return {
        "found": counts["found"],
        "live": counts["live"],
        "moving": counts["moving"],
        "stale": counts["stale"],
        "protected": counts["protected"] + counts["excluded"],
        "untouchable": counts["untouchable"],
        "planned": counts["planned"],
        "deleted": len(deleted),
        "verified": len(deleted - left),
        "live_deleted": len(truth.live - left),
        "moving_deleted": len(truth.moving - left),
        "sleeping_deleted": len(truth.sleeping - left),
        "protected_deleted": len(truth.protected - left),
        "share_deleted": len(truth.share - left),
        "stale_left": len(truth.stale & left),
    }


def deleted_groups(audit: Mapping[str, Any]) -> set[str]:
    """Return the groups that a run deleted, by its record."""
    return {item["group_id"] for item in audit["outcomes"] if item["outcome"] == "deleted"}


def summarise_policy(
    plan: DeletionPlan,
    deleted: Set[str],
    intents: Mapping[str, datetime],
    marks: Mapping[str, Notice],
    mails: Sequence[Mail],
) -> dict[str, int]:
    """Count what the policy did.

    :param plan: the plan that was carried out.
    :param deleted: the groups that were deleted.
    :param intents: when the journal recorded that a group is to be deleted, just before the request was sent.
    :param marks: the marks of the journal.
    :param mails: what the mail server received.
    """
    return {
        "families": sum(family["planned"] > 0 for family in plan.families),
        "owners": len({group.owner for group in plan.groups if group.owner is not None}),
        "marked": len(marks),
        "mails": len(mails),
        "notified": len(set().union(*(mail.groups for mail in mails))),
        "unnotified_deleted": len(unnotified(plan, deleted, intents, marks, mails)),
    }


def unnotified(
    plan: DeletionPlan,
    deleted: Set[str],
    intents: Mapping[str, datetime],
    marks: Mapping[str, Notice],
    mails: Sequence[Mail],
) -> set[str]:
    """Return the deleted groups whose owner had no message that names them, or had it for less than the notice period.

    Every fact counts: the message at the owner's own address, the mark in the journal, and the time between the later
    of both and the deletion. A deleted group that the plan does not have is one of them.
    """
    periods = {rule.name: rule.notice_seconds for rule in plan.policy.rules}
    planned = {group.group_id: group for group in plan.groups}
    found = set()
    for group_id in deleted:
        group, mark, intent = planned.get(group_id), marks.get(group_id), intents.get(group_id)
        if group is None or mark is None or mark.notified_at is None or intent is None:
            found.add(group_id)
            continue
        contacts = plan.policy.contacts
        contact = contacts.get(group.owner or "", contacts.get(""))
        received = [mail.received_at for mail in mails if group_id in mail.groups and contact in mail.recipients]
        since = max(min(received), mark.notified_at) if received else None
        if since is None or (intent - since).total_seconds() < periods[group.rule or ""]:
            found.add(group_id)
    return found


def pruned(before: Offsets, after: Offsets, topic: str) -> int:
    """Return how many offsets of a topic are gone; 0 where one of another topic is."""
    gone = before.keys() - after.keys()
    return len(gone) if all(name == topic for name, _ in gone) else 0


def wrongs(summary: Mapping[str, int], truth: Truth) -> list[str]:
    """Return the deviations from the expected outcome, in sentences; nothing if there are none."""
    found = [
        f"{summary[f'{kind}_deleted']} {kind} group(s) are gone"
        for kind in ("live", "moving", "sleeping", "protected", "share")
        if summary[f"{kind}_deleted"]
    ]
    if summary["stale_left"]:
        found.append(f"{summary['stale_left']} of {len(truth.stale)} stale groups are still there")
    if not summary["planned"] == summary["deleted"] == summary["verified"] == len(truth.stale):
        found.append(
            f"{len(truth.stale)} groups are stale, {summary['planned']} were planned, {summary['deleted']} deleted and "
            f"{summary['verified']} verified; all four should be the same"
        )
    return found


def policy_wrongs(summary: Mapping[str, int], truth: Truth) -> list[str]:
    """Return the deviations from what the policy promises, in sentences."""
    expected = {
        "families": truth.families,
        "owners": truth.owners,
        "marked": len(truth.stale),
        "mails": truth.owners,
        "notified": len(truth.stale),
        "unnotified_deleted": 0,
        "kept_alive": 1,
        "pruned_partitions": truth.prunable,
    }
    return [
        f"{name} is {summary[name]}, and should be {value}"
        for name, value in expected.items()
        if summary[name] != value
    ]


MEANINGS = {
    "found": "listed by the brokers, each once",
    "live": "have members: kept",
    "moving": "no members, but their offsets move (Flink, Spark): kept",
    "untouchable": "groups of other programs: kept",
    "protected": "stale, but protected by name: kept",
    "families": "of which the stale groups are",
    "owners": "by pattern or name, of the stale groups",
    "marked": "by the first plan, which deletes none of them",
    "notified": "named in a mail to their owner",
    "planned": "by the second plan, after the notice period: Empty and unmoved still",
    "deleted": "backed up, read once more, deleted",
    "verified": "looked for afterwards on every broker, and gone",
    "kept_alive": "past the brokers' retention, while its control was forgotten",
    "pruned_partitions": "of a topic that a live group has left: their offsets are gone, the group lives",
    "live_deleted": "must be 0",
    "moving_deleted": "must be 0",
    "sleeping_deleted": "must be 0",
    "protected_deleted": "must be 0",
    "share_deleted": "must be 0",
    "unnotified_deleted": "must be 0",
}


def table(summary: Mapping[str, int]) -> str:
    width = max(len(name) for name in MEANINGS)
    rows = [f"  {name:<{width}}  {summary[name]:>6}   {meaning}" for name, meaning in MEANINGS.items()]
    return "\n".join([f"  {'groups':<{width}}  {'number':>6}", *rows])
