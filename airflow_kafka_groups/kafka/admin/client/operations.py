"""What this user may do, asked and never tried: authorized operations of the cluster, topics and groups (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_groups.exceptions import BrokerError, ConnectionFailedError, RequestTimeoutError
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.models import BrokerId, CoordinatorType
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS, METADATA
from airflow_kafka_groups.kafka.protocol.apis import describe_groups, metadata
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

ABSENT_TOPIC = "airflow-kafka-groups.no-such-topic"
"""A topic that nobody made, and that asking for it does not create."""
_TRIES = 3


async def authorized_operations(calls: Calls, topics: Iterable[str]) -> MetadataAnswer:
    """Ask what this user may do with the cluster and with some topics; another broker, where one is lost or silent."""
    names, asked = group_ids_of(topics, "topics"), list[BrokerId]()
    calls.cluster.home.require()
    while True:
        broker_id, connection = await calls.cluster.any_connection(asked)
        asked.append(broker_id)
        try:
            answer: MetadataAnswer = await calls.ask_once(
                broker_id,
                connection,
                METADATA,
                lambda version: metadata.build(names, version, include_authorized_operations=True),
                newest=metadata.LAST_VERSION_WITH_CLUSTER_OPERATIONS,  # later ones leave the cluster's operations out
            )
        except (ConnectionFailedError, RequestTimeoutError):
            if len(asked) == _TRIES:
                raise
        else:
            return answer


def shows_absent_topic(answer: MetadataAnswer) -> bool:
    """Return whether an answer about ``ABSENT_TOPIC`` is a clear one: that there is no such topic, or what it is."""
    absent = answer.errors.get(ABSENT_TOPIC) is ErrorCode.unknown_topic_or_partition
    return absent or ABSENT_TOPIC in answer.partition_counts


async def group_operations(calls: Calls, group_id: str) -> frozenset[str] | None:
    """Ask what this user may do with a group; ``None`` where the broker is too old to say.

    Raises the error of the lookup or of the group, unless this user may not even describe it: then nothing is allowed.
    """
    found = (await calls.find_coordinators([group_id], CoordinatorType.GROUP))[group_id]
    if isinstance(found.error, BrokerError) and found.error.code == ErrorCode.group_authorization_failed:
        return frozenset()
    broker_id = found.unwrap().broker_id
    response = await calls.ask_once(
        broker_id,
        await calls.cluster.connection(broker_id),
        DESCRIBE_GROUPS,
        lambda version: describe_groups.build(DESCRIBE_GROUPS, [group_id], True, version),
        newest=describe_groups.LAST_VERSION_OF_ABSENT_GROUPS,  # later versions say nothing of a group that is not there
    )
    ((_, answer),) = response.groups
    if answer.error is ErrorCode.group_authorization_failed:
        return frozenset()
    if answer.error is not ErrorCode.none:
        raise broker_error(answer.error, DESCRIBE_GROUPS, broker_id=broker_id, subject=f"group {group_id!r}")
    allowed: frozenset[str] | None = answer.authorized_operations
    return allowed
