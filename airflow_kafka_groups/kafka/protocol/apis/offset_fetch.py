"""OffsetFetch: the committed offsets of groups.

v2 all topics, group error · v3 throttle time · v5 leader epoch · v6 flexible · v7 require_stable ·
v8 many groups (KIP-709) · v9 KIP-848 member ids · v10 topic ids (not used: see apis.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.exceptions import NoBatchedOffsetFetchError, UnsupportedVersionError
from airflow_kafka_groups.kafka.models import ListConsumerGroupOffsetsSpec, TopicOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, GroupOffsetsAnswer, OffsetFetchAnswer
from airflow_kafka_groups.kafka.protocol.apis import hot_codecs_offset_fetch as hot_codec
from airflow_kafka_groups.kafka.protocol.apis.hot_codecs_offset_fetch import FIRST_BATCHED_VERSION
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.protocol.protocol_apis import OFFSET_FETCH

FIRST_STABLE_VERSION = 7
ALL_PARTITIONS = ListConsumerGroupOffsetsSpec()


def build(
    group_ids: Sequence[str], specs: Mapping[str, ListConsumerGroupOffsetsSpec], require_stable: bool, version: int
) -> Message:
    """Build a request.

    :param specs: which partitions of which group; a group that is not in it is asked for all.

    Raises ``NoBatchedOffsetFetchError`` for several groups below v8, and ``UnsupportedVersionError`` for
    ``require_stable`` below v7: a broker that cannot hold unstable offsets back must not be taken to have done so.
    """
    if require_stable and version < FIRST_STABLE_VERSION:
        raise UnsupportedVersionError(
            f"OffsetFetch v{version} cannot be asked for stable offsets only; that takes v{FIRST_STABLE_VERSION}"
        )
    batched = version >= FIRST_BATCHED_VERSION
    if len(group_ids) > 1 and not batched:
        raise NoBatchedOffsetFetchError(
            f"OffsetFetch v{version} takes one group a request, not {len(group_ids)};"
            f" many take v{FIRST_BATCHED_VERSION}"
        )
    wanted = [specs.get(group_id, ALL_PARTITIONS).topic_partitions for group_id in group_ids] if specs else [None]
    if OFFSET_FETCH.is_flexible(version) and wanted.count(None) == len(wanted):
        return hot_codec.encode(group_ids, require_stable, version)
    schema = request_schema(OFFSET_FETCH, version)
    if batched:
        group_class, topic_class = schema.OffsetFetchRequestGroup, schema.OffsetFetchRequestTopics
        groups = tuple(
            group_class(group_id=group_id, topics=_topics(topic_class, partitions))
            for group_id, partitions in zip(group_ids, wanted, strict=True)
        )
        return schema.OffsetFetchRequest(groups=groups, require_stable=require_stable)
    topics = _topics(schema.OffsetFetchRequestTopic, wanted[0])
    return fitting(schema.OffsetFetchRequest, group_id=group_ids[0], topics=topics, require_stable=require_stable)


def _topics(topic_class: Any, partitions: Iterable[TopicPartition] | None) -> tuple[Any, ...] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in dict.fromkeys(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(topic_class(name=topic, partition_indexes=tuple(parts)) for topic, parts in by_topic.items())


def from_kio(response: Message) -> OffsetFetchAnswer:
    """Convert a response that kio has read. Below v8 it names no group, whose id is then empty (see ``named``)."""
    groups = []
    for group in getattr(response, "groups", (response,)):
        errors: dict[TopicPartition, ErrorCode] = {}
        topics = tuple([_topic_offsets(topic, errors) for topic in group.topics])
        groups.append(GroupOffsetsAnswer(getattr(group, "group_id", ""), ErrorCode(group.error_code), topics, errors))
    return OffsetFetchAnswer(getattr(response, "throttle_time", NO_THROTTLE), {}, groups)


def _topic_offsets(topic: Any, errors: dict[TopicPartition, ErrorCode]) -> TopicOffsets:
    errors |= {
        TopicPartition(topic.name, part.partition_index): ErrorCode(part.error_code)
        for part in topic.partitions
        if part.error_code
    }
    rows = [
        (part.partition_index, part.committed_offset, getattr(part, "committed_leader_epoch", -1), part.metadata or "")
        for part in topic.partitions
        if not part.error_code
    ]
    return TopicOffsets.of_rows(topic.name, rows)


def named(answer: OffsetFetchAnswer, group_ids: Sequence[str], version: int) -> OffsetFetchAnswer:
    """Fill in the group where the version has none; a version that has groups is never matched by position."""
    if version >= FIRST_BATCHED_VERSION:
        return answer
    (group_id,) = group_ids
    packed = dict.fromkeys(group_ids, answer.packed[""]) if answer.packed else {}
    groups = [group._replace(group_id=group_id) for group in answer.groups]
    return OffsetFetchAnswer(answer.throttle_time, packed, groups)
