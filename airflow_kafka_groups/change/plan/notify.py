"""Mark the groups of a plan that wait for a notice, and notify their owners: one message for each owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.policy.notice import Notice, rounded_down, shown_owner, shown_period
from airflow_kafka_groups.judge.verdict_names import KeptName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.notice_book import marked, note, noted_by, notice_of
from airflow_kafka_groups.observe.snapshot.reader import is_partial, load_manifest
from airflow_kafka_groups.report.page import render
from airflow_kafka_groups.shown import one_line, printable, without_links
from airflow_kafka_groups.storage.layout import Clock, Layout, utc_now

MESSAGE_GROUPS = 100
"""The most groups that a message names; the others are counted, and are in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerNotice:
    """What an owner is to be notified of.

    :param owner: the owner; ``None`` where the groups have none.
    :param contact: where to notify them.
    :param groups: the groups that were marked, sorted.
    :param notice_seconds: the shortest period after which one of them may be deleted.
    """

    cluster: str
    plan_id: str
    owner: str | None
    contact: str
    groups: tuple[str, ...]
    notice_seconds: float
    report: str

    def to_context(self) -> dict[str, Any]:
        """Return the notice as templates of notifiers see it: plain values, with the message for mail and Slack."""
        shown, more = self.groups[:MESSAGE_GROUPS], len(self.groups) - MESSAGE_GROUPS
        first = (
            f"{len(self.groups)} consumer group(s) of cluster {self.cluster} that belong to "
            f"{without_links(shown_owner(self.owner))} are stale: without members, and without a commit. They will be "
            f"deleted in {shown_period(self.notice_seconds)} at the earliest, unless they are used again, or the "
            "policy keeps them. Their offsets are backed up before, and can be restored."
        )
        noun = "group" if len(self.groups) == 1 else "groups"
        rest = f"… and {more} more" if more > 0 else ""
        names = [without_links(one_line(group_id)) for group_id in shown]
        lines = [first, "", *(f"- {name}" for name in names), *filter(None, [rest]), "", f"Report: {self.report}"]
        text = "\n".join(lines)
        return {
            "cluster": self.cluster,
            "plan_id": self.plan_id,
            "owner": self.owner and printable(self.owner),  # a client's id may be one, and a subject is one line
            "contact": self.contact,
            "groups": list(shown),
            "count": len(self.groups),
            "days": rounded_down(self.notice_seconds / 86_400),
            "report": self.report,
            "subject": f"{len(self.groups)} stale consumer {noun} of {self.cluster} will be deleted",
            "text": text,
            "slack": escape(text, quote=False),  # Slack reads <!channel> and <@U1>, and no other references
            "html": render("notice.html.j2", first=first, names=names, rest=rest, report=self.report),
        }


@dataclass(slots=True, kw_only=True)
class Notified:
    """What the runs of notices of one plan did; a dry run has only what it would do.

    :param marked: the number of groups that were marked for the first time, or again since they lived.
    :param notified: the number of groups by owner whose notice was sent.
    :param failed: owners whose notice could not be sent, with the reason.
    :param without_contact: groups that nobody can be notified of; they are kept.
    """

    marked: int = 0
    notified: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    without_contact: int = 0


def notify_owners(
    layout: Layout,
    plan: DeletionPlan,
    send: Callable[[OwnerNotice], None],
    *,
    dry_run: bool,
    report: str = "",
    now: Clock = utc_now,
) -> Notified:
    """Mark what waits for a notice, and send one message to each owner of marked groups that has had none yet.

    A mark is durable before its message is sent. A message counts from when it was sent, and only if its sending did
    not fail; where the clock is behind, both count from when the plan was made. Owners are independent of each other:
    one that cannot be notified does not hold the others up.

    A plan marks once, and not after its end, when later plans know better. Repeated, such as by a task that is cleared
    months later, it only notifies owners of groups that still have their mark and had no message: groups without one
    have lived since, or are gone.

    :param send: sends a message; an error of it is noted for the owner.
    :param dry_run: write and send nothing.
    :param report: where the report is, for the message.

    Raises ``JournalError`` and ``StorageError``.
    """
    ledger = Ledger(layout, plan.kafka_cluster_id)
    earlier = noted_by(ledger, plan.plan_id)
    before = ledger.notices()  # asked last: what another run notes from now on is not overwritten
    at = max(now(), plan.created_at)
    marks_none = bool(earlier) or now() > plan.expires_at
    marks = before if marks_none else marked(before, plan, of_all_groups=_is_of_all_groups(layout, plan))
    old = {(name, notice.marked_at) for name, notice in before.items()}  # one with another contact now is the same
    done = Notified(marked=sum((name, notice.marked_at) not in old for name, notice in marks.items()))
    if not earlier and not dry_run:  # with nothing new to mark, too: without an entry, a repeat seems to be the first
        changed: dict[str, Notice | None] = dict.fromkeys(before.keys() - marks.keys())
        changed |= {name: notice for name, notice in marks.items() if notice != before.get(name)}
        note(ledger, plan.plan_id, changed, at, marked=done.marked)
    told = {str(entry["notified"]): entry.get("count", 0) for entry in earlier if "notified" in entry}
    if not dry_run:
        done.notified |= told
        done.marked += sum(entry.get("marked", 0) for entry in earlier)
    for notice in _messages(layout, plan, marks, report, done, told.keys()):
        name = notice.owner or ""
        if not dry_run:
            try:
                send(notice)
            except Exception as exc:  # noqa: BLE001  # a notifier is anybody's code
                done.failed[name] = type(exc).__name__  # its message may hold an address with a secret in it
                continue
            at = max(now(), plan.created_at)
            for group_id in notice.groups:
                marks[group_id] = replace(
                    marks[group_id], notified_at=at, contact=notice.contact, told_seconds=notice.notice_seconds
                )
            noted = {group_id: marks[group_id] for group_id in notice.groups}
            note(ledger, plan.plan_id, noted, at, notified=name, contact=notice.contact, count=len(noted))
        done.notified[name] = len(notice.groups)
    return done


def _is_of_all_groups(layout: Layout, plan: DeletionPlan) -> bool:
    """Whether the plan's snapshot looked for all groups. Where nobody knows, other groups keep their marks."""
    try:
        return not is_partial(load_manifest(layout, plan.snapshot_id))
    except SnapshotError:
        return False


def _messages(
    layout: Layout,
    plan: DeletionPlan,
    marks: Mapping[str, Notice],
    report: str,
    done: Notified,
    told: Set[str],
) -> list[OwnerNotice]:
    """Return one message for each owner of groups that wait and have had no notice.

    :param told: the owners that earlier runs notified by the same plan.
    """
    waiting = [group for group in plan.kept if group.verdict == KeptName.NOTICE]
    before = plan.policy.rules_before()
    of_owner: dict[str | None, list[tuple[str, float]]] = {}
    for group in waiting:
        mark = marks.get(group.group_id)  # a repeated plan makes none, and a later one's may be of another owner
        if mark is None or (mark.fingerprint, mark.owner) != (group.fingerprint, group.owner):
            continue
        if (group.owner or "") in told:
            continue
        period = notice_of(group, before)
        if not period:  # it only waits for the end of what the message said
            continue
        if mark.notified_at is None or mark.contact is None:
            of_owner.setdefault(group.owner, []).append((group.group_id, period))
    found = []
    for owner in sorted(of_owner, key=lambda owner: owner or ""):
        groups = of_owner[owner]
        contact = plan.policy.contact_of(owner)
        if contact is None:
            done.without_contact += len(groups)
            continue
        found.append(
            OwnerNotice(
                cluster=layout.cluster,
                plan_id=plan.plan_id,
                owner=owner,
                contact=contact,
                groups=tuple(sorted(group_id for group_id, _ in groups)),
                notice_seconds=min(period for _, period in groups),
                report=report,
            )
        )
    return found
