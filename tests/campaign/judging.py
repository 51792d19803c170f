"""Snapshots of the model, and verdicts on them by the Spark job's reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.observe.fingerprint import committed_partitions, fingerprint
from airflow_kafka_groups.observe.readings import read_offsets
from airflow_kafka_groups.observe.snapshot.broker_clocks import ClockMarks, compared
from airflow_kafka_groups.observe.snapshot.reader import GroupSummary
from airflow_kafka_groups.observe.snapshot.table import GroupFacts, GroupRows, write_rows
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import BrokerClocks, SnapshotManifest
from airflow_kafka_groups.storage.paths import new_id
from tests.campaign.cluster import ModelAdmin
from tests.campaign.process import Process
from tests.campaign.world import MIN_IDLE, World
from tests.fakes.groups import CLUSTER_ID, NOW
from tests.fakes.snapshot_groups import NO_TABLE, SnapshotGroup
from tests.fakes.verdicts import VerdictRow
from tests.histories.reference import Observation, judge_slowly

CLUSTER = "prod"


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """A snapshot in memory, with the parts of ``SnapshotReader`` that a plan uses.

    :param last_commits: when each group committed last by the log of commits, as its broker's clock has it; empty where
        it is not read.
    """

    manifest: SnapshotManifest
    rows: dict[str, SnapshotGroup]
    clock: float
    last_commits: dict[str, float]

    def summaries(self) -> Iterator[GroupSummary]:
        for _, row in sorted(self.rows.items()):
            yield GroupSummary(
                group_id=row.group_id,
                group_type=row.group_type,
                protocol_type=row.protocol_type,
                state=row.state,
                members=row.members,
                group_epoch=row.group_epoch,
                observed_at=row.observed_at,
                error=row.errors[0] if row.errors else None,
                partitions=committed_partitions(row.offsets),
                fingerprint=fingerprint(row.offsets),
            )


async def take(world: World, process: Process, admin: ModelAdmin) -> None:
    """Take a snapshot, and note what it proves of each group."""
    started_at = process.now()
    listings = await admin.list_groups()
    ids = list(listings)
    described = await admin.describe_consumer_groups(ids)
    offsets = {result.group_id: result async for result in read_offsets(admin, ids, require_stable=False)}
    at = process.now()
    rows: dict[str, SnapshotGroup] = {}
    for group_id in ids:
        of_group, of_offsets = described.get(group_id), offsets[group_id]
        errors = [str(found.error) for found in (of_group, of_offsets) if found is not None and found.error]
        value = of_group.value if of_group is not None else None
        rows[group_id] = SnapshotGroup(
            group_id=group_id,
            group_type=listings[group_id].type.value,
            protocol_type=listings[group_id].protocol_type,
            state=value.state.value if value is not None else listings[group_id].state.value,
            members=len(value.members) if value is not None else None,
            coordinator=1,
            observed_at=at,
            offsets=of_offsets.value or GroupOffsets.from_mapping(group_id, {}),
            errors=tuple(errors if of_group is not None else [*errors, "not described"]),
            group_epoch=value.group_epoch if value is not None else None,
        )
    manifest = replace(_manifest(started_at, at, listings.complete, rows), clocks=_clocks(world, process))
    commits = {group_id: max(times) for group_id, times in world.commits.items()} if world.reads_commits else {}
    _note_lives(world, rows, commits)
    stamped = {group_id: at + world.broker_off for group_id, at in commits.items()}
    world.snapshots.append(ModelSnapshot(manifest, rows, world.clock, stamped))


def _clocks(world: World, process: Process) -> BrokerClocks:
    """Compare the clocks by the log of commits, here of one partition."""
    times = [at for of_group in world.commits.values() for at in of_group]
    newest = {0: NOW + timedelta(seconds=max(times) + world.broker_off)} if times else {}
    marks = ClockMarks(at=process.now(), until=process.now(), ends={0: len(times)}, newest=newest)
    return compared(marks, world.snapshots[-1].manifest.clocks if world.snapshots else None)


def write_snapshot(layout: Layout, snapshot: ModelSnapshot) -> None:
    """Store a snapshot: a plan is refused whose snapshot has no manifest, and a backup reads the topics in it."""
    table, manifest = GroupRows(), snapshot.manifest
    for row in snapshot.rows.values():
        facts = GroupFacts(*(getattr(row, name) for name in GroupFacts._fields))
        read = None if row.errors else row.offsets
        table.add(row.observed_at, read, facts=facts, error=row.errors[0] if row.errors else None)
    files = write_rows(layout, manifest.snapshot_id, table)
    stored = replace(manifest, rows=sum(file.rows for file in files), files=files)
    write_json(layout.manifests, f"{manifest.snapshot_id}.json", stored.to_json())


def _note_lives(world: World, rows: dict[str, SnapshotGroup], commits: dict[str, float]) -> None:
    for group_id, row in rows.items():
        before = _last_read(world.snapshots, group_id)
        moved = before is not None and not row.errors and _held(before) != _held(row)
        if row.members or moved:
            world.lives[group_id].append((world.clock, "snapshot"))
        if group_id in commits:
            world.lives[group_id].append((commits[group_id], "snapshot"))


def _held(row: SnapshotGroup) -> tuple[Any, ...]:
    return dict(row.offsets.items()), row.group_epoch


def _last_read(snapshots: list[ModelSnapshot], group_id: str) -> SnapshotGroup | None:
    for snapshot in reversed(snapshots):
        row = snapshot.rows.get(group_id)
        if row is not None and not row.errors:
            return row
    return None


def verdicts(
    snapshots: list[ModelSnapshot], newest: ModelSnapshot, how: int, *, min_idle: float = MIN_IDLE
) -> list[VerdictRow]:
    """Judge every group of a snapshot.

    :param how: 0 as the job does; 1 by a job with other settings; 2 by one that calls groups with members stale.
    """
    policy = StalenessPolicy(min_idle_seconds=60.0 if how == 1 else min_idle)
    complete = [snapshot.manifest.complete or snapshot is newest for snapshot in snapshots]
    places = list(accumulate(complete, initial=0))[:-1]  # of an incomplete one: that of the complete one after it
    found = []
    for group_id, row in newest.rows.items():
        seen = [
            _observed(place, snapshot.rows[group_id], complete=counts)
            for place, counts, snapshot in zip(places, complete, snapshots, strict=True)
            if group_id in snapshot.rows
        ]
        judged = judge_slowly(seen, sum(complete) - 1, policy)
        if judged is not None:
            since = _later(judged["idle_since"], group_id, newest)
            found.append(_verdict(row, judged, since, policy, how))
    return found


def _later(since: datetime | None, group_id: str, newest: ModelSnapshot) -> datetime | None:
    """Let an idle time begin anew at a commit in the log."""
    if since is None or group_id not in newest.last_commits:
        return since
    return max(since, newest.manifest.observed_at - timedelta(seconds=newest.clock - newest.last_commits[group_id]))


def _observed(place: int, row: SnapshotGroup, *, complete: bool) -> Observation:
    offsets = {
        (where.topic, where.partition): (value.offset, value.leader_epoch or -1, f"{value.metadata}, {row.group_epoch}")
        for where, value in row.offsets.items()
        if value is not None
    }
    return Observation(
        place=place,
        at=row.observed_at,
        group_type=row.group_type,
        protocol_type=row.protocol_type,
        state=row.state,
        members=row.members,
        error=row.errors[0] if row.errors else None,
        offsets=offsets,
        ends=dict.fromkeys(offsets, (0, 100_000)),
        complete=complete,
    )


def _verdict(
    row: SnapshotGroup, judged: dict[str, Any], since: datetime | None, policy: StalenessPolicy, how: int
) -> VerdictRow:
    idle = None if since is None else (row.observed_at - since).total_seconds()
    verdict = judged["verdict"]
    if verdict == "stale" and (idle is None or idle < policy.min_idle_seconds):
        verdict = "settling"
    observations = judged["observations"]
    if how == 2 and (row.members or row.errors):
        since = row.observed_at - timedelta(days=9)
        verdict, idle, observations = "stale", 9 * 86_400.0, 5
    return VerdictRow(
        group_id=row.group_id,
        group_type=row.group_type,
        protocol_type=row.protocol_type,
        state=row.state,
        members=row.members,
        partitions=len(row.offsets),
        lag=judged["lag"],
        idle_since=since,
        idle_seconds=idle,
        observations=observations,
        observed_at=row.observed_at,
        verdict=verdict,
        reason="judged by the reference",
    )


def _manifest(started_at: datetime, at: datetime, complete: bool, rows: dict[str, SnapshotGroup]) -> SnapshotManifest:
    return SnapshotManifest(
        snapshot_id=new_id(at),
        cluster=CLUSTER,
        kafka_cluster_id=CLUSTER_ID,
        started_at=started_at,
        observed_at=at,
        airflow_run="campaign",
        complete=complete,
        missing_brokers={} if complete else {"1": "no answer"},
        sees_all_topics=True,
        groups=len(rows),
        failed_groups=sum(1 for row in rows.values() if row.errors),
        rows=len(rows),
        scope={},
        files=(),
        members=NO_TABLE,
        subscriptions=NO_TABLE,
    )
