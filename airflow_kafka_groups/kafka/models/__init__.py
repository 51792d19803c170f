"""The values of the package: groups, brokers, partitions, offsets."""

from __future__ import annotations

from airflow_kafka_groups.kafka.models.cluster import Broker, BrokerId, CoordinatorType, TopicPartition
from airflow_kafka_groups.kafka.models.groups import (
    LEASE_GROUP_ID,
    GroupDescription,
    GroupId,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
)
from airflow_kafka_groups.kafka.models.offsets import (
    NO_OFFSET,
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    OffsetAndMetadata,
    OffsetSpec,
    PackedGroups,
    TopicOffsets,
)

__all__ = [
    "LEASE_GROUP_ID",
    "Broker",
    "BrokerId",
    "CoordinatorType",
    "GroupDescription",
    "GroupId",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "ListConsumerGroupOffsetsSpec",
    "ListedOffset",
    "MemberDescription",
    "NO_OFFSET",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PackedGroups",
    "TopicOffsets",
    "TopicPartition",
]
