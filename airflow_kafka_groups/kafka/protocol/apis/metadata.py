"""Metadata: the brokers of the cluster, and the leaders of partitions.

v1 controller, null = all topics · v2 cluster id · v4 no auto-creation · v8 authorized operations · v9 flexible ·
v10 topic ids · v12 topics by id
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.serial.readers import (
    read_boolean,
    read_compact_string,
    read_compact_string_nullable,
    read_int32,
    read_timedelta_i32,
)

from airflow_kafka_groups.kafka.models import Broker
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, MetadataAnswer, TopicAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    boolean,
    fitting,
    read_error_code,
    request_schema,
    string,
    uvarint,
)
from airflow_kafka_groups.kafka.protocol.error_codes import UNKNOWN_OPERATIONS, ErrorCode

LAST_VERSION_WITH_CLUSTER_OPERATIONS = 10
"""From v11 on, DescribeCluster has them; brokers go on supporting v10."""

_FIRST_VERSION_WITH_TOPIC_IDS = 10
_FIRST_VERSION_WITH_NULL_NAMES = 12
_ID_SIZE = 16
_NO_ID = b"\x00" * _ID_SIZE


def build(topics: Sequence[str], version: int, *, include_authorized_operations: bool = False) -> Message:
    """Build a request about some topics (or none); it creates no topic from v4 on."""
    if METADATA.is_flexible(version):
        before = _NO_ID if version >= _FIRST_VERSION_WITH_TOPIC_IDS else b""
        asked = boolean(include_authorized_operations)
        names = b"".join(before + string(topic) + NO_TAGS for topic in topics)
        of_cluster = asked if version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS else b""
        return uvarint(len(topics) + 1) + names + boolean(False) + of_cluster + asked + NO_TAGS
    schema = request_schema(METADATA, version)
    return fitting(
        schema.MetadataRequest,
        topics=tuple(schema.MetadataRequestTopic(name=topic) for topic in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_authorized_operations,
        include_cluster_authorized_operations=include_authorized_operations,
    )


def from_kio(response: Message) -> MetadataAnswer:
    return MetadataAnswer.of(
        getattr(response, "throttle_time", NO_THROTTLE),
        getattr(response, "cluster_id", None),
        [
            Broker(broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in response.brokers
        ],
        [
            TopicAnswer(
                ErrorCode(topic.error_code),
                topic.name or "",
                getattr(topic, "topic_authorized_operations", UNKNOWN_OPERATIONS),
                [(part.partition_index, part.leader_id) for part in topic.partitions],
                topic.topic_id.bytes if getattr(topic, "topic_id", None) else b"",
            )
            for topic in response.topics
        ],
        getattr(response, "cluster_authorized_operations", UNKNOWN_OPERATIONS),
    )


def decode(frame: bytes, version: int) -> MetadataAnswer:
    """Decode a response frame of v9 to v12: every client's first answer."""
    reader = CompactReader(frame)
    throttle = reader.read(read_timedelta_i32)
    brokers = tuple([_read_broker(reader) for _ in range(reader.array_length())])
    cluster_id = reader.read(read_compact_string_nullable)
    reader.read(read_int32)  # the controller
    topics = [_read_topic(reader, version) for _ in range(reader.array_length())]
    has_operations = version <= LAST_VERSION_WITH_CLUSTER_OPERATIONS
    allowed = reader.read(read_int32) if has_operations else UNKNOWN_OPERATIONS
    reader.end()
    return MetadataAnswer.of(throttle, cluster_id, brokers, topics, allowed)


def _read_broker(reader: CompactReader) -> Broker:
    read = reader.read
    broker = Broker(
        broker_id=read(read_int32),
        host=read(read_compact_string),
        port=read(read_int32),
        rack=read(read_compact_string_nullable),
    )
    reader.skip_tags()
    return broker


def _read_topic(reader: CompactReader, version: int) -> TopicAnswer:
    read = reader.read
    error = read(read_error_code)
    has_null_names = version >= _FIRST_VERSION_WITH_NULL_NAMES
    name = (read(read_compact_string_nullable) or "") if has_null_names else read(read_compact_string)
    start = reader.position
    if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        reader.skip(_ID_SIZE)
    topic_id = reader.data[start : reader.position]
    read(read_boolean)  # whether it is internal
    leaders = [_read_leader(reader) for _ in range(reader.array_length())]
    topic = TopicAnswer(error, name, read(read_int32), leaders, topic_id)
    reader.skip_tags()
    return topic


def _read_leader(reader: CompactReader) -> tuple[int, int]:
    read = reader.read
    read(read_error_code)
    leader = read(read_int32), read(read_int32)
    read(read_int32)  # the leader's epoch
    for _ in ("replicas", "in sync", "offline"):
        reader.skip(4 * reader.array_length())
    reader.skip_tags()
    return leader
