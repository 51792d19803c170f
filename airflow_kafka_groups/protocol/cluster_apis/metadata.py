"""Metadata: the brokers of the cluster, and the leaders of partitions.

v1 controller, null = all topics · v2 cluster id · v4 no auto-creation · v8 authorized operations · v9 flexible ·
v10 topic ids · v12 topics by id
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.models import Broker, BrokerId, TopicPartition
from airflow_kafka_groups.protocol.apis import METADATA
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs import metadata as metadata_by_hand
from airflow_kafka_groups.protocol.operations import UNKNOWN_OPERATIONS, operations


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """Be the cluster as one broker sees it; ``leaders`` has only partitions that have one.

    What this user may do is known only where it was asked for (v8 to v10). Topic ids (KIP-516) are written as Kafka's
    own tools write them; there are none before v10, nor in a cluster that never gave any.
    """

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    leaders: Mapping[TopicPartition, BrokerId] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(default_factory=dict)
    cluster_operations: frozenset[str] | None = None
    topic_operations: Mapping[str, frozenset[str] | None] = field(default_factory=dict)


def build(topics: Sequence[str], version: int, *, include_authorized_operations: bool = False) -> Message:
    """Make a request about some topics (or none); never creates a topic where the version can say so."""
    if METADATA.is_flexible(version):
        return metadata_by_hand.write(topics, version, include_authorized_operations=include_authorized_operations)
    schema = request_schema(METADATA, version)
    fields: dict[str, Any] = {"topics": tuple(schema.MetadataRequestTopic(name=topic) for topic in topics)}
    if version >= 4:
        fields["allow_auto_topic_creation"] = False
    if version >= 8:
        fields["include_topic_authorized_operations"] = include_authorized_operations
        fields["include_cluster_authorized_operations"] = include_authorized_operations
    return schema.MetadataRequest(**fields)


def parse(response: Message) -> MetadataAnswer:
    """Read brokers, leaders and errors."""
    brokers = tuple(
        Broker(broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
        for broker in response.brokers
    )
    leaders: dict[TopicPartition, BrokerId] = {}
    counts: dict[str, int] = {}
    errors: dict[str, ErrorCode] = {}
    allowed: dict[str, frozenset[str] | None] = {}
    for topic in response.topics:
        if topic.error_code is not ErrorCode.none:
            errors[topic.name] = topic.error_code
            continue
        counts[topic.name] = len(topic.partitions)
        allowed[topic.name] = operations(getattr(topic, "topic_authorized_operations", UNKNOWN_OPERATIONS))
        for part in topic.partitions:
            if part.leader_id >= 0:
                leaders[TopicPartition(topic.name, part.partition_index)] = part.leader_id
    of_cluster = operations(getattr(response, "cluster_authorized_operations", UNKNOWN_OPERATIONS))
    cluster_id = getattr(response, "cluster_id", None)
    return MetadataAnswer(cluster_id, brokers, leaders, counts, errors, of_cluster, allowed)
