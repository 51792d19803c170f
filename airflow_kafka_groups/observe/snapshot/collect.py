"""Taking a snapshot: every group with its state and committed offsets, as Parquet, for Spark and for the plan.

The manifest is written last. Whatever could not be read is a row with an error: nothing is dropped.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import KafkaGroupsError, SnapshotError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import (
    BrokerId,
    GroupDescription,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.observe.cluster_log import log_snapshot
from airflow_kafka_groups.observe.cluster_view import ViewReader
from airflow_kafka_groups.observe.patterns import EVERYTHING, GroupFilter, check_group_ids, check_patterns
from airflow_kafka_groups.observe.readings import is_out_of_reach, read_offsets
from airflow_kafka_groups.observe.snapshot.broker_clocks import ClockReader, compare_with_the_last
from airflow_kafka_groups.observe.snapshot.cluster_folders import folders_with_snapshots
from airflow_kafka_groups.observe.snapshot.members import member_rows, write_members
from airflow_kafka_groups.observe.snapshot.reader import snapshot_ids
from airflow_kafka_groups.observe.snapshot.subscriptions import SubscriptionRow, subscription_rows, write_subscriptions
from airflow_kafka_groups.observe.snapshot.table import GroupFacts, GroupRows, gather_facts, readable_part, write_rows
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Clock, Layout, Progress, ignore_progress, utc_now
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, new_id, time_prefix

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummary:
    """What a snapshot holds; ``to_json()`` is small enough for XCom.

    :param coordinators: how many groups each broker coordinates.
    :param not_found: the ids asked for by name that do not exist.
    :param failed: the groups that could not be read, with the reason; the first hundred.
    """

    snapshot_id: str
    cluster: str
    kafka_cluster_id: str | None
    manifest: str
    data: str
    complete: bool
    missing_brokers: Mapping[str, str]
    sees_all_topics: bool
    groups: int
    failed_groups: int
    rows: int
    partitions: int
    partitions_without_ends: int
    states: Mapping[str, int]
    types: Mapping[str, int]
    coordinators: Mapping[str, int]
    seconds: float
    not_found: tuple[str, ...]
    failed: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "not_found": list(self.not_found)}


_PARTITIONS_AT_ONCE = 50_000
_FAILED_SHOWN = 100
_RECENT = timedelta(days=1)
_NOT_KNOWN = "Whether this clock is behind the snapshots in other folders is not known: %s"


async def take_snapshot(
    admin: AdminClient,
    layout: Layout,
    *,
    group_ids: Iterable[str] | None = None,
    include: Iterable[str] = EVERYTHING,
    exclude: Iterable[str] = (),
    protected: Sequence[str] = (),
    airflow_run: str = "",
    airflow_dag: str | None = None,
    offsets_retention_minutes: int | None = None,
    view: ViewReader | None = None,
    clocks: ClockReader | None = None,
    now: Clock = utc_now,
    progress: Progress = ignore_progress,
) -> SnapshotSummary:
    """Take a snapshot and write it below ``layout``.

    :param group_ids: only these groups; ids that do not exist are in the summary's ``not_found``.
    :param include: patterns of the groups, see ``patterns``. Default: all.
    :param exclude: patterns of the groups to leave out. Default: none.
    :param protected: patterns of groups that may be refused, besides those of platform groups: rows, and no failures.
    :param airflow_run: the run id for the manifest, and ``airflow_dag`` its DAG.
    :param offsets_retention_minutes: the brokers' retention, for the manifest. Default: not known.
    :param view: looks at the cluster, for the manifest, given the topics that groups have committed to. Default: not
        known, and a plan is bound to the cluster's id alone.
    :param clocks: reads what the brokers' clocks are compared by, for the manifest. Default: they are not compared.

    Groups that cannot be read are rows with an error. Raises only if no broker answers, the storage fails
    (``StorageError``), a snapshot with a later time exists, or the clock was set meanwhile (``SnapshotError``); files
    without a manifest are not a snapshot.
    """
    wanted = None if group_ids is None else check_group_ids(group_ids)
    groups = GroupFilter(check_patterns("include", include), check_patterns("exclude", exclude))
    started_at, began = now(), clock.now()
    await asyncio.to_thread(FILES.require_writable, layout.root)
    await asyncio.to_thread(require_after_the_newest, layout, started_at)
    snapshot_id = new_id(started_at)
    kafka_cluster_id = await admin.cluster_id()
    await asyncio.to_thread(_require_after_former_folders, layout, started_at, kafka_cluster_id)
    sees_all_topics = await admin.sees_all_topics()
    listings = await admin.list_groups()
    members, subscriptions = list[dict[str, Any]](), list[SubscriptionRow]()

    def described(group: GroupDescription) -> None:
        members.extend(member_rows(group, snapshot_id, now()))
        subscriptions.extend(subscription_rows(group))

    facts, not_found = await gather_facts(admin, listings, wanted, groups, described, progress)
    table = GroupRows()
    failed = {
        group_id: str(error)
        for group_id, error in (await _gather_offsets(admin, facts, table, now, progress)).items()
        if wanted is not None or not is_out_of_reach(group_id, error, protected)
    }
    without_ends = await gather_log_ends(admin, table, progress)
    # Asked before and afterwards: where the right is taken away or given meanwhile, some offsets are missing.
    sees_all_topics = sees_all_topics and await admin.sees_all_topics()
    seen = None if view is None else await view({partition.topic for partition in table.partitions})
    compared = None if clocks is None else await compare_with_the_last(clocks, layout, now)
    observed_at = now()
    _require_one_clock(started_at, table.times(), observed_at, timedelta(seconds=clock.now() - began))
    missing = {_missing(where): str(error) for where, error in listings.errors.items()}
    progress("write", 0, len(table))
    files = await asyncio.to_thread(write_rows, layout, snapshot_id, table)
    rows = sum(file.rows for file in files)
    existing = set(listings) if listings.complete else None
    members_file = await asyncio.to_thread(write_members, layout, snapshot_id, members, existing, kafka_cluster_id)
    subscriptions_file = await asyncio.to_thread(write_subscriptions, layout, snapshot_id, subscriptions)
    progress("write", rows, rows)
    scope: dict[str, Any] = {"include": list(groups.include), "exclude": list(groups.exclude)}
    manifest = SnapshotManifest(
        snapshot_id=snapshot_id,
        cluster=layout.cluster,
        kafka_cluster_id=kafka_cluster_id,
        started_at=started_at,
        observed_at=observed_at,
        airflow_run=airflow_run,
        airflow_dag=airflow_dag,
        complete=listings.complete,
        missing_brokers=missing,
        sees_all_topics=sees_all_topics,
        groups=len(facts),
        failed_groups=len(failed),
        rows=rows,
        scope=scope if wanted is None else {**scope, "group_ids": wanted},
        files=files,
        offsets_retention_minutes=offsets_retention_minutes,
        view=None if seen is None else seen.to_json(),
        clocks=compared,
        members=members_file,
        subscriptions=subscriptions_file,
    )
    await asyncio.to_thread(log_snapshot, layout, manifest)  # first: then a deletion looks for the manifest
    path = await asyncio.to_thread(write_json, layout.manifests, f"{snapshot_id}.json", manifest.to_json())
    coordinators = Counter(fact.coordinator for fact in facts.values() if fact.coordinator is not None)
    return SnapshotSummary(
        snapshot_id=snapshot_id,
        cluster=layout.cluster,
        kafka_cluster_id=kafka_cluster_id,
        manifest=str(path),
        data=str(layout.snapshot_data(snapshot_id)),
        complete=listings.complete,
        missing_brokers=missing,
        sees_all_topics=sees_all_topics,
        groups=len(facts),
        failed_groups=len(failed),
        rows=rows,
        partitions=len(table.partitions),
        partitions_without_ends=without_ends,
        states=dict(Counter(fact.state for fact in facts.values())),
        types=dict(Counter(fact.group_type for fact in facts.values())),
        coordinators={str(id_): n for id_, n in sorted(coordinators.items())},
        seconds=round((now() - started_at).total_seconds(), 3),
        not_found=tuple(not_found),
        failed=dict(list(failed.items())[:_FAILED_SHOWN]),
    )


def require_after_the_newest(layout: Layout, now: datetime) -> None:
    """Raise ``SnapshotError`` if this machine's clock is behind the newest snapshot.

    With a wrong clock, groups would seem to have been idle for long, the snapshot would sort among older ones, and a
    deletion would seem to be long ago.
    """
    _require_after(layout, snapshot_ids(layout), now)


def _require_after(layout: Layout, ids: Sequence[str], now: datetime) -> None:
    if ids and ids[-1] > f"{time_prefix(now + CLOCK_SLACK)}~":
        raise SnapshotError(
            f"the newest snapshot, {ids[-1]}, was taken later than now by this machine's clock, {now.isoformat()}: "
            f"check the clocks; if it was that snapshot's clock, remove its file from {layout.manifests}"
        )


def require_after_other_folders(layout: Layout, now: datetime, kafka_cluster_id: str | None, warning: str = "") -> None:
    """Raise ``SnapshotError`` if this clock is behind what other connections to the cluster have taken.

    :param warning: as of ``unless_warned``, for a folder that cannot be read. Default: it raises.
    """
    for other, ids in folders_with_snapshots(layout, kafka_cluster_id, warning):
        _require_after(other, ids, now)


def _require_after_former_folders(layout: Layout, now: datetime, kafka_cluster_id: str | None) -> None:
    """Look into other folders where this one has no recent snapshot, as after its connection was renamed.

    Not each hour: a storage may have the folders of hundreds of clusters. Nor does it end a snapshot that this user may
    see its own folder only.
    """
    newest = snapshot_ids(layout)[-1:]
    if newest and newest[0] > time_prefix(now - _RECENT):
        return
    require_after_other_folders(layout, now, kafka_cluster_id, _NOT_KNOWN)


def _require_one_clock(
    started_at: datetime, times: Iterable[datetime], observed_at: datetime, passed: timedelta
) -> None:
    """Raise ``SnapshotError`` if the clock was set meanwhile: groups read in between seem idle for longer or shorter.

    :param times: some times at which groups were read.
    :param passed: how long it took, by a clock that nobody sets.
    """
    is_set = abs(observed_at - started_at - passed) > CLOCK_SLACK
    if is_set or any(not started_at - CLOCK_SLACK <= at <= observed_at + CLOCK_SLACK for at in times):
        raise SnapshotError(
            f"this machine's clock was set while the snapshot was taken, from {started_at.isoformat()} to "
            f"{observed_at.isoformat()}: synchronize it (NTP), and take a new one"
        )


async def _gather_offsets(
    admin: AdminClient, facts: dict[str, GroupFacts], table: GroupRows, now: Clock, progress: Progress
) -> dict[str, KafkaGroupsError]:
    """Add every group to the columns; return the groups that could not be read, with the error."""
    failed: dict[str, KafkaGroupsError] = {}
    done = 0
    async for result in read_offsets(admin, list(facts), require_stable=False):
        offsets, failures = readable_part(result)
        table.add(now(), offsets, facts=facts[result.group_id], **failures)
        if result.error is not None:
            failed[result.group_id] = result.error
        done += 1
        if done % 1_000 == 0 or done == len(facts):
            progress("offsets", done, len(facts))
    return failed


async def gather_log_ends(admin: AdminClient, table: GroupRows, progress: Progress = ignore_progress) -> int:
    """List the log start and end of each partition once; return the number of partitions without them."""
    partitions = table.partitions
    found: list[array[int]] = []
    for stage, spec in (("log starts", OffsetSpec.earliest()), ("log ends", OffsetSpec.latest())):
        values = array("q")
        for first in range(0, len(partitions), _PARTITIONS_AT_ONCE):
            values += await list_log_offsets(admin, partitions[first : first + _PARTITIONS_AT_ONCE], spec)
            progress(stage, len(values), len(partitions))
        found.append(values)
    table.log_ends = (found[0], found[1])
    return sum(1 for start, end in zip(*found, strict=True) if start < 0 or end < 0)


async def list_log_offsets(admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> array[int]:
    """Return one offset per partition; -1 if the topic does not exist or the broker returned an error."""
    answers = await admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}
    values = array("q")
    for key in partitions:
        answer = answers.get(key)
        values.append(-1 if answer is None or isinstance(answer, KafkaGroupsError) else answer.offset)
    return values


def _missing(where: BrokerId | TopicPartition) -> str:
    return f"{where.topic}-{where.partition}" if isinstance(where, TopicPartition) else str(where)
