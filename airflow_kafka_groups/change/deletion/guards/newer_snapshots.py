"""What snapshots after the judged one show of a plan's groups: one that was in use since is not deleted by this plan.

Incomplete snapshots count, too, and those of other users, who may see less: what these lack means nothing.
"""

from __future__ import annotations

from airflow_kafka_groups.change.plan.abandoned_topics import used_since
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.snapshot.reader import GroupSummary, is_news, looked_for, may_see_less
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import utc_times


def in_use_since(ledger: Ledger, plan: DeletionPlan) -> dict[str, GroupOutcome]:
    """Return what of a plan a later snapshot shows in use, or shows less of, with the reason to keep it.

    :param ledger: what it yielded before is not read again.

    Raises ``SnapshotError`` for a later snapshot that is damaged: what it shows is not known.
    """
    if plan.prunes:
        return {name: kept(name, Reason.ALIVE_BEFORE, why) for name, why in used_since(ledger, plan).items()}
    return _groups_in_use(ledger, plan)


def _groups_in_use(ledger: Ledger, plan: DeletionPlan) -> dict[str, GroupOutcome]:
    layout, planned = ledger.layout, dict[str, Target]()
    found: dict[str, GroupOutcome] = {}
    for reader in ledger.later(plan.snapshot_id, plan.kafka_cluster_id):
        planned = planned or {group.group_id: group for group in plan.planned.targets()}
        newer = f"snapshot {reader.manifest.snapshot_id}, which is newer than the plan's,"
        asked, sees_less = _not_known(plan, planned, reader.manifest), may_see_less(reader, layout, plan.view)
        hides_offsets = sees_less and not reader.manifest.sees_all_topics
        lacking = set(asked)
        for group in reader.summaries():
            lacking.discard(group.group_id)
            facts = asked.get(group.group_id)
            if facts is not None and (why := _why_in_use(group, facts, hides_offsets)) is not None:
                found[group.group_id] = kept(group.group_id, Reason.ALIVE_BEFORE, f"{newer} shows it in use: {why}")
        if reader.manifest.complete and not sees_less:
            reason = f"{newer} does not have it: somebody made it again since"
            lacking = looked_for(reader.manifest, lacking)
            found |= {group_id: kept(group_id, Reason.ALIVE_BEFORE, reason) for group_id in lacking}
    return found


def _not_known(plan: DeletionPlan, planned: dict[str, Target], manifest: SnapshotManifest) -> dict[str, Target]:
    """Return the groups of which a snapshot may show what was not known when they were judged."""
    if is_news(manifest, plan.snapshot_id, manifest.observed_at):  # as nearly always: whatever it shows
        return planned
    since = utc_times(plan.planned.table["idle_since"])
    return {
        facts.group_id: facts
        for facts, idle_since in zip(planned.values(), since, strict=True)
        if is_news(manifest, plan.snapshot_id, idle_since)
    }


def _why_in_use(group: GroupSummary, planned: Target, hides_offsets: bool) -> str | None:
    if group.members:
        return f"it had {group.members} member(s)"
    if group.state not in (GroupState.EMPTY.value, GroupState.UNKNOWN.value):
        return f"its state was {group.state}"
    if planned.has_moved_on(group.group_epoch):
        return "its group epoch had moved: a member joined or left"
    if group.error is not None:
        return None
    kinds = {group.group_type, planned.group_type} - {GroupType.UNKNOWN.value}
    if len(kinds) > 1 or group.protocol_type != planned.protocol_type:
        return "it was of another kind"
    if group.fingerprint != planned.fingerprint and not hides_offsets:
        return "its committed offsets had moved"
    return None
