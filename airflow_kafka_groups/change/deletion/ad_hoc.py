"""Delete groups that were named: nobody has judged them, so the ledger is asked, and each group is watched for a while.

Groups that the first look finds in use are recorded before the watch begins, as a run of its own that deletes nothing:
a process that dies meanwhile must not forget them, since the next try may find them Empty for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.guards.exclusions import NamedSigns
from airflow_kafka_groups.change.deletion.recheck import decide
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import DeletionResult, DeletionRun
from airflow_kafka_groups.checks import check_seconds
from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.judge.policy.plan_policy import DAY_SECONDS, PlanPolicy
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.models import NAMED_TYPES, GroupOffsets, GroupState, GroupType
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan, save_plan
from airflow_kafka_groups.ledger.floors import NO_FLOORS, SiteFloors
from airflow_kafka_groups.ledger.journal import Journal, read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import DeletionReport, GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup, Target
from airflow_kafka_groups.ledger.run_records import shows_life
from airflow_kafka_groups.observe.cluster_view import HIDDEN_TOPICS, ClusterView, read_view
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.patterns import (
    ALWAYS_PROTECTED,
    DEFAULT_PROTECTED,
    EMPTY_ID,
    GroupFilter,
    check_group_ids,
    check_patterns,
)
from airflow_kafka_groups.observe.readings import read_groups
from airflow_kafka_groups.observe.snapshot.collect import require_after_other_folders, require_after_the_newest
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import new_id

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


def _record_first_look(
    layout: Layout, request: DeletionRequest, kafka_cluster_id: str | None, alive: Sequence[GroupOutcome]
) -> None:
    """Record the groups that were found in use, or gone; durable when this returns.

    Raises ``StorageError`` or ``JournalError``: then nothing may be deleted.
    """
    at = request.now()
    report = DeletionReport(
        plan_id=None,
        plan_digest=None,
        cluster=layout.cluster,
        dry_run=True,  # it sends nothing, so it stops no other run
        started_at=at,
        finished_at=at,
        outcomes=tuple(alive),
    )
    header = {
        "run_id": new_id(at),
        "request_id": request.request_id,
        "plan_id": None,
        "cluster": layout.cluster,
        "dry_run": True,
        "started_at": at.isoformat(),
        "actor": dict(request.actor),
    }
    history = read_history(layout, kafka_cluster_id)
    run = Journal(layout.base, kafka_cluster_id).begin(header, at, after=history)
    run.conclude(alive, at)
    run.end(alive, {**header, **report.summary(), "seconds": 0.0, "verification": None}, at)


OBSERVE_SECONDS = 60.0


async def delete_by_name(
    admin: MaintenanceClient,
    layout: Layout,
    group_ids: Iterable[str],
    request: DeletionRequest,
    *,
    observe_seconds: float = OBSERVE_SECONDS,
    protected: Iterable[str] = DEFAULT_PROTECTED,
    types: Iterable[str] = (),
    allow_hidden_topics: bool = False,
    ignore_missing: bool = True,
    ignore_signs_of_life: bool = False,
    floors: SiteFloors = NO_FLOORS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> DeletionResult:
    """Delete these groups if they are empty and do not move while they are watched.

    :param group_ids: the groups; duplicates count once.
    :param observe_seconds: time between the two readings, in seconds, above 0. Default 60.
    :param protected: patterns of groups that are kept even when they are named. Default ``DEFAULT_PROTECTED``.
    :param types: share and streams groups are kept unless their type is here. Default: none is.
    :param allow_hidden_topics: delete also where this user may not describe topics in general, so that groups may have
        offsets that nobody here has seen or backed up. Default false.
    :param ignore_missing: whether groups that do not exist are fine; those that an earlier try of the request deleted,
        or found gone, always are. Default true.
    :param ignore_signs_of_life: delete also groups that snapshots, deletions, keep-alive runs and restores show alive
        within the site's least idle time, or within a day where it has none. Default false.
    :param floors: what the site demands. Default: nothing.

    Raises ``ConfigurationError``, ``PlanError``, ``JournalError``, ``StorageError``, ``IncompleteListingError``,
    ``MaintenanceError`` for the record of a restore that is damaged, or ``SnapshotError`` for a recent snapshot that is
    damaged or a clock that is behind the newest one, before anything is deleted. Afterwards it never raises for a
    group: each has its outcome.
    """
    ids = check_group_ids(group_ids)
    floors.require_named(len(ids), dry_run=request.dry_run, ignore_signs_of_life=ignore_signs_of_life)
    signs = None if ignore_signs_of_life else NamedSigns(layout, floors.min_idle_seconds or DAY_SECONDS)
    seconds = check_seconds("observe_seconds", observe_seconds)
    patterns = GroupFilter(protected=(*ALWAYS_PROTECTED, EMPTY_ID, *check_patterns("protected", protected)))
    await asyncio.to_thread(require_after_the_newest, layout, request.now())
    async with request.lease() as lease:
        if not (allow_hidden_topics or await admin.sees_all_topics()):
            raise PlanError(HIDDEN_TOPICS)
        listings = (await admin.list_groups()).require_complete()
        floors.require_share(sum(group_id in listings for group_id in ids), len(listings), dry_run=request.dry_run)
        if not ignore_missing and (missing := [group_id for group_id in ids if group_id not in listings]):
            history = await asyncio.to_thread(read_history, layout, await admin.cluster_id())
            before = history.deletions(request.request_id)  # what an earlier try deleted does not exist any more
            gone = history.lives(request.request_id, gone=True)  # nor does what another program did meanwhile
            if missing := [group_id for group_id in missing if group_id not in before and group_id not in gone]:
                raise ConfigurationError("group_ids", missing, "these groups do not exist; nothing was deleted")
        outcomes = {id_: kept(id_, Reason.PROTECTED, why) for id_ in ids if (why := patterns.why_not(id_)) is not None}
        for kind in NAMED_TYPES.difference(types):
            why = f"it is a {kind.value} group: name its type, too, to delete it"
            of_kind = (id_ for id_ in ids if id_ in listings and listings[id_].type is kind and id_ not in outcomes)
            outcomes |= {id_: kept(id_, Reason.WRONG_TYPE, why) for id_ in of_kind}
        asked = [group_id for group_id in ids if group_id not in outcomes]
        cluster_id = await admin.cluster_id()
        await asyncio.to_thread(require_after_other_folders, layout, request.now(), cluster_id)
        ledger = Ledger(layout, cluster_id)
        await asyncio.to_thread(ledger.wanted)  # whoever restores a group from now on wants it to stay
        observed = list[tuple[Target, GroupOffsets]]()
        for start in range(0, len(asked), request.limits.chunk_size):
            safe, others = await _observe(admin, listings, asked[start : start + request.limits.chunk_size])
            if alive := list(filter(shows_life, others.values())):
                await asyncio.to_thread(_record_first_look, layout, request, cluster_id, alive)
            observed += safe
            outcomes |= others
        if signs is not None:
            names = [group.group_id for group, _ in observed]
            outcomes |= await asyncio.to_thread(signs.alive, cluster_id, names, request.now())
            observed = [(group, offsets) for group, offsets in observed if group.group_id not in outcomes]
        plan = None
        if observed:
            await sleep(seconds)
            if not request.dry_run:
                plan = await _back_up(admin, layout, observed, listings, request, allow_hidden_topics)
        run = DeletionRun(
            admin=admin,
            layout=layout,
            request=request,
            request_id=request.request_id,
            expected=[group for group, _ in observed],
            plan=plan,
            signs=signs,
            ledger=ledger,
            observed={group.group_id: offsets for group, offsets in observed},
            decided=outcomes,
            order=ids,
        )
        await run.delete(lease)
    return await run.finish()


async def _observe(
    admin: MaintenanceClient, listings: GroupListings, group_ids: Sequence[str]
) -> tuple[list[tuple[Target, GroupOffsets]], dict[str, GroupOutcome]]:
    """Read each group once: return what the safe ones have to look like still with their offsets, and the others."""
    observed: list[tuple[Target, GroupOffsets]] = []
    others: dict[str, GroupOutcome] = {}
    for group_id, reading in (await read_groups(admin, group_ids, listings)).items():
        listing, read = reading.listing, reading.committed
        group = Target(
            group_id=group_id,
            group_type=listing.type.value if listing else GroupType.UNKNOWN.value,
            protocol_type=listing.protocol_type if listing else "",
            fingerprint="" if read is None else fingerprint(read),
            partitions=0 if read is None else committed_partitions(read),
            group_epoch=None if reading.group is None else reading.group.group_epoch,
        )
        decision = decide(group, reading, None, needs_backup=False)
        if decision.outcome is Outcome.WOULD_DELETE and read is not None:
            observed.append((group, read))
        else:
            others[group_id] = decision
    return observed, others


async def _back_up(
    admin: MaintenanceClient,
    layout: Layout,
    observed: Sequence[tuple[Target, GroupOffsets]],
    listings: GroupListings,
    request: DeletionRequest,
    allow_hidden_topics: bool,
) -> DeletionPlan:
    now = request.now()
    cluster_id = await admin.cluster_id()
    if not cluster_id:
        raise PlanError("the cluster reports no id, so a backup could not be distinguished from another cluster's")
    view = await read_view(admin, ())
    groups = [group for group, _ in observed]
    plan = _plan(layout.cluster, cluster_id, groups, listings, now, allow_hidden_topics, view)
    await asyncio.to_thread(save_plan, layout, plan)
    await back_up_plan(admin, layout, plan, now=request.now, progress=request.observer.progress)
    return plan


def _plan(
    cluster: str,
    kafka_cluster_id: str,
    observed: Sequence[Target],
    listings: GroupListings,
    now: datetime,
    allow_hidden_topics: bool,
    view: ClusterView,
) -> DeletionPlan:
    groups = tuple(
        PlannedGroup(
            group_id=group.group_id,
            group_type=group.group_type,
            protocol_type=group.protocol_type,
            state=GroupState.EMPTY.value,
            partitions=group.partitions,
            idle_since=None,
            idle_seconds=None,
            reason="named in the request",
            fingerprint=group.fingerprint,
            group_epoch=group.group_epoch,
        )
        for group in observed
    )
    return DeletionPlan(
        plan_id=new_id(now),
        cluster=cluster,
        kafka_cluster_id=kafka_cluster_id,
        snapshot_id=NAMED_BY_HAND,
        created_at=now,
        expires_at=now + timedelta(seconds=DAY_SECONDS),
        policy=PlanPolicy(max_groups=max(len(groups), 1), max_share=1.0, allow_hidden_topics=allow_hidden_topics),
        counts={"found": len(listings), "planned": len(groups)},
        warnings=(),
        groups=groups,
        kept=(),
        view=view,
    )
