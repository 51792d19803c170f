"""The core: Kafka's groups, batched, without Airflow (KIP-699, 709, 347), and membership in groups.

What is public is named here, and imported when it is asked for: tasks that plan, approve and report talk to no broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.arrow import to_arrow
    from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient
    from airflow_kafka_groups.kafka.admin.client.listing import ClusterDescription
    from airflow_kafka_groups.kafka.admin.lag import GroupLag, LagFlag, PartitionLag
    from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
    from airflow_kafka_groups.kafka.cluster.client import ClusterClient
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig
    from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
    from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
    from airflow_kafka_groups.kafka.membership.session import MemberSession
    from airflow_kafka_groups.kafka.membership.state import Phase
    from airflow_kafka_groups.kafka.models import (
        Broker,
        BrokerId,
        CoordinatorType,
        GroupDescription,
        GroupId,
        GroupListing,
        GroupOffsets,
        GroupState,
        GroupType,
        ListConsumerGroupOffsetsSpec,
        ListedOffset,
        MemberDescription,
        MemberToRemove,
        OffsetAndMetadata,
        OffsetSpec,
        TopicPartition,
    )

__all__ = [
    "AdminClient",
    "Broker",
    "BrokerId",
    "ClientConfig",
    "ClusterClient",
    "ClusterDescription",
    "CoordinatorType",
    "GroupDescription",
    "GroupId",
    "GroupLag",
    "GroupListing",
    "GroupListings",
    "GroupMember",
    "GroupOffsets",
    "GroupProtocol",
    "GroupResult",
    "GroupResults",
    "GroupState",
    "GroupType",
    "JoinedMember",
    "LagFlag",
    "ListConsumerGroupOffsetsSpec",
    "ListedOffset",
    "MaintenanceLease",
    "MemberDescription",
    "MemberOptions",
    "MemberSession",
    "MemberToRemove",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionLag",
    "Phase",
    "TopicPartition",
    "to_arrow",
]
_MODULES = {  # the others are in "models"
    "admin.arrow": ("to_arrow",),
    "admin.client.admin_client": ("AdminClient",),
    "admin.client.listing": ("ClusterDescription",),
    "admin.lag": ("GroupLag", "LagFlag", "PartitionLag"),
    "admin.results": ("GroupListings", "GroupResult", "GroupResults"),
    "cluster.client": ("ClusterClient",),
    "cluster.config": ("ClientConfig",),
    "membership.lease": ("MaintenanceLease",),
    "membership.member": ("GroupMember", "GroupProtocol", "JoinedMember", "MemberOptions"),
    "membership.session": ("MemberSession",),
    "membership.state": ("Phase",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "models")
    return getattr(import_module(f"{__name__}.{module}"), name)
