"""Explain one group: what the cluster, the verdict, the plans and the journal say, and what would change it.

``apply`` would delete the group only if no row has the finding ``keeps``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from airflow_kafka_groups.change.backup.file import find_backup
from airflow_kafka_groups.change.backup.make_backup import require_backup_of
from airflow_kafka_groups.change.deletion.chunk_reader import by_unseen_offsets, offsets_in_snapshot
from airflow_kafka_groups.change.deletion.guards.exclusions import kept_by_records
from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
from airflow_kafka_groups.change.deletion.guards.newer_snapshots import in_use_since
from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped
from airflow_kafka_groups.change.deletion.recheck import decide
from airflow_kafka_groups.change.plan.objections import COUNTS_ANEW
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import BackupError, KafkaGroupsError, PlanError, QuietTimeError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.verdict_names import KeptName, KeptTopic, VerdictName
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.approval import require_approval
from airflow_kafka_groups.ledger.deletion_plan import (
    PRUNING,
    DeletionPlan,
    find_in_plan,
    load_plan,
    newest_plan,
    policy_of_plan,
    require_all_seen,
    require_here,
)
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.life.signs import SignOfLife
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from airflow_kafka_groups.ledger.run_records import RunRecord
from airflow_kafka_groups.ledger.verdicts import Verdicts, load_verdicts, newest_judged
from airflow_kafka_groups.observe.patterns import ALWAYS_PROTECTED, protecting
from airflow_kafka_groups.observe.readings import GroupReading, read_groups
from airflow_kafka_groups.observe.snapshot.members import last_members
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, utc_now
from airflow_kafka_groups.storage.paths import PRUNE_PLANS

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """Explain one group.

    :param plan_id: the plan. Default: the newest of the DAGs, or else of the command line.
    :param protects: whether the connection protects a group, and ``read_only`` whether it allows no change.
    :param floors: what the site demands.
    :param why_stopped: returns why deletions are stopped, beside the storage's own switch.
    :param policy_reader: returns what reads a plan's policy file as it is now.
    """

    group_id: str
    plan_id: str | None
    protects: Callable[[str], bool]
    read_only: bool
    floors: SiteFloors
    why_stopped: Callable[[], str | None]
    policy_reader: Callable[[PlanPolicy], Callable[[], PolicyFile | None]]


class Row(NamedTuple):
    """One check, as ``explain`` shows it."""

    check: str
    finding: str
    evidence: str
    change: str = ""


def rows_of_pruning(layout: Layout, cluster_id: str | None, group_id: str) -> Iterator[Row]:
    """Yield what the newest plan to prune topics and the journal say of a group's topics. They decide nothing of it."""
    yield from _rows_of_prune_plan(layout, group_id)
    history = read_history(layout, cluster_id)
    every = [
        (run, name)
        for name in sorted(history.names())
        if name.rpartition(" [")[0] == group_id
        for run in history.of_group(name, _SHOWN_RUNS)
        if run.begun.get("what") == PRUNING
    ]
    newest = sorted({run.number for run, _ in every})[-_SHOWN_RUNS:]
    for run, name in sorted(every, key=lambda item: item[0].number):
        if run.number in newest:
            topic = name.rpartition(" [")[2].removesuffix("]")
            yield Row(PRUNING, "info", f"topic {topic!r}: {_what_became_of(name, run)}")


def _what_became_of(name: str, run: RunRecord) -> str:
    outcome, dry = run.outcomes[name], " (dry run)" if run.begun.get("dry_run") else ""
    return f"run {run.run_id}{dry}: {outcome.outcome.value}: {outcome.reason} ({run.path})"


def _rows_of_prune_plan(layout: Layout, group_id: str) -> Iterator[Row]:
    plan_id = max(FILES.ids(layout.root / PRUNE_PLANS), default=None)
    if plan_id is None:
        return
    try:
        plan = load_plan(layout, plan_id, prunes=True)
    except KafkaGroupsError as error:
        yield Row(PRUNING, "info", str(error), "a new plan")
        return
    for item in plan.groups:
        if item.group_id == group_id:
            evidence = f"topic {item.topic!r}: planned in {plan_id}: {item.reason}"
            yield Row(PRUNING, "info", evidence, "a member that subscribes to it, or a commit")
    for kept in plan.kept:
        if kept.group_id == group_id:
            rule = f" (rule {kept.rule!r})" if kept.rule else ""
            evidence = f"topic {kept.topic!r}: kept ({kept.verdict}) in {plan_id}{rule}: {kept.reason}"
            yield Row(PRUNING, "info", evidence, BY_TOPIC[kept.verdict])


NOTICE = "a notice to its owner, and time; the task that notifies owners sends it"
TIME = "time, and then a new plan"
_NEW_PLAN = "a new plan judges it again"
_SHOWN_RUNS = 5
_BY_CODE = {
    "not_notified": (KeptName.NOTICE.value, NOTICE),
    "excluded": ("keep alive", TIME),
}


def rows_of_guards(layout: Layout, plan: DeletionPlan, request: ExplainRequest) -> Iterator[Row]:
    """Yield what keeps a group beside its own state: site, approval, stop, policy, newer snapshots, and records.

    A plan that names a protected group is refused as it is.
    """
    now, group_id, protects = utc_now(), request.group_id, request.protects
    if not protects(group_id) and (other := next(filter(protects, plan.group_ids), None)) is not None:
        yield Row("connection", "keeps", f"protects {other!r}, which the plan names too: it is refused", _NEW_PLAN)
    ledger = Ledger(layout, plan.kafka_cluster_id)
    yield from _rows_of_site(ledger, plan, group_id, request.floors)
    for stopped in (why_stopped(layout), request.why_stopped()):
        if stopped is not None:
            yield Row("stop", "keeps", stopped, "whoever stopped deletions")
    yield from _rows_of_newer_policy(layout, plan, request, now)
    seen: Mapping[str, SignOfLife] = {}
    try:
        in_use = in_use_since(ledger, plan)
        seen = ledger.seen([group_id], plan.idle_from)
    except KafkaGroupsError as error:
        yield Row("newer snapshots", "keeps", str(error), "remove the damaged snapshot, or make a new plan")
    else:
        if group_id in in_use:
            yield Row("newer snapshots", "keeps", in_use[group_id].reason, _NEW_PLAN)
    known = ledger.history(), ledger.wanted(), now
    kept = kept_by_records(layout, plan, plan.plan_id, *known, seen=seen)
    if (decision := kept.get(group_id)) is not None:
        check, change = _BY_CODE.get(decision.code, ("journal", _NEW_PLAN))
        yield Row(check, "keeps", decision.reason, change)


def _rows_of_site(ledger: Ledger, plan: DeletionPlan, group_id: str, floors: SiteFloors) -> Iterator[Row]:
    try:
        replace(floors, dry_run_only=False).require(plan, dry_run=False)  # that one has its row
    except PlanError as error:
        yield Row("site", "keeps", str(error), _NEW_PLAN)
    try:
        approval = require_approval(ledger, plan, floors.approval(None, plan))
    except KafkaGroupsError as error:
        yield Row("approval", "keeps", str(error), "an approval of this plan in Airflow, or a new plan")
        return
    if approval is not None and group_id in approval.excluded:
        yield Row("approval", "keeps", f"{approval.approved_by} kept it at the approval", _NEW_PLAN)


def _rows_of_newer_policy(layout: Layout, plan: DeletionPlan, request: ExplainRequest, now: datetime) -> Iterator[Row]:
    try:
        newer = request.policy_reader(plan.policy)()
        ruled_out = kept_by_newer_policy(plan, newer)
        if newer is not None:
            newer.require_cluster(layout.cluster)
            newer.quiet.require_over(now, plan.expires_at)
    except QuietTimeError as error:
        yield Row("quiet times", "keeps", str(error), "time")
    except KafkaGroupsError as error:
        yield Row("policy", "keeps", str(error), "a policy file that can be read, or a new plan")
        return
    if request.group_id in ruled_out:
        yield Row("policy", "keeps", ruled_out[request.group_id].reason, "an edit of the policy, or a new plan")


_BY_VERDICT: dict[str, str] = {
    VerdictName.UNREADABLE: "allow this user to describe the group and its topics, then take a snapshot",
    VerdictName.UNTOUCHABLE: "nothing: groups of this kind are never deleted",
    VerdictName.LIVE: "stop its consumers; the idle time begins then",
    VerdictName.NO_OFFSETS: "nothing: a group without a visible offset is never planned",
    VerdictName.MOVING: "stop what commits its offsets; the idle time begins then",
    VerdictName.SETTLING: "time: it is not idle for long enough, or not in enough snapshots",
    VerdictName.STALE: "a member or a commit",
}
_BY_PLAN: dict[str, str] = {
    KeptName.PROTECTED: "take its pattern out of the protected groups of the plan or of the connection",
    KeptName.EXCLUDED: "take its pattern out of exclude, or add one to include",
    KeptName.DOUBT: "a new snapshot, verdict and plan",
    KeptName.OVER_CAP: "a later plan, or a higher max_groups or max_share",
    KeptName.BY_RULE: "an edit of the rule, or another rule before it, and a new plan",
    KeptName.REPORTED: "the action delete in the rule, and a new plan",
    KeptName.WAITING: "wait, or relax the rule",
    KeptName.NOTICE: NOTICE,
}
BY_TOPIC = _BY_PLAN | {
    KeptTopic.MISSING: "nothing: brokers forget the offsets of a deleted topic by themselves",
    KeptTopic.SETTLING: "wait, or relax the rule",
    KeptTopic.GROUP_IDLE: "a commit of the group in a topic that it reads",
    KeptTopic.EXCLUDED: "take its pattern out of exclude, or end its keep-alive runs",
    KeptTopic.BY_RULE: "a rule with the action prune-topics that certainly matches it, and a new plan",
    KeptTopic.NOTICE: "a rule without a notice",
    KeptTopic.DOUBT: "time, and a new plan",
    KeptTopic.KIND: "nothing: topics of groups of this kind are never pruned",
}
_NOW = {
    "has_members": "stop its consumers",
    "not_empty": "stop its consumers",
    "moved": "nothing for this plan: a new one judges it again, from its new idle time",
    "offsets_unseen": "sight of these topics again (Describe on all topics), or a new plan",
    "not_in_backup": "back the plan up",
    "gone": "it is deleted already; restore brings it back, if it is in a backup",
}


def rows_on_record(layout: Layout, cluster_id: str | None, group_id: str, plan_id: str | None = None) -> Iterator[Row]:
    """Yield what is on record of a group, without asking a broker: ``explain`` and the pages in Airflow show it.

    :param plan_id: the plan. Default: the newest.
    """
    last = last_members(layout, [group_id], cluster_id).get(group_id)
    yield Row("last members", "info", "none in any snapshot" if last is None else last.sentence())
    try:
        sign = Ledger(layout, cluster_id).known([group_id]).signs().get(group_id)
    except KafkaGroupsError as error:
        yield Row("last sign of life", "info", f"not known: {error}", "the records as they were written")
    else:
        yield Row("last sign of life", "info", "none" if sign is None else sign.reset().reason)
    yield _row_of_verdict(layout, group_id)
    plan_id = plan_id or newest_plan(layout)
    if plan_id is None:
        yield Row("plan", "keeps", "there is no plan", "make one: plan")
    else:
        in_plan = find_in_plan(layout, plan_id, group_id)
        yield _row_of_plan(plan_id, in_plan)
        if in_plan is not None:
            yield from _rows_of_policy(layout, plan_id, in_plan)
    yield from _rows_of_journal(layout, cluster_id, plan_id, group_id)
    yield from rows_of_pruning(layout, cluster_id, group_id)


def explain_group(
    run: Callable[[Callable[[MaintenanceClient], Awaitable[Any]]], Any], layout: Layout, request: ExplainRequest
) -> tuple[dict[str, Any], list[Row]]:
    """Return whether ``apply`` would delete a group now, and the checks.

    :param run: runs an async function with a connected client.
    """
    group_id = request.group_id
    plan_id = request.plan_id or newest_plan(layout)
    in_plan = None if plan_id is None else find_in_plan(layout, plan_id, group_id)
    plan = load_plan(layout, plan_id) if plan_id is not None and isinstance(in_plan, PlannedGroup) else None
    cluster_id, reading, not_here, unseen = run(lambda admin: _read(admin, layout, group_id, plan, in_plan))
    rows = [*_rows_of_state(reading), *_rows_of_terms(request)]
    rows += rows_on_record(layout, cluster_id, group_id, plan_id)
    if plan is not None and not plan.judged:
        named = "its groups were named, and nobody has judged them: it cannot be applied"
        rows.append(Row("plan", "keeps", named, "name the group again, or another plan"))
    elif plan is not None and isinstance(in_plan, PlannedGroup):
        rows += [Row("plan", "keeps", not_here, "what the message names, or a new plan")] if not_here else []
        rows.append(_row_of_recheck(layout, in_plan, plan, reading, unseen))
        rows += rows_of_guards(layout, plan, request)
    keeps = [row.check for row in rows if row.finding == "keeps"]
    return {"group_id": group_id, "plan_id": plan_id, "would_be_deleted": not keeps, "kept_by": keeps}, rows


async def _read(
    admin: MaintenanceClient,
    layout: Layout,
    group_id: str,
    plan: DeletionPlan | None,
    found: PlannedGroup | KeptGroup | None,
) -> tuple[str | None, GroupReading, str | None, GroupOutcome | None]:
    """Return the cluster's id, the group, why the plan cannot be applied here and now, and what the group lacks."""
    listed = (await admin.list_groups()).require_complete()
    reading = (await read_groups(admin, [group_id], listed))[group_id]
    cluster_id, value, not_here, unseen = await admin.cluster_id(), reading.committed, None, dict[str, GroupOutcome]()
    if plan is not None:
        try:
            await require_here(admin, plan, cluster_id, utc_now())
            await require_all_seen(admin, plan)
        except PlanError as error:
            not_here = str(error)
    if plan is not None and isinstance(found, PlannedGroup) and value is not None:
        judged = partial(offsets_in_snapshot, layout, plan.snapshot_id)
        unseen = await asyncio.to_thread(by_unseen_offsets, judged, [(found.target, value)])
    return cluster_id, reading, not_here, unseen.get(group_id)


def _rows_of_state(reading: GroupReading) -> Iterator[Row]:
    group, read = reading.group, reading.committed
    if group is not None:
        if group.state is GroupState.DEAD:
            yield Row("state", "info", "it does not exist on this cluster", "check its id; restore brings it back")
            return
        clients = ", ".join(sorted({member.client_id for member in group.members})[:5])
        evidence = f"{group.state.value}, {group.type.value}, {len(group.members)} member(s) {clients}".strip()
        yield Row("state", "info", evidence)
    if read is not None:
        topics = [topic.topic for topic in read.topics]
        partitions = sum(topic.committed for topic in read.topics)
        yield Row("offsets", "info", f"{partitions} partition(s) of {len(topics)} topic(s): {', '.join(topics[:5])}")


def _rows_of_terms(request: ExplainRequest) -> Iterator[Row]:
    floors, another = request.floors, "another connection, or a change of this one"
    if request.protects(request.group_id):
        yield Row("connection", "keeps", "protects it (protected_groups)", another)
    elif request.read_only:
        yield Row("connection", "keeps", "is read-only", another)
    else:
        yield Row("connection", "deletes", "allows it")
    if floors.dry_run_only:
        yield Row("site", "keeps", "allows dry runs only (dry_run_only)", "whoever sets the site's floors")
    if floors.approved_above is not None:
        by = f" by {', '.join(sorted(floors.approvers))}" if floors.approvers else ""
        evidence = f"plans of more than {floors.approved_above} group(s) need an approval in Airflow{by}"
        yield Row("site", "info", evidence)


def _row_of_verdict(layout: Layout, group_id: str) -> Row:
    try:
        newest = latest_manifest(layout, to_judge=True).snapshot_id
        snapshot_id = newest_judged(layout) or newest
        every = load_verdicts(layout, snapshot_id)
    except KafkaGroupsError as error:
        return Row("verdict", "info", f"of the newest snapshot: none: {error}", "take a snapshot and judge it")
    found = list(Verdicts(every.table.filter(pc.equal(every.table["group_id"], literal(group_id))), every.judged_by))
    later = "" if snapshot_id == newest else f"; the newest snapshot, {newest}, is not judged"
    if not found:
        evidence = f"it is not in snapshot {snapshot_id}{later}"
        return Row("verdict", "info", evidence, "a new snapshot, if the group exists")
    (verdict,) = found
    since = "" if verdict.idle_since is None else f"; idle since {verdict.idle_since:%Y-%m-%d %H:%M:%S} UTC"
    evidence = f"{verdict.verdict} in snapshot {snapshot_id}: {verdict.reason}{since}{later}"
    return Row("verdict", "info", evidence, _BY_VERDICT.get(verdict.verdict, ""))


def _row_of_recheck(
    layout: Layout, found: PlannedGroup, plan: DeletionPlan, reading: GroupReading, unseen: GroupOutcome | None
) -> Row:
    try:
        if (backup := find_backup(layout, plan.plan_id)) is not None:
            require_backup_of(backup, plan)
    except BackupError as error:
        return Row("recheck", "keeps", str(error), "the backup as it was written, or a new plan")
    decision = decide(found.target, reading, None if backup is None else backup.entries.get(found.group_id))
    decision = unseen if unseen is not None and decision.code == Reason.MOVED else decision
    finding = "deletes" if decision.outcome is Outcome.WOULD_DELETE else "keeps"
    return Row("recheck", finding, decision.reason, _NOW.get(decision.code, ""))


def _rows_of_policy(layout: Layout, plan_id: str, found: PlannedGroup | KeptGroup) -> Iterator[Row]:
    policy = policy_of_plan(layout, plan_id)
    rule = next((rule for rule in policy.rules if rule.name == found.rule), None)
    if rule is not None and policy.file is not None:
        demands = (
            f"{rule.action.value}; idle for {show_duration(rule.min_idle_seconds)} in {rule.min_observations} snapshots"
        )
        demands += f", notice of {show_duration(rule.notice_seconds)}" if rule.notice_seconds else ""
        decided = f"rule {rule.name!r} of {policy.file.path} decided: {demands}"
        yield Row("policy", "info", decided, "an edit of it, or a rule before it that matches")
    if found.owner is not None:
        contact = policy.contact_of(found.owner)
        yield Row("owner", "info", found.owner + (f", contact {contact}" if contact else ""), "owners in the policy")
    if found.family is not None:
        yield Row("family", "info", found.family)


def _row_of_plan(plan_id: str, found: PlannedGroup | KeptGroup | None) -> Row:
    if found is None:
        return Row("plan", "keeps", f"plan {plan_id} does not name it", "a new snapshot, verdict and plan")
    verdict = getattr(found, "verdict", None)
    if verdict is None:
        return Row("plan", "deletes", f"planned: {found.reason}", "exclude it at the approval, or by a pattern")
    change = _BY_PLAN.get(verdict) or _BY_VERDICT.get(verdict, "")
    if found.reason.endswith(COUNTS_ANEW):  # excluded or in doubt by what is on record, and by no pattern
        change = TIME
    if verdict == KeptName.PROTECTED and protecting(ALWAYS_PROTECTED).protects(found.group_id):
        change = "nothing: groups of the lease are never deleted"
    return Row("plan", "keeps", f"kept ({verdict}): {found.reason}", change)


def _rows_of_journal(layout: Layout, cluster_id: str | None, plan_id: str | None, group_id: str) -> Iterator[Row]:
    history = read_history(layout, cluster_id)
    for run in history.of_group(group_id, _SHOWN_RUNS):
        yield Row("journal", "info", _what_became_of(group_id, run))
    own = plan_id is not None and group_id in history.idle_resets(plan_id)
    if not own and (earlier := history.idle_resets().get(group_id)) is not None:
        yield Row("journal", "info", f"{earlier.reason}: its idle time counts from then on")
