"""What is in a fake cluster, and the rules by which its brokers change it (each is in ``admin_facts.py``)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.exceptions import KafkaGroupsError, PartitionsFailedError
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    ShareGroupOffsets,
    TopicPartition,
)
from tests.fakes.groups import CLUSTER_ID, FakeGroup, broker_error, committed, describe, describe_dead

Log = tuple[int, int]
"""The first offset of a partition, and the one after its last."""


class ClusterState:
    """The groups and logs of a cluster.

    :param groups: what there is, by group id.
    :param log: the log of every partition that ``ends`` does not name. Default: there is no other one.

    ``ends`` has partitions with a log of their own, or the error or the end that brokers answer for them; ``by_time``
    has the answers to questions for a time. ``deleted`` has the ids of deleted groups, in order.
    """

    def __init__(self, groups: Mapping[str, FakeGroup] | None = None, *, log: Log | None = None) -> None:
        self.groups = dict(groups or {})
        self.log = log
        self.ends: dict[TopicPartition, Log | ListedOffset | KafkaGroupsError] = {}
        self.by_time: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        self.times: list[int] = []
        self.ids: dict[str, str] = {}
        self.cluster: str | None = CLUSTER_ID
        self.without_states = False
        self.deleted: list[str] = []
        self.after_delete: Callable[[str], None] = lambda group_id: None

    def add(self, group_id: str, *rows: tuple[str, int, int], **facts: Any) -> FakeGroup:
        """Add a group with these commits (topic, partition, offset); ``facts`` are the arguments of ``FakeGroup``."""
        offsets = {TopicPartition(topic, partition): offset for topic, partition, offset in rows}
        group = self.groups[group_id] = FakeGroup(offsets, **facts)
        return group

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Commit as a consumer of the group does."""
        self.groups[group_id].offsets[TopicPartition(topic, partition)] = committed(offset)

    def _listings(self) -> Iterable[GroupListing]:
        unknown = self.without_states
        for group_id, group in self.groups.items():
            yield GroupListing(
                group_id=group_id,
                protocol_type=group.protocol_type,
                state=GroupState.UNKNOWN if unknown else group.state,
                type=GroupType.UNKNOWN if unknown else group.type,
                coordinator=group.coordinator,
            )

    def _described(self, group_id: str, operations: frozenset[str] | None) -> GroupDescription:
        group = self.groups.get(group_id)
        return describe(group_id, group, operations) if group else describe_dead(group_id, operations)

    def _offsets(self, group_id: str, spec: ListConsumerGroupOffsetsSpec | None) -> GroupOffsets:
        # A group that does not exist reads as "no offsets", without any error.
        group = self.groups.get(group_id)
        commits = group.offsets if group is not None else {}
        if group is not None and group.type is GroupType.SHARE and commits:
            starts = {where: OffsetAndMetadata(value.offset) for where, value in commits.items()}
            return ShareGroupOffsets(group_id, GroupOffsets.from_mapping(group_id, starts).topics)
        if spec is None or spec.topic_partitions is None:
            return GroupOffsets.from_mapping(group_id, dict(commits))
        return GroupOffsets.from_mapping(group_id, {where: commits.get(where) for where in spec.topic_partitions})

    def _delete(self, group_id: str) -> None:
        if self._existing(group_id).busy:
            raise broker_error("NON_EMPTY_GROUP")
        del self.groups[group_id]
        self.deleted.append(group_id)
        self.after_delete(group_id)

    def _alter(
        self, group_id: str, commits: Mapping[TopicPartition, OffsetAndMetadata], *, is_share: bool = False
    ) -> None:
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            group = FakeGroup({}, type=GroupType.SHARE, protocol_type="share")
            group = group if is_share else FakeGroup({}, protocol_type="")
        if is_share and (group.type is not GroupType.SHARE or group.busy):
            raise broker_error("NON_EMPTY_GROUP" if group.type is GroupType.SHARE else "GROUP_ID_NOT_FOUND")
        errors: dict[TopicPartition, KafkaGroupsError] = {}
        for where, value in commits.items():
            if not self._exists(where):
                errors[where] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
            elif group.type is GroupType.SHARE and not is_share:
                errors[where] = broker_error("GROUP_ID_NOT_FOUND")
            elif group.busy:
                errors[where] = broker_error("UNKNOWN_MEMBER_ID")
            else:
                group.offsets[where] = value
                self.groups[group_id] = group
        if errors:
            raise PartitionsFailedError(group_id, errors)

    def _remove(self, group_id: str, member: MemberToRemove) -> KafkaGroupsError | None:
        """Remove a member; return what brokers say where it is none, or joined again under the same name."""
        named = self.groups[group_id].named if group_id in self.groups else {}
        static = {instance_id: member_id for member_id, instance_id in named.items() if instance_id is not None}
        member_id = member.member_id
        if member.group_instance_id is not None:
            if member.group_instance_id not in static:
                return broker_error("UNKNOWN_MEMBER_ID")
            if member_id and static[member.group_instance_id] != member_id:
                return broker_error("FENCED_INSTANCE_ID")
            member_id = static[member.group_instance_id]
        if member_id not in named or not self.groups[group_id].classic_members:
            return broker_error("UNKNOWN_MEMBER_ID")
        del named[member_id]
        return None

    def _forget(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        group = self._existing(group_id)
        if group.busy and group.protocol_type != "consumer":
            raise broker_error("NON_EMPTY_GROUP")
        errors: dict[TopicPartition, KafkaGroupsError] = {}
        for where in partitions:
            if not self._exists(where):
                errors[where] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
            elif where.topic in group.subscribed:
                errors[where] = broker_error("GROUP_SUBSCRIBED_TO_TOPIC")
            else:
                group.offsets.pop(where, None)
        if errors:
            raise PartitionsFailedError(group_id, errors)

    def _existing(self, group_id: str) -> FakeGroup:
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            raise broker_error("GROUP_ID_NOT_FOUND")
        return group

    def _exists(self, where: TopicPartition) -> bool:
        return not isinstance(self.ends.get(where, self.log), KafkaGroupsError | None)

    def _listed(self, where: TopicPartition, spec: OffsetSpec) -> ListedOffset | KafkaGroupsError:
        answer = self.ends.get(where, self.log)
        if answer is None:
            return broker_error("UNKNOWN_TOPIC_OR_PARTITION")
        if isinstance(answer, KafkaGroupsError):
            return answer
        first, end = ((self.log or (0, 0))[0], answer) if isinstance(answer, ListedOffset) else answer
        if spec == OffsetSpec.earliest():
            return ListedOffset(first)
        if spec == OffsetSpec.latest():
            return end if isinstance(end, ListedOffset) else ListedOffset(end)
        self.times.append(spec.timestamp)
        return self.by_time.get(where, ListedOffset(-1))
