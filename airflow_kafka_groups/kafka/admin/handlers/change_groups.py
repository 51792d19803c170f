"""Change a group from outside: set offsets (OffsetCommit), forget some (OffsetDelete, KIP-496), remove members.

All take one group a request, and an answer that was lost is not sent again: meanwhile a consumer may have started, and
what was meant for an empty group would rewind a live one; or a static member may have joined again.

A broker writes the offsets of one OffsetCommit as ONE atomic batch. Consumers commit what each of them reads, so a
group may have more offsets than a batch holds: 300 with 4,000 bytes of metadata each, or 10,000 with long names. In one
request, all of them fail: with INVALID_COMMIT_OFFSET_SIZE up to Kafka 3.9, with UNKNOWN_SERVER_ERROR from 4.0 on. So
such a group is committed in slices, each at most half of what a batch holds as brokers are shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import ClassVar, TypeAlias, cast

from airflow_kafka_groups.exceptions import ConnectionFailedError, KafkaGroupsError, PartitionsFailedError
from airflow_kafka_groups.kafka.admin.engine.handler import ChangingHandler, HandlerResult, KeyStatus
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import BUDGET_BYTES, cut
from airflow_kafka_groups.kafka.models import BrokerId, GroupOffsets, MemberToRemove, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import LeaveAnswer, OffsetChangeAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    ALTER_SHARE_OFFSETS,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis import membership, offset_commit, share_offsets
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

Commits = Mapping[TopicPartition, OffsetAndMetadata]

_RECORD_BYTES = 80  # at most: 44 of key and value, a topic id of Kafka 4, the varints of a long batch


def commit_bytes(group_id: str, offsets: Commits) -> int:
    """Return about how many bytes a broker writes for a commit of these offsets, which are in columns."""
    found, size = 0, _RECORD_BYTES + len(group_id.encode())
    for topic in cast("GroupOffsets", offsets).topics:
        found += len(topic) * (size + len(topic.topic.encode()))
        if topic.metadata is not None:
            found += sum(len(text.encode()) for text in topic.metadata)
    return found


def commit_slices(group_id: str, offsets: Commits, budget: int = BUDGET_BYTES) -> list[Commits]:
    """Split the offsets of one group into parts of at most so many bytes, or of one offset."""
    size = _RECORD_BYTES + len(group_id.encode())

    def size_of(item: tuple[TopicPartition, OffsetAndMetadata]) -> int:
        return size + len(item[0].topic.encode()) + len(item[1].metadata.encode())

    parts = cut(offsets.items(), size_of, budget)
    return [cast("Commits", GroupOffsets.from_mapping(group_id, dict(part))) for part in parts]


_TRIES = 3


@dataclass(frozen=True, slots=True)
class DeleteGroupOffsetsHandler(ChangingHandler[str, None]):
    """OffsetDelete of partitions of each group."""

    offsets: Mapping[str, Iterable[TopicPartition]]
    api: ClassVar[Api] = OFFSET_DELETE
    batch_size: ClassVar[int] = 1
    body: ClassVar[Callable[..., Message]] = staticmethod(offset_commit.build_delete)

    def build(self, keys: Sequence[str], version: int) -> Message:
        (group_id,) = keys
        return self.body(group_id, self.offsets[group_id], version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetChangeAnswer
    ) -> HandlerResult[str, None]:
        (group_id,) = keys
        asked = self.offsets[group_id]
        result: HandlerResult[str, None] = HandlerResult()
        if response.error is not ErrorCode.none:
            self.add_code(result, group_id, response.error, broker_id)
            return result
        if _is_all_changed(asked, response.partitions):  # as nearly always: without an object for each partition
            return HandlerResult({group_id: None})
        errors: dict[TopicPartition, KafkaGroupsError] = {}
        whole: set[KeyStatus] = set()
        for partition in asked:
            code = response.partitions.get(partition)
            if code is ErrorCode.none:
                continue
            part = f"group {group_id!r}, {partition.topic}[{partition.partition}]"
            errors[partition] = self.error_of_part(code, broker_id, part)
            if code is not None:
                whole.add(self.codes.get(code, KeyStatus.FAILED))
        if not errors:
            return HandlerResult({group_id: None})
        if len(whole) == 1 and len(errors) == len(set(asked)) and whole != {KeyStatus.FAILED}:
            # The coordinator's own trouble: it says so for every partition, and nothing was changed.
            result.add_error(whole.pop(), group_id, next(iter(errors.values())))
        else:
            result.failed[group_id] = PartitionsFailedError(group_id, errors)
        return result


@dataclass(frozen=True, slots=True)
class AlterGroupOffsetsHandler(DeleteGroupOffsetsHandler):
    """OffsetCommit from outside a group.

    A broker works on one request of a connection at a time, and waits for the replicas of each commit. So commits of
    many groups go over several connections.

    :param connections: to each broker.
    :param gives_up: fail soon where a broker cannot be reached, as no other one is asked. Default false.
    :param turns: the number of the connection of each group. Default: the broker's own one.
    """

    connections: int = 1
    gives_up: bool = False
    turns: Mapping[str, int] = field(default_factory=dict)
    api: ClassVar[Api] = OFFSET_COMMIT
    body: ClassVar[Callable[..., Message]] = staticmethod(offset_commit.build)

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        return _TRIES if self.gives_up and isinstance(error, ConnectionFailedError) else None


class AlterShareOffsetsHandler(AlterGroupOffsetsHandler):
    """AlterShareGroupOffsets (KIP-932): the start offsets of share groups, in the place of committed offsets."""

    __slots__ = ()
    api: ClassVar[Api] = ALTER_SHARE_OFFSETS
    body: ClassVar[Callable[..., Message]] = staticmethod(share_offsets.build_alter)


def _is_all_changed(asked: Iterable[TopicPartition], codes: Mapping[TopicPartition, ErrorCode]) -> bool:
    if not isinstance(asked, GroupOffsets) or any(codes.values()):
        return False
    # A plain pair is the key of a TopicPartition, too.
    places = (zip(repeat(topic.topic), topic.flat_rows()[0::3]) for topic in asked.topics)
    return all(map(codes.__contains__, chain.from_iterable(places)))


MemberErrors: TypeAlias = dict[MemberToRemove, KafkaGroupsError | None]


@dataclass(frozen=True, slots=True)
class RemoveMembersHandler(ChangingHandler[str, MemberErrors]):
    """LeaveGroup from outside a group, for members of each group, with a reason that brokers log."""

    members: Mapping[str, Sequence[MemberToRemove]]
    reason: str = ""
    api: ClassVar[Api] = LEAVE_GROUP
    batch_size: ClassVar[int] = 1

    def build(self, keys: Sequence[str], version: int) -> Message:
        (group_id,) = keys
        return membership.build_leave(group_id, self.members[group_id], version, self.reason)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: LeaveAnswer
    ) -> HandlerResult[str, MemberErrors]:
        (group_id,) = keys
        asked, errors, codes = self.members[group_id], MemberErrors(), dict(response.members)
        result = HandlerResult({group_id: errors})
        if response.error is not ErrorCode.none:
            result = HandlerResult()
            self.add_code(result, group_id, response.error, broker_id)
            return result
        for member in asked:
            shown = f"member {member.group_instance_id or member.member_id!r} of {self.subject(group_id)}"
            found = codes.get(member)
            errors[member] = None if found is ErrorCode.none else self.error_of_part(found, broker_id, shown)
        return result
