"""Making a plan from verdicts: stale groups are checked again, sorted, and limited to the caps.

A group is planned only if all of this holds: its verdict is ``stale``; the verdict is about this snapshot's observation
of it; it was idle and observed for as long as the *policy* requires (not only the job); no pattern keeps it; in the
snapshot it was Empty, without members, of an eligible type, and read without errors. All others are kept, with the
reason.

Caps truncate the plan instead of rejecting it: the longest idle groups come first, so that a large clean-up proceeds
run by run. Exceeding ``max_share`` also adds a warning, because most of a cluster looking stale is suspicious.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from airflow_kafka_groups.admin.arrow_values import column
from airflow_kafka_groups.contracts.group_types import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES
from airflow_kafka_groups.contracts.ids import new_id
from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.contracts.verdicts import KeptName, VerdictName
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.maintenance.cluster_view import recorded_view
from airflow_kafka_groups.maintenance.journal.history import History, IdleReset
from airflow_kafka_groups.maintenance.keep_alive.records import KeptAlive
from airflow_kafka_groups.maintenance.patterns import GroupFilter
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.plan.plan_rows import KeptGroup, PlannedGroup, PlannedGroups, planned_schema
from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy
from airflow_kafka_groups.maintenance.plan.verdicts import JudgedBy, Verdict, Verdicts
from airflow_kafka_groups.maintenance.snapshot.reader import GroupSummary, SnapshotReader
from airflow_kafka_groups.models import GroupState

HIDDEN_TOPICS = (
    "this user may not describe all topics, and brokers omit the offsets of other topics without notice: groups may "
    "have offsets that are not visible. Allow Describe on all topics, or set allow_hidden_topics"
)
_SHORT_IDLE_SECONDS = 3_600.0
_CLOCK_SLACK = timedelta(minutes=5)


def make_plan(
    verdicts: Verdicts | Iterable[Verdict],
    snapshot: SnapshotReader,
    policy: PlanPolicy,
    now: datetime,
    history: History | None = None,
    notes: Sequence[str] = (),
    kept_alive: Mapping[str, KeptAlive] | None = None,
) -> DeletionPlan:
    """Make a plan, which may be empty.

    :param verdicts: the job's verdicts about this snapshot.
    :param snapshot: the judged snapshot.
    :param policy: the limits of the plan.
    :param now: the current time, with a zone.
    :param history: the journal: every deletion and every proof of life resets a group's idle time. Default: none.
    :param notes: warnings of the caller, such as the floors of the site that changed the policy. Default: none.
    :param kept_alive: the groups of keep-alive runs, which are not deleted. Default: none.

    Raises ``PlanError`` if the snapshot is incomplete, too old, lacks its Kafka cluster id, if topics may be hidden
    from its user, or if the job bridged longer gaps than the policy allows or did not read the log of commits that the
    policy requires.
    """
    manifest = snapshot.manifest
    expires_at = _require_usable(manifest, policy, now)
    judged = verdicts if isinstance(verdicts, Verdicts) else Verdicts.of(verdicts)
    if (group_id := judged.twice()) is not None:
        raise PlanError(f"group {group_id!r} has two verdicts: run the Spark job again")
    _require_judged(manifest, policy, judged.judged_by)
    by_verdict: Counter[str] = Counter()
    candidates: list[_Candidate] = []
    kept: list[KeptGroup] = []
    strangers = 0
    patterns = policy.groups
    resets = {} if history is None else history.idle_resets()
    for number, (verdict, group) in enumerate(_side_by_side(judged, snapshot.summaries())):
        by_verdict[verdict.verdict] += 1
        keep = (
            _keep_by_verdict(verdict, policy, patterns)
            or _keep_alive(verdict, policy, kept_alive or {})
            or _keep_reset(verdict, policy, resets)
        )
        if keep is not None:
            kept.append(keep)
        elif group is None:
            strangers += 1
            kept.append(_keep(verdict.group_id, KeptName.DOUBT, "judged, but not in the snapshot"))
        elif (doubt := _doubt(group, verdict)) is not None:
            kept.append(_keep(group.group_id, KeptName.DOUBT, doubt))
        else:
            candidates.append(_Candidate(group.group_id, verdict.idle_seconds, number, group))
    unjudged = max(manifest.groups - (len(judged) - strangers), 0)
    planned, over, warnings = _capped(candidates, manifest.groups, policy)
    if planned and policy.min_idle_seconds < _SHORT_IDLE_SECONDS:
        warnings.append(
            f"min_idle_seconds is {policy.min_idle_seconds:g}: groups whose consumers are briefly down "
            "look stale. A week is 604800"
        )
    if unjudged:
        warnings.append(f"{unjudged} group(s) of the snapshot have no verdict: they are kept")
    kept.extend(over)
    counts = _counts(manifest, by_verdict, kept, len(planned), unjudged)
    evidence = judged.judged_by.evidence
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
        groups=_planned(planned, judged),
        kept=kept,
        view=recorded_view(manifest.view, f"snapshot {manifest.snapshot_id}"),
        evidence={**evidence.to_json(), "sentence": evidence.sentence(manifest, policy.min_idle_seconds)},
    )


def _require_judged(manifest: SnapshotManifest, policy: PlanPolicy, judged_by: JudgedBy) -> None:
    """Raise ``PlanError`` if the job judged by less than the policy demands."""
    gap, allowed = judged_by.max_gap_seconds, policy.max_gap_seconds
    if allowed and not (gap and gap <= allowed):
        used = "an unknown --max-gap-seconds" if gap is None else f"--max-gap-seconds {gap:g}{'' if gap else ' (none)'}"
        raise PlanError(
            f"snapshot {manifest.snapshot_id} was judged with {used}; the policy's max_gap_seconds is {allowed:g}: run "
            "the Spark job with that value"
        )
    missing = judged_by.evidence.gap(manifest, policy.min_idle_seconds)
    if policy.require_commit_log and missing:
        raise PlanError(
            f"snapshot {manifest.snapshot_id}: {missing}. The policy requires the log of commits (require_commit_log)"
        )


def _require_usable(manifest: SnapshotManifest, policy: PlanPolicy, now: datetime) -> datetime:
    """Return the time until which the snapshot may be used, or raise ``PlanError``."""
    snapshot_id = manifest.snapshot_id
    if not manifest.complete:
        missing = ", ".join(manifest.missing_brokers) or "unknown"
        raise PlanError(f"snapshot {snapshot_id} is incomplete (missing from the listing: {missing}): take a new one")
    if not manifest.kafka_cluster_id:
        raise PlanError(f"snapshot {snapshot_id} lacks the id of its Kafka cluster: it cannot be planned from")
    if not (manifest.sees_all_topics or policy.allow_hidden_topics):
        raise PlanError(f"snapshot {snapshot_id}: {HIDDEN_TOPICS}")
    if manifest.observed_at > now + _CLOCK_SLACK:
        raise PlanError(f"snapshot {snapshot_id} is from the future ({manifest.observed_at}): check the clocks")
    # The age counts from when the first part of the snapshot was read.
    expires_at = manifest.started_at + timedelta(seconds=policy.max_plan_age_seconds)
    if now >= expires_at:
        raise PlanError(f"snapshot {snapshot_id} is older than max_plan_age_seconds allows: take a new one")
    return expires_at


class _Candidate(NamedTuple):
    """A group that nothing speaks against: where its verdict is, and what the snapshot has of it."""

    group_id: str
    idle_seconds: float | None
    number: int
    summary: GroupSummary


def _side_by_side(verdicts: Verdicts, groups: Iterator[GroupSummary]) -> Iterator[tuple[Verdict, GroupSummary | None]]:
    """Yield each verdict with the group of the snapshot that it is about. Both are sorted by group id."""
    group = next(groups, None)
    for verdict in verdicts:
        while group is not None and group.group_id < verdict.group_id:
            group = next(groups, None)
        yield verdict, group if group is not None and group.group_id == verdict.group_id else None


def _keep(group_id: str, why: str, reason: str) -> KeptGroup:
    return KeptGroup(group_id=group_id, verdict=str(why), reason=reason)


def _keep_by_verdict(verdict: Verdict, policy: PlanPolicy, groups: GroupFilter) -> KeptGroup | None:
    keep = partial(_keep, verdict.group_id)
    if verdict.verdict != VerdictName.STALE:
        return keep(verdict.verdict, verdict.reason)
    if (reason := groups.why_not(verdict.group_id)) is not None:
        return keep(KeptName.PROTECTED if reason.startswith("protected") else KeptName.EXCLUDED, reason)
    idle = verdict.idle_seconds
    if idle is None or not math.isfinite(idle) or verdict.idle_since is None:
        return keep(KeptName.DOUBT, "the verdict lacks the group's idle time")
    # Both must agree; if the job contradicts itself, the shorter time counts.
    idle = min(idle, (verdict.observed_at - verdict.idle_since).total_seconds())
    if idle < policy.min_idle_seconds:
        return keep(KeptName.DOUBT, f"idle for {idle:.0f} s; the policy requires {policy.min_idle_seconds:.0f} s")
    if verdict.observations < policy.min_observations:
        return keep(
            KeptName.DOUBT, f"seen in {verdict.observations} snapshot(s); the policy requires {policy.min_observations}"
        )
    return None


def _keep_alive(verdict: Verdict, policy: PlanPolicy, kept_alive: Mapping[str, KeptAlive]) -> KeptGroup | None:
    """Keep what somebody keeps alive on purpose; afterwards, its idle time counts from the last such run."""
    kept = kept_alive.get(verdict.group_id)
    idle = timedelta(seconds=policy.min_idle_seconds)
    if kept is None or verdict.observed_at >= max(kept.until, kept.at + idle):
        return None
    reason = f"a keep-alive run of {kept.at.isoformat()} wants it to stay: its idle time counts from then on"
    return _keep(verdict.group_id, KeptName.EXCLUDED, reason)


def _keep_reset(verdict: Verdict, policy: PlanPolicy, resets: Mapping[str, IdleReset]) -> KeptGroup | None:
    """Keep what was deleted or found in use too short a while ago; its snapshots may not show it."""
    reset = resets.get(verdict.group_id)
    if reset is None or (verdict.observed_at - reset.at).total_seconds() >= policy.min_idle_seconds:
        return None
    return _keep(verdict.group_id, KeptName.DOUBT, f"{reset.reason}: its idle time counts from then on")


def _doubt(group: GroupSummary, verdict: Verdict) -> str | None:
    """Return the objection in the snapshot to deleting the group, or ``None``."""
    if group.error is not None:
        return f"could not be read: {group.error}"
    if verdict.observed_at != group.observed_at:
        return "the verdict is about another observation"
    if group.group_type not in JUDGED_TYPES:
        return f"groups of type {group.group_type!r} are not eligible"
    if group.protocol_type not in ELIGIBLE_PROTOCOL_TYPES:
        return f"its protocol type is {group.protocol_type!r}: another program stores its state in it"
    if group.state != GroupState.EMPTY.value:
        return f"its state was {group.state}"
    if group.members != 0:
        return "it had members, or their number is unknown"
    if group.partitions == 0:
        return "no committed offset is visible"
    return None


def _planned(candidates: Sequence[_Candidate], verdicts: Verdicts) -> PlannedGroups:
    """Return the columns of the planned groups: what was found about each, and what was judged."""
    import pyarrow as pa

    schema = planned_schema()
    judged = verdicts.table.take(column([candidate.number for candidate in candidates], pa.int64()))
    columns = {name: judged[name] for name in schema.names if name in judged.column_names}
    for name in ("group_id", "group_type", "protocol_type", "state", "partitions", "fingerprint"):
        values = [getattr(candidate.summary, name) for candidate in candidates]
        columns[name] = column(values, schema.field(name).type)
    return PlannedGroups(pa.table([columns[name] for name in schema.names], schema=schema).combine_chunks())


_Ranked = TypeVar("_Ranked", "_Candidate", PlannedGroup)


def _capped(
    planned: Sequence[_Ranked], found: int, policy: PlanPolicy
) -> tuple[list[_Ranked], list[KeptGroup], list[str]]:
    """Apply the caps, the longest idle first; return the planned groups, the others, and warnings."""
    longest_first = sorted(planned, key=lambda group: (-(group.idle_seconds or 0.0), group.group_id))
    by_share = math.floor(found * policy.max_share + 1e-9)
    allowed = min(policy.max_groups, by_share)
    warnings = []
    if len(planned) > by_share:
        warnings.append(
            f"{len(planned)} of {found} groups are stale, more than max_share {policy.max_share:g} allows: the "
            f"{allowed} longest idle are planned. Check that this cluster's consumers are not merely down"
        )
    if len(planned) > policy.max_groups:
        warnings.append(f"{len(planned)} groups are stale; max_groups allows {policy.max_groups} per plan")
    reason = f"stale, but over the plan's cap of {allowed} group(s): left for a later plan"
    over = [
        KeptGroup(group_id=g.group_id, verdict=KeptName.OVER_CAP.value, reason=reason) for g in longest_first[allowed:]
    ]
    return longest_first[:allowed], over, warnings


def _counts(
    manifest: SnapshotManifest, by_verdict: Counter[str], kept: Sequence[KeptGroup], planned: int, unjudged: int
) -> dict[str, int]:
    by_reason = Counter(group.verdict for group in kept)
    counts = {"found": manifest.groups, **{name.value: by_verdict.pop(name, 0) for name in VerdictName}}
    if by_verdict:
        counts["other"] = sum(by_verdict.values())
    counts.update({name.value: by_reason.get(name, 0) for name in KeptName})
    return {**counts, "unjudged": unjudged, "planned": planned}
