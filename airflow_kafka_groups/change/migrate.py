"""Migrate the committed offsets of groups into another cluster, whose topics are mirrors with other offsets.

A plan translates each offset of the source once (see ``observe.mirrors``). A dry run writes it, and whoever names its
id and the SHA-256 of its file applies it as it is: ``<storage>/<cluster>/changes/<id>-plan.json``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from airflow_kafka_groups.change.backup.file import Backup, open_backup
from airflow_kafka_groups.change.restore.change_offsets import Earlier, OffsetRequest, first_try
from airflow_kafka_groups.change.restore.current_logs import commits_of, ids_of, recreated_topics, unread_of
from airflow_kafka_groups.change.restore.earlier_tries import in_topics
from airflow_kafka_groups.change.restore.reset import Existing, propose_commits
from airflow_kafka_groups.checks import check_digest
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.kafka.models import GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits, commits_in
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.mirrors.offset_translator import OFFSET_HEADER, OffsetTranslator, counts_of
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Translated
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED, GroupFilter, check_group_ids
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import parse_json, write_listing
from airflow_kafka_groups.storage.layout import Layout, Progress, check_id, ignore_progress, utc_now
from airflow_kafka_groups.storage.paths import CHANGES, new_id, time_of

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.observe.mirrors.batches import OnSpark


Source: TypeAlias = "Callable[[], AbstractAsyncContextManager[MaintenanceClient]]"
_WHAT = "the plan of the migration"
_OF_RECORDS = (Method.PAYLOAD, Method.TIMESTAMP)


class PlannedOffset(NamedTuple):
    """An offset to commit: of which one of the source it is the translation, and its distance (see ``Translated``)."""

    source_topic: str
    source_partition: int
    source_offset: int
    topic: str
    partition: int
    offset: int
    distance: int
    metadata: str = ""

    @property
    def target(self) -> TopicPartition:
        """The partition of the target."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is planned for a group.

    :param refused: the partitions of the source that are left out, with the reason.
    :param kept: why the group is left out.
    """

    rows: tuple[PlannedOffset, ...] = ()
    refused: Mapping[TopicPartition, str] = field(default_factory=dict)
    kept: str | None = None

    @property
    def commits(self) -> Commits:
        """What is committed in the target."""
        return {row.target: OffsetAndMetadata(row.offset, row.metadata) for row in self.rows}

    def why_none(self) -> str:
        """Return why nothing is committed."""
        if self.kept is not None or not self.refused:
            return self.kept or "it has no committed offsets to migrate"
        if (unread := unread_of(self.refused.values())) is not None:
            return Unread(f"nothing can be migrated: {unread}")
        return f"nothing can be migrated: {next(iter(self.refused.values()))}"

    def to_json(self, group_id: str) -> dict[str, Any]:
        """Return the plan of the group as JSON values. What could not be read is left out by whoever approves it."""
        refused = [(*where, why) for where, why in self.refused.items()]
        return {"group_id": group_id, "partitions": self.rows, "refused": refused, "kept": self.kept}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupPlan:
        """Return what ``to_json`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        refused = {TopicPartition(topic, partition): why for topic, partition, why in data["refused"]}
        return cls(rows=tuple(starmap(PlannedOffset, data["partitions"])), refused=refused, kept=data["kept"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """A plan as it was written.

    :param facts: what was asked for: the method, the position, the source.
    :param kafka_cluster_id: the target.
    :param topic_ids: the ids of the target's topics, which they must still have.
    :param digest: the SHA-256 of its file.
    """

    plan_id: str
    facts: Mapping[str, Any]
    kafka_cluster_id: str | None
    topic_ids: Mapping[str, str]
    groups: Mapping[str, GroupPlan]
    digest: str = ""

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a row for each partition: both offsets and the distance, or why it is left out."""
        for group_id, group in self.groups.items():
            for row in group.rows:
                yield (group_id, *row[:-1], None)
            for where, why in group.refused.items():
                yield (group_id, *where, None, None, None, None, None, str(why))

    def summary(self) -> dict[str, Any]:
        """Return what a result has of the plan."""
        return {
            "plan_id": self.plan_id,
            "plan_digest": self.digest,
            "method": self.facts["method"],
            "position": self.facts["position"],
            "distance": sum(row.distance for group in self.groups.values() for row in group.rows),
            "refused": sum(len(group.refused) for group in self.groups.values()),
        }


def write_plan(layout: Layout, plan: MigrationPlan) -> str:
    """Write a plan, durably, and return its digest."""
    head = {
        "format": FORMAT,
        "run_id": plan.plan_id,
        "what": "migration plan",
        "dry_run": True,
        "cluster": layout.cluster,
        "kafka_cluster_id": plan.kafka_cluster_id,
        "facts": dict(plan.facts),
        "topic_ids": dict(plan.topic_ids),
    }
    rows = (group.to_json(group_id) for group_id, group in plan.groups.items())
    path = write_listing(layout.root / CHANGES, f"{plan.plan_id}-plan.json", head, "groups", rows)
    FILES.sync(path)
    return hashlib.sha256(FILES.read(path) or b"").hexdigest()


async def load_migration_plan(layout: Layout, plan_id: str, digest: str, kafka_cluster_id: str | None) -> MigrationPlan:
    """Read a plan that was approved by its digest.

    Raises ``MaintenanceError`` for one that is missing, was changed, or is of another target.
    """
    path = layout.root / CHANGES / f"{check_id('plan_id', plan_id)}-plan.json"
    data = await asyncio.to_thread(FILES.read, path)
    if data is None:
        raise MaintenanceError(f"there is no {path}: check the id, storage_path and cluster")
    if (found := hashlib.sha256(data).hexdigest()) != digest:
        raise MaintenanceError(f"{_WHAT} {path} is not the one that was approved: its SHA-256 is {found}")
    head = parse_json(data, path, _WHAT, MaintenanceError)
    with unless_damaged(MaintenanceError, f"{_WHAT} {path}"):
        plan = MigrationPlan(
            plan_id=plan_id,
            facts=head["facts"],
            kafka_cluster_id=head["kafka_cluster_id"],
            topic_ids=head["topic_ids"],
            groups={group["group_id"]: GroupPlan.from_json(group) for group in head["groups"]},
            digest=digest,
        )
    if plan.kafka_cluster_id != kafka_cluster_id:
        raise MaintenanceError(f"{_WHAT} {plan_id} is of Kafka cluster {plan.kafka_cluster_id!r}: check the connection")
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequest(OffsetRequest):
    """Set groups of this cluster, which is the target, to the positions that they have in another one.

    The groups keep their names; their topics may have others. Members of the source's groups are no obstacle, and the
    target's groups must not have any.

    :param source: opens the client of the source. Required for the methods ``payload`` and ``timestamp``, and without
        a backup.
    :param backup_id: take the offsets of this backup instead of the source's, which ``source_cluster`` names.
    :param source_cluster: the folder of the source in the same storage.
    :param group_ids: only these groups. Default: all of the backup, or all that the source lists with offsets.
    :param topics: only these topics of the source. Default: all topics with a commit.
    :param method: ``header``, ``offset-syncs``, ``checkpoints``, ``payload`` or ``timestamp``.
    :param position: ``at-or-before`` (default: no record is skipped), ``exact`` or ``at-or-after``. A partition whose
        position is not known so well is left out.
    :param existing: see ``CopyRequest``.
    :param topic_pattern: the name of a mirror, with ``{topic}`` in it. Default ``"{topic}"``.
    :param mapping: topics, or partitions as ``topic:0``, with a counterpart of another name.
    :param header: the header with the source offset: of 8 bytes, or a decimal number.
    :param mirror_topic: MirrorMaker 2's topic, such as ``mm2-offset-syncs.west.internal``.
    :param plan_id: apply this plan, with ``plan_digest``, instead of making one.
    :param on_spark: has a Spark job compare payloads. Default: they are compared in this process.

    Raises ``ConfigurationError`` for invalid values.
    """

    what: ClassVar[str] = "migrate"
    source: Source | None = None
    backup_id: str | None = None
    source_cluster: str | None = None
    group_ids: Sequence[str] | None = None
    topics: Sequence[str] | None = None
    method: str | None = None
    position: str = "at-or-before"
    existing: str = "keep"
    topic_pattern: str = "{topic}"
    mapping: Mapping[str, str] = field(default_factory=dict)
    header: str = OFFSET_HEADER
    mirror_topic: str | None = None
    plan_id: str | None = None
    plan_digest: str | None = None
    on_spark: OnSpark | None = field(default=None, compare=False)
    progress: Progress = field(default=ignore_progress, compare=False)
    _new_id: str = field(default_factory=lambda: new_id(utc_now()), init=False, compare=False)
    _made: list[MigrationPlan] = field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.group_ids is not None:
            check_group_ids(self.group_ids)
        if (self.plan_id is None) != (self.plan_digest is None):
            raise ConfigurationError("plan_id, plan_digest", None, "give both or none")
        if self.plan_id is not None:
            check_digest("plan_digest", self.plan_digest)
            return
        if self.method is None:
            raise ConfigurationError("method", None, f"must be one of {', '.join(Method)}")
        if self.on_spark is not None and self.method != Method.PAYLOAD:
            raise ConfigurationError("on_spark", True, f"is for the method {Method.PAYLOAD}: others read little")
        if (self.backup_id is None) != (self.source_cluster is None):
            raise ConfigurationError("backup_id, source_cluster", None, "give both or none")
        if self.source is None and (self.backup_id is None or Method(self.method) in _OF_RECORDS):
            raise ConfigurationError("source", None, "name the connection of the source cluster")
        if "{topic}" not in self.topic_pattern:
            raise ConfigurationError("topic_pattern", self.topic_pattern, "must have {topic} in it")

    @property
    def facts(self) -> dict[str, Any]:
        """The plan."""
        return {"migration": self.plan_id or self._new_id}

    @property
    def made(self) -> MigrationPlan:
        """The plan, after it was made or loaded."""
        return self._made[0]

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the changes that the plan would commit. It is made, and written, unless one is named."""
        return await self._changes(admin, layout)

    async def rehearse(self, admin: MaintenanceClient, layout: Layout, most: int) -> list[Change]:
        """Return what would be committed if no group existed, see ``RestoreRequest``."""
        changes = await self._changes(admin, layout, as_new=True)
        return sorted(changes, key=lambda change: (-len(change.after), change.group_id))[:most]

    async def _changes(self, admin: MaintenanceClient, layout: Layout, *, as_new: bool = False) -> list[Change]:
        if not self._made:
            self._made.append(await self._plan(admin, layout))
        plan = self.made
        wanted = list(plan.groups) if self.group_ids is None else self.group_ids
        if unknown := [each for each in wanted if each not in plan.groups]:
            raise ConfigurationError("group_ids", unknown, f"these groups are not in the plan {plan.plan_id}")
        chosen = {each: plan.groups[each] for each in wanted}
        commits = {group_id: group.commits for group_id, group in chosen.items()}
        why_none = {group_id: group.why_none() for group_id, group in chosen.items()}
        existing = Existing(plan.facts["existing"])
        forward = plan.facts["position"] == Position.AT_OR_AFTER
        found = []
        for change in await propose_commits(admin, commits, why_none, existing, must_fit=True, as_new=as_new):
            group = chosen[change.group_id]
            new = [row for row in group.rows if row.target in change.after and row.target not in change.before]
            off = sum(row.distance for row in new)
            found.append(
                replace(
                    change,
                    skipped={**group.refused, **change.skipped},
                    topic_ids=plan.topic_ids,
                    as_of=time_of(plan.plan_id),
                    skips=change.skips + (off if forward else 0),
                    rereads=change.rereads + (0 if forward else off),
                )
            )
        return found

    async def _plan(self, admin: MaintenanceClient, layout: Layout) -> MigrationPlan:
        here = await admin.cluster_id()
        if self.plan_id is not None:
            return await load_migration_plan(layout, self.plan_id, str(self.plan_digest), here)
        async with AsyncExitStack() as stack:
            source = None if self.source is None else await stack.enter_async_context(self.source())
            there, offsets, groups, recreated = await self._offsets(source, layout)
            if here == there:
                why = f"both clusters have the id {here!r}: it is one (use copy or restore), or one is a clone"
                raise ConfigurationError("source", None, why)
            at = {where: self._counterpart(where) for commits in offsets.values() for where in commits}
            if len(set(at.values())) < len(at):
                raise ConfigurationError("mapping", None, "two partitions of the source have the same counterpart")
            refused = await self._without_counterpart(source, admin, at)
            refused |= {where: recreated[where.topic] for where in at if where.topic in recreated}
            every = ((where, value.offset) for of in offsets.values() for where, value in of.items())
            wanted = {each for each in every if each[0] not in refused}
            if self.on_spark is not None and wanted:
                found = await asyncio.to_thread(self.on_spark.translate, wanted, at)
            else:
                translator = OffsetTranslator(
                    source=source,
                    target=admin,
                    counterparts=at,
                    header=self.header,
                    mirror_topic=self.mirror_topic,
                    progress=self.progress,
                )
                found = await translator.translate(wanted, Method(str(self.method)), Position(self.position))
        for group_id, commits in offsets.items():
            rows, left_out = list[PlannedOffset](), dict[TopicPartition, str]()
            for where, value in commits.items():
                one = refused.get(where) or found[where, value.offset]
                if isinstance(one, Translated):
                    offset, distance, text = one.offset, one.distance, value.metadata
                    rows.append(PlannedOffset(*where, value.offset, *at[where], offset, distance, text))
                else:
                    left_out[where] = one
            groups[group_id] = GroupPlan(rows=tuple(rows), refused=left_out)
        facts = {name: getattr(self, name) for name in ("method", "position", "existing", "backup_id")}
        ids = await admin.topic_ids(sorted({where.topic for where in at.values()})) if at else {}
        facts["source"] = there
        plan = MigrationPlan(plan_id=self._new_id, facts=facts, kafka_cluster_id=here, topic_ids=ids, groups=groups)
        return replace(plan, digest=await asyncio.to_thread(write_plan, layout, plan))

    async def _offsets(
        self, source: MaintenanceClient | None, layout: Layout
    ) -> tuple[str | None, dict[str, Commits], dict[str, GroupPlan], Mapping[str, str]]:
        """Return the source's id, its groups' offsets, the unread groups, and the topics recreated since a backup."""
        there = None if source is None else await source.cluster_id()
        if self.backup_id is not None:
            backup, offsets = await asyncio.to_thread(self._backed_up, layout, self.backup_id)
            if there not in (None, backup.kafka_cluster_id):
                why = f"is of Kafka cluster {backup.kafka_cluster_id!r}, and the source is {there!r}"
                raise ConfigurationError("backup_id", self.backup_id, why)
            recreated = {} if source is None else await recreated_topics(source, ids_of(backup))
            return backup.kafka_cluster_id, offsets, {}, recreated
        assert source is not None  # noqa: S101 - as checked
        wanted = self.group_ids
        if wanted is None:
            listed = (await source.list_groups()).require_complete()
            wanted = sorted(filter(GroupFilter(exclude=DEFAULT_PROTECTED).selects, listed))
        found = await commits_of(source, wanted, "its offsets in the source cannot be read", shares=False)
        unread = {group_id: GroupPlan(kept=each) for group_id, each in found.items() if isinstance(each, Unread)}
        offsets = {group_id: self._only(each) for group_id, each in found.items() if not isinstance(each, Unread)}
        return there, offsets, unread, {}

    def _backed_up(self, layout: Layout, backup_id: str) -> tuple[Backup, dict[str, Commits]]:
        backup, groups = open_backup(replace(layout, cluster=str(self.source_cluster)), backup_id)
        offsets = dict[str, Commits]()
        for group in groups:
            if self.group_ids is None or group.entry.group_id in self.group_ids:
                is_share = group.entry.group_type == GroupType.SHARE
                offsets[group.entry.group_id] = {} if is_share else self._only(commits_in(group.offsets))
        if missing := [group_id for group_id in self.group_ids or () if group_id not in offsets]:
            raise ConfigurationError("group_ids", missing, f"these groups are not in the backup {backup_id}")
        return backup, offsets

    def _only(self, commits: Commits) -> Commits:
        is_chosen = in_topics(self.topics)
        return {where: value for where, value in commits.items() if is_chosen(where)}

    def _counterpart(self, where: TopicPartition) -> TopicPartition:
        if (mapped := self.mapping.get(f"{where.topic}:{where.partition}")) is not None:
            topic, _, partition = mapped.rpartition(":")
            if not topic or not partition.isdecimal():
                raise ConfigurationError("mapping", mapped, "must be a partition such as orders:0, as its source is")
            return TopicPartition(topic, int(partition))
        topic = self.mapping.get(where.topic) or self.topic_pattern.replace("{topic}", where.topic)
        return TopicPartition(topic, where.partition)

    async def _without_counterpart(
        self,
        source: MaintenanceClient | None,
        target: MaintenanceClient,
        there: Mapping[TopicPartition, TopicPartition],
    ) -> dict[TopicPartition, str]:
        """Return the partitions that have none: the topic is missing, or has another number of partitions."""
        here = {} if source is None else await counts_of(source, (where.topic for where in there))
        counts = await counts_of(target, (where.topic for where in there.values()))
        refused = {}
        for where, other in there.items():
            before, now = here.get(where.topic), counts.get(other.topic)
            is_mapped = f"{where.topic}:{where.partition}" in self.mapping
            if now is None:
                refused[where] = f"the target has no topic {other.topic!r}, or this user may not see it"
            elif other.partition >= now or (before is not None and before != now and not is_mapped):
                shown = "" if before is None else f"the source has {before} partitions, and "
                why = f"{shown}{other.topic!r} in the target {now}"
                refused[where] = f"{why}: map partitions that have the same records"
        return refused
