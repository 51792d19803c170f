"""OffsetFetch: the committed offsets of groups.

v2 all topics, group error · v3 throttle time · v5 leader epoch · v6 flexible · v7 require_stable ·
v8 many groups (KIP-709) · v9 KIP-848 member ids · v10 topic ids (not used: see apis.py)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.exceptions import NoBatchedOffsetFetchError, UnsupportedVersionError
from airflow_kafka_groups.models import ListConsumerGroupOffsetsSpec, TopicOffsets, TopicPartition
from airflow_kafka_groups.protocol.apis import OFFSET_FETCH
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs import offset_fetch_writer
from airflow_kafka_groups.protocol.hot_codecs.offset_fetch import (
    FIRST_BATCHED_VERSION,
    OffsetFetchAnswers,
    OffsetsAnswer,
)
from airflow_kafka_groups.protocol.hot_codecs.offset_fetch_writer import FIRST_VERSION_WRITTEN_BY_HAND

FIRST_STABLE_VERSION = 7
_FIRST_EPOCH_VERSION = 5


def build(specs: Mapping[str, ListConsumerGroupOffsetsSpec], require_stable: bool, version: int) -> Message:
    """Make a request.

    Raises ``NoBatchedOffsetFetchError`` for several groups below v8, and ``UnsupportedVersionError`` for
    ``require_stable`` below v7: a broker that cannot hold unstable offsets back must not be taken to have done so.
    """
    if require_stable and version < FIRST_STABLE_VERSION:
        raise UnsupportedVersionError(
            f"OffsetFetch v{version} cannot be asked for stable offsets only; that takes v{FIRST_STABLE_VERSION}"
        )
    batched = version >= FIRST_BATCHED_VERSION
    if len(specs) > 1 and not batched:
        raise NoBatchedOffsetFetchError(
            f"OffsetFetch v{version} takes one group a request, not {len(specs)}; many take v{FIRST_BATCHED_VERSION}"
        )
    if version >= FIRST_VERSION_WRITTEN_BY_HAND and all(spec.topic_partitions is None for spec in specs.values()):
        write = offset_fetch_writer.write_many if batched else offset_fetch_writer.write_one
        return write(specs, require_stable, version)
    schema = request_schema(OFFSET_FETCH, version)
    if batched:
        group_class, topic_class = schema.OffsetFetchRequestGroup, schema.OffsetFetchRequestTopics
        groups = tuple(
            group_class(group_id=group_id, topics=_topics(topic_class, spec)) for group_id, spec in specs.items()
        )
        return schema.OffsetFetchRequest(groups=groups, require_stable=require_stable)
    ((group_id, spec),) = specs.items()
    fields: dict[str, Any] = {"group_id": group_id, "topics": _topics(schema.OffsetFetchRequestTopic, spec)}
    if version >= FIRST_STABLE_VERSION:
        fields["require_stable"] = require_stable
    return schema.OffsetFetchRequest(**fields)


def _topics(topic_class: Any, spec: ListConsumerGroupOffsetsSpec) -> tuple[Any, ...] | None:
    if spec.topic_partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in dict.fromkeys(spec.topic_partitions):
        by_topic.setdefault(topic, []).append(partition)
    return tuple(topic_class(name=topic, partition_indexes=tuple(parts)) for topic, parts in by_topic.items())


def parse(response: Message, version: int, group_ids: Sequence[str]) -> Iterator[OffsetsAnswer]:
    """Give the answer for each group the broker named, whichever way it was read (see ``responses.py``)."""
    if isinstance(response, OffsetFetchAnswers):
        if version >= FIRST_BATCHED_VERSION:
            yield from response.answers
        else:
            yield response.answers[0]._replace(group_id=group_ids[0])
        return
    if version >= FIRST_BATCHED_VERSION:
        for group in response.groups:
            topics, errors = _read_topics(group.topics, version)
            yield OffsetsAnswer(group.group_id, group.error_code, topics, errors)
        return
    topics, errors = _read_topics(response.topics, version)
    yield OffsetsAnswer(group_ids[0], response.error_code, topics, errors)


_NO_ERRORS: dict[TopicPartition, ErrorCode] = {}


def _read_topics(
    topics: Sequence[Any], version: int
) -> tuple[tuple[TopicOffsets, ...], dict[TopicPartition, ErrorCode]]:
    has_epoch = version >= _FIRST_EPOCH_VERSION
    none = ErrorCode.none
    columns = []
    errors = _NO_ERRORS
    for topic in topics:
        partitions = topic.partitions
        bad = [part for part in partitions if part.error_code is not none]
        if bad:
            errors = errors | {TopicPartition(topic.name, part.partition_index): part.error_code for part in bad}
            partitions = [part for part in partitions if part.error_code is none]
        metadata = tuple([part.metadata or "" for part in partitions])
        columns.append(
            TopicOffsets(
                topic.name,
                array("i", [part.partition_index for part in partitions]),
                array("q", [part.committed_offset for part in partitions]),
                array("i", [part.committed_leader_epoch if has_epoch else -1 for part in partitions]),
                metadata if any(metadata) else None,
            )
        )
    return tuple(columns), errors
