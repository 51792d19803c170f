"""The core: Kafka's groups, batched, without Airflow (KIP-699, 709, 347), and membership in groups.

What is public is imported here ``as`` it is called, when it is asked for: tasks that plan, approve and report talk to
no broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.arrow import to_arrow as to_arrow
    from airflow_kafka_groups.kafka.admin.client.admin_client import AdminClient as AdminClient
    from airflow_kafka_groups.kafka.admin.client.listing import ClusterDescription as ClusterDescription
    from airflow_kafka_groups.kafka.admin.lag import GroupLag as GroupLag
    from airflow_kafka_groups.kafka.admin.lag import LagFlag as LagFlag
    from airflow_kafka_groups.kafka.admin.lag import PartitionLag as PartitionLag
    from airflow_kafka_groups.kafka.admin.results import GroupListings as GroupListings
    from airflow_kafka_groups.kafka.admin.results import GroupResult as GroupResult
    from airflow_kafka_groups.kafka.admin.results import GroupResults as GroupResults
    from airflow_kafka_groups.kafka.cluster.client import ClusterClient as ClusterClient
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig as ClientConfig
    from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease as MaintenanceLease
    from airflow_kafka_groups.kafka.membership.member import GroupMember as GroupMember
    from airflow_kafka_groups.kafka.membership.member import GroupProtocol as GroupProtocol
    from airflow_kafka_groups.kafka.membership.member import JoinedMember as JoinedMember
    from airflow_kafka_groups.kafka.membership.member import MemberOptions as MemberOptions
    from airflow_kafka_groups.kafka.membership.session import MemberSession as MemberSession
    from airflow_kafka_groups.kafka.membership.state import Phase as Phase
    from airflow_kafka_groups.kafka.models import Broker as Broker
    from airflow_kafka_groups.kafka.models import BrokerId as BrokerId
    from airflow_kafka_groups.kafka.models import CoordinatorType as CoordinatorType
    from airflow_kafka_groups.kafka.models import GroupDescription as GroupDescription
    from airflow_kafka_groups.kafka.models import GroupId as GroupId
    from airflow_kafka_groups.kafka.models import GroupListing as GroupListing
    from airflow_kafka_groups.kafka.models import GroupOffsets as GroupOffsets
    from airflow_kafka_groups.kafka.models import GroupState as GroupState
    from airflow_kafka_groups.kafka.models import GroupType as GroupType
    from airflow_kafka_groups.kafka.models import ListConsumerGroupOffsetsSpec as ListConsumerGroupOffsetsSpec
    from airflow_kafka_groups.kafka.models import ListedOffset as ListedOffset
    from airflow_kafka_groups.kafka.models import MemberDescription as MemberDescription
    from airflow_kafka_groups.kafka.models import MemberToRemove as MemberToRemove
    from airflow_kafka_groups.kafka.models import OffsetAndMetadata as OffsetAndMetadata
    from airflow_kafka_groups.kafka.models import OffsetSpec as OffsetSpec
    from airflow_kafka_groups.kafka.models import TopicPartition as TopicPartition

_MODULES = {
    "to_arrow": "admin.arrow",
    "AdminClient": "admin.client.admin_client",
    "ClusterDescription": "admin.client.listing",
    "GroupLag": "admin.lag",
    "LagFlag": "admin.lag",
    "PartitionLag": "admin.lag",
    "GroupListings": "admin.results",
    "GroupResult": "admin.results",
    "GroupResults": "admin.results",
    "ClusterClient": "cluster.client",
    "ClientConfig": "cluster.config",
    "MaintenanceLease": "membership.lease",
    "GroupMember": "membership.member",
    "GroupProtocol": "membership.member",
    "JoinedMember": "membership.member",
    "MemberOptions": "membership.member",
    "MemberSession": "membership.session",
    "Phase": "membership.state",
}
"""Where public names are. Default: in ``models``."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'models')}"), name)
