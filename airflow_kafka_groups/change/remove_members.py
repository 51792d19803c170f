"""Remove members from a group (LeaveGroup, KIP-345): static members that do not come back, and zombies.

Each is removed by its member id, a static one by both of its names: one that has joined again meanwhile is another
membership, and stays. Which memberships were meant is recorded before: a task that is retried removes nobody who came
back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.change_offsets import ChangeRecord, ChangeTerms, RecordedChanges
from airflow_kafka_groups.change.restore.earlier_tries import TASK_RUN
from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
    has_eligible_kind,
)
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome, ChangeResult
from airflow_kafka_groups.observe.patterns import check_group_ids
from airflow_kafka_groups.storage.layout import Layout, utc_now

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


WHAT = "remove members"
REASON = "removed by airflow-kafka-groups"
_NEW_PROTOCOL = (
    "it uses the protocol of KIP-848, and brokers let nobody else remove such a member: stop its process, and it is "
    "gone after its session timeout"
)
_GONE = frozenset({"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMembersRequest:
    """Remove members from a group. Raises ``ConfigurationError`` for invalid values.

    :param group_id: the group.
    :param member_ids: members by their ids, as ``describe`` shows them.
    :param instance_ids: static members by their ``group.instance.id``.
    :param all_members: all members instead of named ones. Default false.
    :param reason: what brokers log (KIP-800).
    """

    group_id: str
    member_ids: Sequence[str] = ()
    instance_ids: Sequence[str] = ()
    all_members: bool = False
    reason: str = REASON

    def __post_init__(self) -> None:
        check_group_ids([self.group_id])
        if bool(self.member_ids or self.instance_ids) == self.all_members:
            names = "member_ids, instance_ids, all_members"
            raise ConfigurationError(names, None, "name members, or ask for all of them: one of the two")

    async def carry_out(self, admin: AdminClient, layout: Layout, terms: ChangeTerms) -> RemovedMembers:
        """Remove the members, see ``remove_members``."""
        return await remove_members(admin, layout, self, terms)

    def selects(self, member: MemberDescription) -> bool:
        """Return whether a member is to be removed."""
        return (
            self.all_members
            or member.member_id in self.member_ids
            or (member.group_instance_id is not None and member.group_instance_id in self.instance_ids)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult(ChangeResult):
    """The result of one member; ``partitions`` is the number of those that were assigned to it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str

    @property
    def name(self) -> str:
        """The member."""
        return self.group_instance_id or self.member_id

    def to_json(self) -> dict[str, Any]:
        """Return a row of the record, which has the fields of every change: no offset is changed."""
        return {**asdict(self), "outcome": self.outcome.value, "before": [], "after": [], "kept": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedMembers(RecordedChanges):
    """The results of the members that were named, or of all; ``path`` is ``None`` where nobody was to be removed."""

    results: Sequence[MemberResult]

    def summary(self) -> dict[str, Any]:
        """Return the counts, and where the record is, as JSON values."""
        return {"counts": self.counts, "result_path": None if self.path is None else str(self.path)}


async def remove_members(
    admin: AdminClient, layout: Layout, request: RemoveMembersRequest, terms: ChangeTerms
) -> RemovedMembers:
    """Remove members from a group, and return the result of each.

    Who is meant is recorded in ``changes/`` before. A member that uses the protocol of KIP-848, or has joined since an
    earlier try of the same change, is kept; a static member that joins again meanwhile is another membership.

    Raises ``ConfigurationError`` for a protected group and for one that is no consumer group, ``KafkaGroupsError`` if
    it cannot be described, and ``MaintenanceError`` or ``StorageError`` if nothing can be recorded; nobody was removed.
    """
    if terms.protects(request.group_id):
        raise ConfigurationError("group_id", request.group_id, "is protected by the connection")
    send_by = clock.now() + MAX_READ_AGE_SECONDS
    group = await _described(admin, request.group_id)
    if group.state is not GroupState.DEAD and not has_eligible_kind(group.type, group.protocol_type):
        kind = f"is a {group.type.value} group of the protocol {group.protocol_type!r}, not of consumers"
        raise ConfigurationError("group_id", request.group_id, kind)
    cluster_id = await admin.cluster_id()
    meant = await asyncio.to_thread(_meant_before, layout, terms, request.group_id, cluster_id)
    chosen = [member for member in group.members if request.selects(member)]
    proposed = [_result(group.group_id, member, *_proposed(group, member, meant)) for member in chosen]
    results = {result.member_id: result for result in proposed}
    to_remove = [member for member in chosen if results[member.member_id].outcome is ChangeOutcome.WOULD_CHANGE]
    path = None
    if to_remove and not terms.dry_run:
        task_run = None if terms.tries is None else terms.tries.task_run
        record = ChangeRecord(layout, WHAT, dry_run=False, facts={"reason": request.reason, TASK_RUN: task_run})
        await record.before([results[member.member_id] for member in to_remove])
        if task_run is not None:
            await asyncio.to_thread(record.log, cluster_id, utc_now(), task_run=task_run)
        results |= await _remove(admin, request, group, to_remove, send_by)
        path = await record.result(list(results.values()))
    here = {name for member in chosen for name in (member.member_id, member.group_instance_id)}
    nobody = partial(MemberDescription, client_id="", host="")
    absent = [nobody(member_id=name) for name in request.member_ids if name not in here]
    absent += [nobody(member_id="", group_instance_id=name) for name in request.instance_ids if name not in here]
    why = "it is no member of the group"
    others = [_result(group.group_id, each, ChangeOutcome.UNCHANGED, why) for each in absent]
    return RemovedMembers(results=[*results.values(), *others], path=path, dry_run=terms.dry_run)


async def _remove(
    admin: AdminClient,
    request: RemoveMembersRequest,
    group: GroupDescription,
    members: Sequence[MemberDescription],
    send_by: float,
) -> dict[str, MemberResult]:
    """Remove members, by the broker that described them, and read the group back."""
    keys = [MemberToRemove(member.member_id, member.group_instance_id) for member in members]
    errors: Mapping[MemberToRemove, KafkaGroupsError | None]
    try:
        errors = await admin.remove_members_from_consumer_group(
            group.group_id,
            keys,
            reason=request.reason,
            send_within=max(send_by - clock.now(), 0.0),
            coordinator=group.coordinator,
        )
    except KafkaGroupsError as error:
        errors = dict.fromkeys(keys, error)
    left: Sequence[MemberDescription] | KafkaGroupsError
    try:
        left = (await _described(admin, group.group_id)).members
    except KafkaGroupsError as error:
        left = error
    return {
        member.member_id: _result(group.group_id, member, *_outcome(member, errors.get(key), left))
        for key, member in zip(keys, members, strict=True)
    }


async def _described(admin: AdminClient, group_id: str) -> GroupDescription:
    return (await admin.describe_consumer_groups([group_id]))[group_id].unwrap()


def _meant_before(
    layout: Layout, terms: ChangeTerms, group_id: str, cluster_id: str | None
) -> tuple[str, Collection[str]] | None:
    """Return the members that the first earlier try meant to remove, and its record; ``None`` for the first try."""
    if (tries := terms.tries) is None:
        return None
    for path, record, _ in tries.records(layout, cluster_id):
        of_group = [row["member_id"] for row in record["groups"] if row["group_id"] == group_id]
        if record.get(TASK_RUN) == tries.task_run and of_group:
            return str(path), of_group
    return None


def _proposed(
    group: GroupDescription, member: MemberDescription, meant: tuple[str, Collection[str]] | None
) -> tuple[ChangeOutcome, str]:
    if group.type is GroupType.CONSUMER and not member.uses_classic_protocol:
        return ChangeOutcome.KEPT, _NEW_PROTOCOL
    if meant is not None and member.member_id not in meant[1]:
        return ChangeOutcome.KEPT, f"it has joined since an earlier try of this task, see {meant[0]}"
    return ChangeOutcome.WOULD_CHANGE, "it can be removed"


def _outcome(
    member: MemberDescription, error: KafkaGroupsError | None, left: Sequence[MemberDescription] | KafkaGroupsError
) -> tuple[ChangeOutcome, str]:
    """Return what became of a member, by the answer of the brokers and by what was read back."""
    if isinstance(left, KafkaGroupsError):
        return ChangeOutcome.UNKNOWN, f"{error or 'removed'}; the group cannot be read back: {left}"
    if any(each.member_id == member.member_id for each in left):
        return ChangeOutcome.FAILED, f"it is a member still: {error or 'the brokers did not say why'}"
    if isinstance(error, BrokerError) and error.name in _GONE:
        return ChangeOutcome.UNCHANGED, "it had left, or joined again, by itself"
    again = [each for each in left if each.group_instance_id == member.group_instance_id is not None]
    rejoined = f"; its process has joined again as {again[0].member_id}" if again else ""
    return ChangeOutcome.CHANGED, f"removed and verified{rejoined}"


def _result(group_id: str, member: MemberDescription, outcome: ChangeOutcome, reason: str) -> MemberResult:
    return MemberResult(
        group_id=group_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.host,
        partitions=len(member.assignment),
        outcome=outcome,
        reason=reason,
    )
