"""Membership in Kafka groups: the Coordinator interface for Python, and a lease built on it."""

from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.membership.actions import Phase
from airflow_kafka_groups.kafka.membership.lease import MaintenanceLease
from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.membership.session import MemberSession
from airflow_kafka_groups.kafka.membership.work_assignment import KafkaGroupMember

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
