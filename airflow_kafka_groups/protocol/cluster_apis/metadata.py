"""Metadata: the brokers of the cluster, and the leaders of partitions.

v1 controller, null = all topics · v2 cluster id · v4 no auto-creation · v8 authorized operations · v9 flexible ·
v10 topic ids · v12 topics by id
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_groups.models import Broker
from airflow_kafka_groups.protocol.answers import NO_THROTTLE, MetadataAnswer, TopicAnswer
from airflow_kafka_groups.protocol.apis import METADATA
from airflow_kafka_groups.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.protocol.hot_codecs import metadata as hot_codec
from airflow_kafka_groups.protocol.operations import UNKNOWN_OPERATIONS

LAST_VERSION_WITH_CLUSTER_OPERATIONS = hot_codec.LAST_VERSION_WITH_CLUSTER_OPERATIONS
"""From v11 on, DescribeCluster has them; brokers go on supporting v10."""


def build(topics: Sequence[str], version: int, *, include_authorized_operations: bool = False) -> Message:
    """Build a request about some topics (or none); it creates no topic from v4 on."""
    if METADATA.is_flexible(version):
        return hot_codec.encode(topics, version, include_authorized_operations=include_authorized_operations)
    schema = request_schema(METADATA, version)
    return fitting(
        schema.MetadataRequest,
        topics=tuple(schema.MetadataRequestTopic(name=topic) for topic in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_authorized_operations,
        include_cluster_authorized_operations=include_authorized_operations,
    )


def from_kio(response: Message) -> MetadataAnswer:
    """Convert a response that kio has read."""
    return MetadataAnswer.of(
        getattr(response, "throttle_time", NO_THROTTLE),
        getattr(response, "cluster_id", None),
        [
            Broker(broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in response.brokers
        ],
        [
            TopicAnswer(
                topic.error_code,
                topic.name or "",
                getattr(topic, "topic_authorized_operations", UNKNOWN_OPERATIONS),
                [(part.partition_index, part.leader_id) for part in topic.partitions],
            )
            for topic in response.topics
        ],
        getattr(response, "cluster_authorized_operations", UNKNOWN_OPERATIONS),
    )
