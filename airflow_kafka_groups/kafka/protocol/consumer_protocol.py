"""ConsumerProtocol: the data of consumers inside JoinGroup and SyncGroup (protocol type "consumer").

An int16 version, then a message of that version. A reader uses the newest version that it knows and ignores
the rest.
Subscription: v0 topics, user data · v1 owned partitions (KIP-429) · v2 generation (KIP-792) · v3 rack (KIP-881).
Assignment: v0 partitions, user data · v1-v3 the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from types import ModuleType
from typing import Any

from kio.index import load_entity_module
from kio.serial import entity_reader
from kio.static.constants import EntityType

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.codec import Message, by_topic, encode_body, fitting

NEWEST = 3
_SUBSCRIPTION = "consumer_protocol_subscription"
_ASSIGNMENT = "consumer_protocol_assignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A consumer's metadata; what a version does not carry has its default."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the leader assigned to a consumer."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = 1) -> bytes:
    """Write a subscription. Default: v1, which every consumer since Kafka 2.3 reads."""
    schema = _schema(_SUBSCRIPTION, version)
    message = fitting(
        schema.ConsumerProtocolSubscription,
        topics=tuple(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=by_topic(schema.TopicPartition, subscription.owned, itemgetter(1)) if version >= 1 else (),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _write(version, message)


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription. Raises ``RemoteProtocolError`` when it cannot be read."""
    message = _read(_SUBSCRIPTION, "ConsumerProtocolSubscription", data)
    return Subscription(
        topics=tuple(message.topics),
        user_data=message.user_data,
        owned=_partitions(getattr(message, "owned_partitions", ())),
        generation=getattr(message, "generation_id", -1),
        rack=getattr(message, "rack_id", None),
    )


def encode_assignment(assignment: Assignment, version: int = 1) -> bytes:
    """Write an assignment."""
    schema = _schema(_ASSIGNMENT, version)
    partitions = by_topic(schema.TopicPartition, assignment.partitions, itemgetter(1))
    message = schema.ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=assignment.user_data)
    return _write(version, message)


def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment; no bytes at all are no partitions. Raises ``RemoteProtocolError`` when it cannot be read."""
    if not data:
        return Assignment()
    message = _read(_ASSIGNMENT, "ConsumerProtocolAssignment", data)
    return Assignment(partitions=_partitions(message.assigned_partitions), user_data=message.user_data)


def read_assignment(data: bytes) -> Assignment | None:
    """Return an assignment; ``None`` where the client wrote something of its own."""
    try:
        return decode_assignment(data)
    except RemoteProtocolError:
        return None


def subscribed_topics(data: bytes) -> tuple[str, ...] | None:
    """Return the topics of a subscription; ``None`` without one, or if the client wrote something of its own."""
    try:
        return decode_subscription(data).topics if data else None
    except RemoteProtocolError:
        return None


@cache
def _schema(name: str, version: int) -> ModuleType:
    return load_entity_module(name, version, EntityType.data)


def _write(version: int, message: Message) -> bytes:
    return version.to_bytes(2, "big", signed=True) + encode_body(message)


def _read(name: str, class_name: str, data: bytes) -> Any:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise RemoteProtocolError(f"{class_name} of {len(data)} bytes has no version")
    try:
        message, _ = entity_reader(getattr(_schema(name, min(version, NEWEST)), class_name))(data, 2)
    except Exception as error:  # kio's own errors, ValueError, UnicodeDecodeError: all mean the same here
        raise RemoteProtocolError(f"{class_name} v{version} cannot be read: {error!r}") from error
    return message


def _partitions(topics: Sequence[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(item.topic, partition) for item in topics for partition in item.partitions)
