"""The batching core: one request for many groups, an answer for each, fallback per broker (KIP-699, 709, 347).

The client is imported when it is asked for: tasks that plan, approve and report use results, and talk to no broker.
"""

from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.kafka.admin.arrow import to_arrow
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LagFlag, PartitionLag
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import ListConsumerGroupOffsetsSpec

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.client import AdminClient
    from airflow_kafka_groups.kafka.admin.client.listing import ClusterDescription
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig

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
_CLIENT = {
    "AdminClient": "airflow_kafka_groups.kafka.admin.client",
    "ClientConfig": "airflow_kafka_groups.kafka.cluster.config",
    "ClusterDescription": "airflow_kafka_groups.kafka.admin.client.listing",
}


def __getattr__(name: str) -> Any:
    """Import what belongs to the client when it is asked for."""
    from importlib import import_module

    if name not in _CLIENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_CLIENT[name]), name)
