"""The batching core: one request for many groups, an answer for each, fallback per broker (KIP-699, 709, 347)."""

from airflow_kafka_groups.admin.arrow import to_arrow
from airflow_kafka_groups.admin.client import AdminClient
from airflow_kafka_groups.admin.client.listing import ClusterDescription
from airflow_kafka_groups.admin.lag import GroupLag, LagFlag, PartitionLag
from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.models import ListConsumerGroupOffsetsSpec

__all__ = [
    "AdminClient",
    "ClientConfig",
    "ClusterDescription",
    "GroupLag",
    "GroupListings",
    "GroupResult",
    "GroupResults",
    "LagFlag",
    "ListConsumerGroupOffsetsSpec",
    "PartitionLag",
    "to_arrow",
]
