"""The verbs that change committed offsets, each from its request to its results: reset, set, copy, restore, delete.

Operators, the command line and the hook make a request and call ``change_offsets``. It proposes, records what is there,
applies, reads back, and records what became of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any, ClassVar, Protocol, TypeAlias

from airflow_kafka_groups.change.deletion.request import protect_none
from airflow_kafka_groups.change.restore.commit_changes import CommitAdmin
from airflow_kafka_groups.change.restore.earlier_tries import BY, TASK_RUN, EarlierTries, read_earlier_tries, spare_used
from airflow_kafka_groups.change.restore.forget import forget_topics
from airflow_kafka_groups.change.restore.from_backup import propose_restore
from airflow_kafka_groups.change.restore.recorded import RecordedChanges, change_recorded
from airflow_kafka_groups.change.restore.reset import (
    Existing,
    ResetTarget,
    TargetOffsets,
    propose_alter,
    propose_copy,
    propose_reset,
)
from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, KafkaGroupsError
from airflow_kafka_groups.ledger.proposed_changes import Change
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.observe.protocols import OffsetDeletionAdmin, RecordAdmin
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress

Earlier: TypeAlias = Callable[[str | None], EarlierTries]


class OffsetAdmin(CommitAdmin, OffsetDeletionAdmin, RecordAdmin, Protocol):
    """The part of ``AdminClient`` that these verbs use."""


class OffsetRequest(Protocol):
    """What a request of these verbs has in common."""

    @property
    def asked(self) -> Mapping[str, Any]:
        """What a later try must be asked for, too, to count as the same, by the fields of a record."""

    @property
    def continues(self) -> bool:
        """Whether an earlier try is continued. Otherwise, what was used meanwhile is kept anyway."""


class SettingRequest(OffsetRequest, Protocol):
    """A request that sets offsets."""

    @property
    def what(self) -> str:
        """The kind of change, for the record."""

    @property
    def may_be_absent(self) -> bool:
        """Whether groups that do not exist are created."""

    async def propose(self, admin: OffsetAdmin, layout: Layout, earlier: Earlier) -> list[Change]:
        """Return the changes that would be committed; nothing is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """Reset groups to an end of the log, a time, or by a distance. Raises ``ConfigurationError`` for invalid ids.

    :param group_ids: the groups, without duplicates.
    :param target: where to.
    :param topics: only these topics. Default: all topics with a commit.
    """

    what: ClassVar[str] = "reset"
    continues: ClassVar[bool] = True
    may_be_absent: ClassVar[bool] = False
    group_ids: Sequence[str]
    target: ResetTarget
    topics: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_group_ids(self.group_ids)

    @property
    def asked(self) -> dict[str, Any]:
        """What a later try must be asked for, too, to count as the same."""
        return self.target.asked

    async def propose(self, admin: OffsetAdmin, layout: Layout, earlier: Earlier) -> list[Change]:
        """Return the changes that the reset would commit."""
        return await propose_reset(admin, self.group_ids, self.target, topics=self.topics, earlier=earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRequest:
    """Set committed offsets to given values, limited to each log.

    :param offsets: the offsets by group and partition.
    :param create: also create groups that do not exist. Default false: they are kept.
    """

    what: ClassVar[str] = "alter"
    continues: ClassVar[bool] = True
    asked: ClassVar[Mapping[str, Any]] = {}
    offsets: TargetOffsets
    create: bool = False

    @property
    def may_be_absent(self) -> bool:
        """Whether groups that do not exist are created."""
        return self.create

    async def propose(self, admin: OffsetAdmin, layout: Layout, earlier: Earlier) -> list[Change]:
        """Return the changes that would set the offsets."""
        return await spare_used(admin, propose_alter(admin, self.offsets), earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """Copy committed offsets to other groups of the cluster, which may not exist yet. Sources may have members.

    :param groups: the target of each source.
    :param topics: only these topics. Default: all topics with a commit.
    :param existing: what happens where a target has a commit: ``"keep"`` it (default), ``"replace"`` it, or take the
        ``"lower"`` of both.

    Raises ``ConfigurationError`` for a group that is a source and a target, or the target of two.
    """

    what: ClassVar[str] = "copy"
    continues: ClassVar[bool] = True
    asked: ClassVar[Mapping[str, Any]] = {}
    may_be_absent: ClassVar[bool] = True
    groups: Mapping[str, str]
    topics: Sequence[str] | None = None
    existing: str = "keep"

    def __post_init__(self) -> None:
        check_group_ids([*self.groups, *self.groups.values()])
        seen = set[str]()
        for target in self.groups.values():
            if target in self.groups or target in seen:
                why = "is a source and a target" if target in self.groups else "is the target of two groups"
                raise ConfigurationError("groups", target, f"{why}: name each group once")
            seen.add(target)

    async def propose(self, admin: OffsetAdmin, layout: Layout, earlier: Earlier) -> list[Change]:
        """Return the changes that the copy would commit."""
        found = propose_copy(admin, self.groups, topics=self.topics, existing=Existing(self.existing))
        return await spare_used(admin, found, earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Restore the offsets of a backup.

    :param plan_id: the plan of the backup, or the id of a backup without a plan.
    :param group_ids: only these groups. Default: all in the backup.
    :param overwrite: also reset groups that were used since. Default false.
    """

    what: ClassVar[str] = "restore"
    asked: ClassVar[Mapping[str, Any]] = {}
    may_be_absent: ClassVar[bool] = True
    plan_id: str
    group_ids: Sequence[str] | None = None
    overwrite: bool = False

    @property
    def continues(self) -> bool:
        """Whether an earlier try is continued: without overwriting, what was used since the backup is kept anyway."""
        return self.overwrite

    async def propose(self, admin: OffsetAdmin, layout: Layout, earlier: Earlier) -> list[Change]:
        """Return the changes that the restore would commit."""
        found = propose_restore(admin, layout, self.plan_id, group_ids=self.group_ids, overwrite=self.overwrite)
        return await (spare_used(admin, found, earlier) if self.overwrite else found)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsRequest:
    """Delete the committed offsets that groups have of some topics (KIP-496); the groups are kept.

    :param group_ids: the groups, without duplicates.
    :param topics: the topics, by their exact names.
    """

    continues: ClassVar[bool] = True
    asked: ClassVar[Mapping[str, Any]] = {}
    group_ids: Sequence[str]
    topics: Sequence[str]

    def __post_init__(self) -> None:
        check_group_ids(self.group_ids)
        if not self.topics or isinstance(self.topics, str):
            raise ConfigurationError("topics", self.topics, "must be a list of names, with one at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """Which runs are tries of the same change: a task is retried or cleared, a command that was killed typed again.

    :param task_run: names the change; the same for each of its tries.
    :param since: a time before the first try; ``None``: not known.
    :param interrupted: only tries count that recorded no result, and after which none did: a command that ended is a
        new one when it is typed again. Default false.
    """

    task_run: str
    since: datetime | None = None
    interrupted: bool = False

    def of(self, layout: Layout, asked: Mapping[str, Any]) -> tuple[Earlier, dict[str, Any]]:
        """Return what reads the earlier tries, and what a record has for later ones."""
        read = partial(read_earlier_tries, layout, self.task_run, asked, self.since, interrupted=self.interrupted)
        return cache(read), {TASK_RUN: self.task_run, **asked}  # read once: a later look finds this try's own record


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTerms:
    """On which terms offsets are changed.

    :param dry_run: make all checks and change nothing.
    :param protects: whether the connection protects a group. Default: none.
    :param tries: which earlier tries count. Default: this is the only one.
    :param progress: called with (stage, done, total). Default: never.
    """

    dry_run: bool
    protects: Callable[[str], bool] = protect_none
    tries: Tries | None = None
    progress: Progress = field(default=ignore_progress)


AnyRequest: TypeAlias = SettingRequest | DeleteOffsetsRequest


def _no_earlier_tries(kafka_cluster_id: str | None) -> EarlierTries:
    return EarlierTries()


async def change_offsets(
    admin: OffsetAdmin, layout: Layout, request: AnyRequest, terms: ChangeTerms
) -> RecordedChanges:
    """Change committed offsets as the request says, and return each group's result.

    What a group had is recorded in ``changes/`` before anything is changed. A group that is protected, has members, or
    moves meanwhile is kept; a partition that does not exist is left out. An earlier try of the same change is
    continued: the offsets that it meant to set are set, and groups that were used since are kept.

    Raises ``GroupsFailedError`` before anything is changed if offsets are to be deleted of a group that is protected or
    cannot be read, ``BackupError``, ``ConfigurationError``, and ``MaintenanceError`` or ``StorageError`` if what is
    there cannot be recorded; afterwards ``OutcomeUnknownError`` if only the result cannot be.
    """
    earlier: Earlier = _no_earlier_tries
    facts = dict(request.asked)
    if terms.tries is not None and request.continues:
        earlier, facts = terms.tries.of(layout, request.asked)
    elif terms.tries is not None:
        facts[BY] = terms.tries.task_run
    if isinstance(request, DeleteOffsetsRequest):
        protected = [group_id for group_id in request.group_ids if terms.protects(group_id)]
        if protected:
            why = KafkaGroupsError("the connection protects it: nothing was deleted")
            raise GroupsFailedError(dict.fromkeys(protected, why), len(request.group_ids))
        return await forget_topics(
            admin,
            layout,
            request.group_ids,
            frozenset(request.topics),
            dry_run=terms.dry_run,
            progress=partial(terms.progress, "delete offsets"),
            earlier=earlier,
            facts=facts,
        )
    return await change_recorded(
        admin,
        layout,
        request.what,
        partial(request.propose, admin, layout, earlier),
        protects=terms.protects,
        dry_run=terms.dry_run,
        may_be_absent=request.may_be_absent,
        facts=facts,
        progress=terms.progress,
    )
