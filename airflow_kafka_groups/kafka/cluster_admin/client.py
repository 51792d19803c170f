"""``ClusterAdmin``: ordinary admin calls, with the method names of confluent-kafka's own client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConnectionFailedError,
    KafkaGroupsError,
    MissingAnswerError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.patience import Patience
from airflow_kafka_groups.kafka.cluster_admin.records import LogRecord, Span, SpanRecords, read_spans
from airflow_kafka_groups.kafka.cluster_admin.session import Session, in_session
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

T = TypeVar("T")

OFFSETS_RETENTION = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of a broker.

    :param value: its value; ``None`` if it is not set, or sensitive.
    :param is_default: whether it is Kafka's default, set nowhere.
    """

    value: str | None
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRetention:
    """The offsets retention of every live broker.

    :param by_broker: minutes, by broker.
    :param defaults: the brokers whose value is Kafka's default.
    :param errors: the brokers whose value is not known, and why: not allowed, no answer, or not reported.
    """

    by_broker: Mapping[BrokerId, int]
    defaults: frozenset[BrokerId] = frozenset()
    errors: Mapping[BrokerId, KafkaGroupsError]

    @property
    def minutes(self) -> int | None:
        """The smallest value of all brokers, which any group may meet; ``None`` unless every broker's is known."""
        return min(self.by_broker.values()) if self.by_broker and not self.errors else None

    @property
    def is_default(self) -> bool:
        """Whether every broker has Kafka's default."""
        return bool(self.by_broker) and not self.errors and self.defaults == self.by_broker.keys()

    @property
    def differs(self) -> bool:
        """Whether brokers have different values: what a group gets depends on its coordinator."""
        return len(set(self.by_broker.values())) > 1


def offsets_retention_of(configs: Mapping[BrokerId, Mapping[str, ConfigEntry] | KafkaGroupsError]) -> OffsetsRetention:
    """Read the retention out of the brokers' configs."""
    minutes: dict[BrokerId, int] = {}
    defaults: set[BrokerId] = set()
    errors: dict[BrokerId, KafkaGroupsError] = {}
    for broker_id, config in configs.items():
        if isinstance(config, KafkaGroupsError):
            errors[broker_id] = config
            continue
        entry = config.get(OFFSETS_RETENTION)
        if entry is None or entry.value is None or not entry.value.isdecimal():
            found = "nothing" if entry is None else repr(entry.value)
            errors[broker_id] = MissingAnswerError(f"broker {broker_id} reports {found} for {OFFSETS_RETENTION}")
            continue
        minutes[broker_id] = int(entry.value)
        if entry.is_default:
            defaults.add(broker_id)
    return OffsetsRetention(by_broker=minutes, defaults=frozenset(defaults), errors=errors)


_TOPICS_IN_REQUEST = 1_000
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker older than 2.8 is read to say: 16 bytes of zeros."""
_ABSENT = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.topic_authorization_failed,
    ErrorCode.invalid_topic_exception,
)


class ClusterAdmin:
    """Describe a cluster's brokers and topics. Each call has a client of its own and closes it.

    :param config: where and how to connect; ``request_timeout`` and ``api_timeout`` apply.
    :param patience: how long silent brokers are waited for, shared with the core's client. Default: its own.

    Calls with a ``kafka_cluster_id`` ask nothing of another cluster: the bootstrap servers, or a name that moves, may
    lead each of these clients elsewhere. Default: any cluster.

    Each call raises ``AuthenticationFailedError``, ``ConnectionFailedError``, ``RequestTimeoutError`` or
    ``DeadlineExceededError`` when no broker answers, and ``UnsupportedByClientError`` when the installed
    confluent-kafka cannot log in this way.
    """

    def __init__(self, config: ClientConfig, patience: Patience | None = None) -> None:
        self._config = config
        self._patience = patience or Patience(config.api_timeout)

    async def describe_configs(
        self, kafka_cluster_id: str | None = None
    ) -> dict[BrokerId, dict[str, ConfigEntry] | KafkaGroupsError]:
        """Describe the configs of every live broker. A broker that does not tell has its error instead.

        It needs DescribeConfigs on the cluster.
        """
        return await in_session(
            self._config, lambda session: _describe_broker_configs(session, kafka_cluster_id, self._patience)
        )

    async def offsets_retention(self, kafka_cluster_id: str | None = None) -> OffsetsRetention:
        """Return how long each live broker keeps the offsets of a group without members."""
        return offsets_retention_of(await self.describe_configs(kafka_cluster_id))

    async def describe_topics(
        self, topics: Iterable[str], kafka_cluster_id: str | None = None
    ) -> dict[str, str | KafkaGroupsError | None]:
        """Describe topics: the id of each (KIP-516), or its error; ``None`` for a broker before 2.8, which has no ids.

        Asking creates no topic.
        """
        wanted = list(dict.fromkeys(topics))

        def describe(session: Session) -> dict[str, str | KafkaGroupsError | None]:
            if kafka_cluster_id is not None:
                _describe_cluster(session, kafka_cluster_id)
            return _describe_topics(session, wanted)

        return await in_session(self._config, describe) if wanted else {}

    async def topic_ids(self, topics: Iterable[str], kafka_cluster_id: str | None = None) -> dict[str, str]:
        """Return the ids of topics, as Kafka's own tools write them. A topic that was recreated has another.

        Topics that do not exist, or that this user may not describe, are left out; so are all of them before Kafka 2.8.
        Raises any other error of a topic.
        """
        ids = {}
        for topic, found in (await self.describe_topics(topics, kafka_cluster_id)).items():
            if isinstance(found, str):
                ids[topic] = found
            elif found is not None and not (isinstance(found, BrokerError) and found.code in _ABSENT):
                raise found
        return ids

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> list[SpanRecords[T]]:
        """Read spans of partitions; see ``read_spans``. It needs Read on the topics, and joins no group."""
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(read_spans, self._config, spans, keep, cancelled) if spans else []
        finally:
            cancelled.set()


def _describe_cluster(session: Session, kafka_cluster_id: str | None) -> Any:
    """Describe the cluster. Raises ``ConnectionFailedError`` for another one, as far as both ids are known."""
    asked = session.client.describe_cluster(request_timeout=session.request_timeout)
    cluster = session.result("DescribeCluster", asked)
    ClusterMetadata(kafka_cluster_id).require_same_cluster(cluster.cluster_id)
    return cluster


def _describe_broker_configs(
    session: Session, kafka_cluster_id: str | None, patience: Patience
) -> dict[BrokerId, dict[str, ConfigEntry] | KafkaGroupsError]:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # re-exported without saying so

    cluster = _describe_cluster(session, kafka_cluster_id)
    broker_ids: list[BrokerId] = [node.id for node in cluster.nodes]
    futures = {}
    for broker_id in broker_ids:
        patience.asked(broker_id)
        timeout = min(session.request_timeout, patience.left(broker_id))
        # One call for each: librdkafka sends a broker's configs to that very broker.
        asked = session.client.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, str(broker_id))], request_timeout=timeout
        )
        (futures[broker_id],) = asked.values()
    found = session.results("DescribeConfigs", futures, brokers={id_: id_ for id_ in broker_ids})
    for broker_id, answer in found.items():
        if not isinstance(answer, ConnectionFailedError | RequestTimeoutError):
            patience.answered(broker_id)
    return {id_: of if isinstance(of, KafkaGroupsError) else _entries(of) for id_, of in found.items()}


def _entries(configs: Mapping[str, Any]) -> dict[str, ConfigEntry]:
    return {
        name: ConfigEntry(value=None if entry.is_sensitive else entry.value, is_default=entry.is_default)
        for name, entry in configs.items()
    }


def _describe_topics(session: Session, topics: list[str]) -> dict[str, str | KafkaGroupsError | None]:
    from confluent_kafka import TopicCollection

    described: dict[str, str | KafkaGroupsError | None] = {}
    for start in range(0, len(topics), _TOPICS_IN_REQUEST):
        asked = topics[start : start + _TOPICS_IN_REQUEST]
        futures = session.client.describe_topics(TopicCollection(asked), request_timeout=session.request_timeout)
        found = session.results("Metadata", futures, subjects={topic: f"topic {topic!r}" for topic in asked})
        described |= {
            topic: of if isinstance(of, KafkaGroupsError) else _topic_id(of.topic_id) for topic, of in found.items()
        }
    return described


def _topic_id(topic_id: object) -> str | None:
    text = "" if topic_id is None else str(topic_id).translate(str.maketrans("+/", "-_")).rstrip("=")
    return None if text in ("", _NO_TOPIC_ID) else text
