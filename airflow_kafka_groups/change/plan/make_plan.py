"""Plans of a clean-up, from the verdicts on a snapshot, the journal and the floors: checked, sorted and capped.

Caps truncate the plan instead of rejecting it: the longest idle groups come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_groups.change.lease import RECENT, other_leases
from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.change.plan.objections import Objections, RuledGroups, keep
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.notice import Notice, without_notifier
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS, OwnerRules
from airflow_kafka_groups.judge.policy.plan_policy import ARGUMENTS_RULE, PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.retention import against_retention
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.ledger import Known, Ledger
from airflow_kafka_groups.ledger.notice_book import read_notices
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroups
from airflow_kafka_groups.ledger.verdicts import JudgedBy, Verdict, Verdicts, load_verdicts
from airflow_kafka_groups.observe.cluster_view import HIDDEN_TOPICS, recorded_view
from airflow_kafka_groups.observe.snapshot.reader import GroupSummary, SnapshotReader, latest_manifest
from airflow_kafka_groups.shown import first_of
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.layout import Layout, StoragePath, utc_now
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, new_id

_SHORT_IDLE_SECONDS = 3_600.0
NOTHING_KNOWN = Known()


def make_plan(
    verdicts: Verdicts,
    snapshot: SnapshotReader,
    policy: PlanPolicy,
    now: datetime,
    known: Known = NOTHING_KNOWN,
    notes: Sequence[str] = (),
    *,
    owners: OwnerRules = NO_OWNERS,
    notices: Mapping[str, Notice] | None = None,
) -> DeletionPlan:
    """Make a plan, which may be empty.

    :param known: what the ledger knows: deletions, proofs and signs of life restart idle times. Default: nothing.
    :param notes: warnings of the caller, such as the floors of the site that changed the policy. Default: none.

    Raises ``PlanError`` if the snapshot is incomplete, too old, lacks its Kafka cluster id, if topics may be hidden
    from its user, or if the job bridged longer gaps than the policy allows or did not read the log of commits that the
    policy requires.
    """
    manifest = snapshot.manifest
    expires_at = require_usable(manifest, policy, now)
    if (group_id := verdicts.twice()) is not None:
        raise PlanError(f"group {group_id!r} has two verdicts: run the Spark job again")
    _require_judged(manifest, policy, verdicts.judged_by)
    ruled = RuledGroups(verdicts, snapshot, policy, owners)
    refused, resets = policy.groups.refused(verdicts.group_ids), known.history.idle_resets()
    objections = Objections(ruled, policy, refused, resets, notices or {}, known)
    by_verdict: Counter[str] = Counter()
    candidates: list[Ranked] = []
    found: dict[int, GroupSummary] = {}
    kept: list[KeptGroup] = []
    strangers = 0
    for number, (verdict, group) in enumerate(_side_by_side(verdicts, snapshot.summaries())):
        by_verdict[verdict.verdict] += 1
        ruling = ruled.rulings[number]
        strangers += group is None
        against = objections.by_record(number, verdict)
        if against is None and group is None:
            against = keep(verdict.group_id, KeptName.DOUBT, "judged, but not in the snapshot")
        elif against is None and group is not None:
            against = objections.by_snapshot(number, verdict, group)
        if against is not None:
            kept.append(against)
        elif group is not None:
            candidates.append(Ranked(group.group_id, verdict.idle_seconds, ruling.rule.name, ruling.undecided, number))
            found[number] = group
    unjudged = max(manifest.groups - (len(verdicts) - strangers), 0)
    planned, over, warnings = capped(candidates, manifest.groups, policy)
    kept.extend(over)
    fast, unknown_growth = ruled.growth()
    grown = first_of([each.sentence() for each in fast], "families grow faster than is allowed")
    warnings += [*_short_idle_times(planned, ruled), *grown, *unknown_growth]
    if unjudged:
        warnings.append(f"{unjudged} group(s) of the snapshot have no verdict: they are kept")
    counts = _counts(manifest, by_verdict, kept, len(planned), unjudged)
    evidence = verdicts.judged_by.evidence
    return DeletionPlan(
        plan_id=new_id(now),
        cluster=manifest.cluster,
        kafka_cluster_id=manifest.kafka_cluster_id or "",
        snapshot_id=manifest.snapshot_id,
        created_at=now,
        expires_at=expires_at,
        policy=policy,
        counts=counts,
        warnings=(*notes, *warnings),
        groups=_planned(planned, found, verdicts, ruled),
        kept=[ruled.describe(group) for group in kept],
        view=recorded_view(manifest.view, f"snapshot {manifest.snapshot_id}"),
        evidence={**evidence.to_json(), "sentence": evidence.sentence(manifest, policy.longest_idle_seconds)},
        families=ruled.families(manifest.observed_at, {candidate.number for candidate in planned}, fast),
    )


def _require_judged(manifest: SnapshotManifest, policy: PlanPolicy, judged_by: JudgedBy) -> None:
    gap, allowed = judged_by.max_gap_seconds, policy.max_gap_seconds
    if allowed and not (gap and gap <= allowed):
        used = "an unknown --max-gap-seconds" if gap is None else f"--max-gap-seconds {gap:g}{'' if gap else ' (none)'}"
        raise PlanError(
            f"snapshot {manifest.snapshot_id} was judged with {used}; the policy's max_gap_seconds is {allowed:g}: run "
            "the Spark job with that value"
        )
    missing = judged_by.evidence.gap(manifest, policy.longest_idle_seconds)
    if policy.require_commit_log and missing:
        raise PlanError(
            f"snapshot {manifest.snapshot_id}: {missing}. The policy requires the log of commits (require_commit_log)"
        )


def require_usable(manifest: SnapshotManifest, policy: PlanPolicy, now: datetime) -> datetime:
    """Return the time until which a snapshot may be planned from, or raise ``PlanError``."""
    snapshot_id = manifest.snapshot_id
    if not manifest.complete:
        missing = ", ".join(manifest.missing_brokers) or "unknown"
        raise PlanError(f"snapshot {snapshot_id} is incomplete (missing from the listing: {missing}): take a new one")
    if not manifest.kafka_cluster_id:
        raise PlanError(f"snapshot {snapshot_id} lacks the id of its Kafka cluster: it cannot be planned from")
    if not (manifest.sees_all_topics or policy.allow_hidden_topics):
        raise PlanError(f"snapshot {snapshot_id}: {HIDDEN_TOPICS}")
    since, clocks = manifest.started_at - timedelta(seconds=policy.longest_idle_seconds), manifest.clocks
    off = clocks is not None and clocks.off_seconds > policy.shortest_idle_seconds
    if off and clocks is not None and (why := clocks.why_off(since)):
        raise PlanError(f"snapshot {snapshot_id}: {why}. By more than an idle time, nothing is planned")
    if manifest.observed_at > now + CLOCK_SLACK:
        raise PlanError(f"snapshot {snapshot_id} is from the future ({manifest.observed_at}): check the clocks")
    # The age counts from when the first part of the snapshot was read.
    expires_at = manifest.started_at + timedelta(seconds=policy.max_plan_age_seconds)
    if now >= expires_at:
        age, most = (now - manifest.started_at).total_seconds(), policy.max_plan_age_seconds
        which = f"{snapshot_id}, of {show_duration(round(age))} ago where {show_duration(most)} is the limit,"
        raise PlanError(f"snapshot {which} is older than max_plan_age_seconds allows: take a new one")
    return expires_at


def _side_by_side(verdicts: Verdicts, groups: Iterator[GroupSummary]) -> Iterator[tuple[Verdict, GroupSummary | None]]:
    """Yield each verdict with the group of the snapshot that it is about. Both are sorted by group id."""
    group = next(groups, None)
    for verdict in verdicts:
        while group is not None and group.group_id < verdict.group_id:
            group = next(groups, None)
        yield verdict, group if group is not None and group.group_id == verdict.group_id else None


def _planned(
    ranked: Sequence[Ranked], found: Mapping[int, GroupSummary], verdicts: Verdicts, ruled: RuledGroups
) -> PlannedGroups:
    """Return the columns of the planned groups: what was found about each, what was judged, and by which rule.

    :param found: what the snapshot shows of each, by its place.
    """
    import pyarrow as pa

    schema = PlannedGroups.schema()
    numbers = [each.number for each in ranked]
    judged = verdicts.table.take(column(numbers, pa.int64()))
    columns: dict[str, Any] = {name: judged[name] for name in schema.names if name in judged.column_names}
    for name in ("group_id", "group_type", "protocol_type", "state", "partitions", "fingerprint", "group_epoch"):
        columns[name] = column([getattr(found[number], name) for number in numbers], schema.field(name).type)
    for name, values in ruled.columns(numbers, judged["reason"].to_pylist()).items():
        columns[name] = column(values, pa.string())
    for name in ("topic", "observations"):  # of topics only
        columns[name] = pa.nulls(len(numbers), schema.field(name).type)
    return PlannedGroups(pa.table([columns[name] for name in schema.names], schema=schema).combine_chunks())


def _short_idle_times(planned: Sequence[Ranked], ruled: RuledGroups) -> list[str]:
    """Return a warning if a rule by which a group is planned requires a short idle time only."""
    shortest = min((ruled.rulings[each.number].rule.min_idle_seconds for each in planned), default=_SHORT_IDLE_SECONDS)
    if shortest >= _SHORT_IDLE_SECONDS:
        return []
    short = show_duration(shortest)
    return [f"min_idle_seconds is {short}: groups whose consumers are briefly down look stale. A week is 7d"]


def _counts(
    manifest: SnapshotManifest, by_verdict: Counter[str], kept: Sequence[KeptGroup], planned: int, unjudged: int
) -> dict[str, int]:
    by_reason = Counter(group.verdict for group in kept)
    counts = {"found": manifest.groups, **{name.value: by_verdict.pop(name, 0) for name in VerdictName}}
    if by_verdict:
        counts["other"] = sum(by_verdict.values())
    counts.update({name.value: by_reason.get(name, 0) for name in KeptName})
    return {**counts, "unjudged": unjudged, "planned": planned}


@collection_paused()
def plan_snapshot(
    layout: Layout,
    policy: PlanPolicy,
    floors: SiteFloors,
    *,
    snapshot_id: str | None,
    lease_group_id: str,
    file: PolicyFile | None = None,
    offsets_retention_minutes: int | None = None,
    notifies: bool = False,
) -> tuple[DeletionPlan, StoragePath]:
    """Make a plan within the site's floors, and write it; return it with its path.

    :param policy: the limits that were asked for.
    :param floors: what the site demands; it counts for a policy file, too.
    :param snapshot_id: the judged snapshot; ``None`` for the newest complete one.
    :param lease_group_id: the lease of the connection; others on the cluster are a warning.
    :param file: the policy file whose rules decide. Default: none, so that the policy's own idle time counts.
    :param offsets_retention_minutes: the brokers' setting. Default: what the snapshot has of it.
    :param notifies: whether owners are notified, whatever the policy has. Default: by ``PlanPolicy.notify`` only.

    Raises ``PlanError``, ``PolicyError`` for a policy file of other clusters, ``SnapshotError``, ``JournalError``,
    ``StorageError``, or ``MaintenanceError`` for a damaged record of a keep-alive run; no plan is written then.
    """
    bounded, bound = floors.within(policy, file, layout.cluster)
    judged = snapshot_id or latest_manifest(layout, to_judge=True).snapshot_id
    snapshot = SnapshotReader(layout, judged)
    retention = offsets_retention_minutes or snapshot.manifest.offsets_retention_minutes
    notes = [
        *bound,
        *floors.warnings(),
        *_against_retention(bounded, retention, file),
        *(file.warnings if file else ()),
        *([] if notifies else without_notifier(bounded.rules, bounded.notify)),
    ]
    cluster_id = snapshot.manifest.kafka_cluster_id
    known = NOTHING_KNOWN  # without an id nothing is planned
    if cluster_id:  # before the verdicts are read: a pruning spares records for the judgement's sake
        since = snapshot.manifest.started_at - timedelta(seconds=bounded.longest_idle_seconds) - CLOCK_SLACK
        known = Ledger(layout, cluster_id).known(since=since)
        known.require_read()
    verdicts = load_verdicts(layout, judged)
    now = utc_now()
    others = other_leases([*verdicts.group_ids, *known.history.leases(now - RECENT)], lease_group_id)
    plan = make_plan(
        verdicts,
        snapshot,
        bounded,
        now,
        known,
        (*notes, *others),
        owners=NO_OWNERS if file is None else file.owners,
        notices=read_notices(layout, cluster_id, bounded.rules),
    )
    return plan, save_plan(layout, plan)


def _against_retention(policy: PlanPolicy, retention_minutes: int | None, file: PolicyFile | None) -> list[str]:
    """Return what the brokers' offsets retention means for the policy. Raises ``PlanError`` for what cannot be."""
    places = {ARGUMENTS_RULE: "min_idle_seconds"}
    if file is not None:
        places = {name: f"{place}: rule {name!r}" for name, place in file.places.items()}
    errors, warnings = against_retention(policy.every_rule, retention_minutes, places)
    if errors:
        raise PlanError("\n".join(errors))
    return warnings
