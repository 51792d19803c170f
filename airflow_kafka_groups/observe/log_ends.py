"""The starts and ends of logs, each of which is known, or has the reason why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


class Unread(str):
    """Why a group is kept, or a partition left out, of which nobody knows how it is: the task has to fail."""

    __slots__ = ()


Ends = Mapping[TopicPartition, tuple[int, int] | str]


async def log_ends(admin: MaintenanceClient, partitions: Iterable[TopicPartition]) -> Ends:
    """Return (log start, log end) of each partition, or why they are unknown."""
    wanted = list(dict.fromkeys(partitions))
    if not wanted:
        return {}
    starts = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.earliest()))
    ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.latest()))
    found: dict[TopicPartition, tuple[int, int] | str] = {}
    for where in wanted:
        start, end = starts.get(where), ends.get(where)
        if isinstance(start, ListedOffset) and isinstance(end, ListedOffset) and 0 <= start.offset <= end.offset:
            found[where] = (start.offset, end.offset)
        else:
            error = next((item for item in (start, end) if isinstance(item, KafkaGroupsError)), None)
            found[where] = left_out(f"the log start and end cannot be read: {error or 'no result'}", error)
    return found


def left_out(reason: str, error: object) -> str:
    """Return why a partition is left out: as ``Unread``, unless the brokers say that it does not exist."""
    gone = isinstance(error, BrokerError) and error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    return reason if gone else Unread(reason)
