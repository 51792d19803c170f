"""Membership in Kafka groups: the Coordinator interface for Python, and a lease built on it."""

from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.membership.actions import Phase
from airflow_kafka_groups.membership.lease import MaintenanceLease
from airflow_kafka_groups.membership.member import GroupMember, GroupProtocol, JoinedMember
from airflow_kafka_groups.membership.options import MemberOptions
from airflow_kafka_groups.membership.session import MemberSession
from airflow_kafka_groups.membership.work_assignment import KafkaGroupMember

__all__ = [
    "ClientConfig",
    "ClusterClient",
    "GroupMember",
    "GroupProtocol",
    "JoinedMember",
    "KafkaGroupMember",
    "MaintenanceLease",
    "MemberOptions",
    "MemberSession",
    "Phase",
]
