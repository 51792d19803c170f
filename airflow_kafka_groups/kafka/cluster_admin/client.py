"""``ClusterAdmin``: what is not about groups, by confluent-kafka, with its method names where it has them."""

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


_TOPICS_IN_REQUEST = 1_000
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker older than 2.8 is read to say: 16 bytes of zeros."""
_ABSENT = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.topic_authorization_failed,
    ErrorCode.invalid_topic_exception,
)


class ClusterAdmin:
    """Read brokers' configs, topic ids and records. Each call has a client of its own and closes it.

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

    async def offsets_retention(self, kafka_cluster_id: str | None = None) -> OffsetsRetention:
        """Return how long each live broker keeps the offsets of a group without members.

        It needs DescribeConfigs on the cluster. A broker that does not tell has its error instead.
        """
        return await in_session(
            self._config, lambda session: _offsets_retention(session, kafka_cluster_id, self._patience)
        )

    async def topic_ids(self, topics: Iterable[str], kafka_cluster_id: str | None = None) -> dict[str, str]:
        """Return the ids of topics (KIP-516), as Kafka's own tools write them. A topic that was recreated has another.

        Topics that do not exist, or that this user may not describe, are left out; so are all of them before Kafka 2.8.
        Asking creates no topic. Raises any other error of a topic.
        """
        wanted = list(dict.fromkeys(topics))
        if not wanted:
            return {}
        return await in_session(self._config, lambda session: _topic_ids(session, wanted, kafka_cluster_id))

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
    (cluster,) = session.results("DescribeCluster", {None: asked}).values()
    if isinstance(cluster, KafkaGroupsError):
        raise cluster
    ClusterMetadata(kafka_cluster_id).require_same_cluster(cluster.cluster_id)
    return cluster


def _offsets_retention(session: Session, kafka_cluster_id: str | None, patience: Patience) -> OffsetsRetention:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # re-exported without saying so

    futures = {}
    for broker_id in [node.id for node in _describe_cluster(session, kafka_cluster_id).nodes]:
        patience.asked(broker_id)
        timeout = min(session.request_timeout, patience.left(broker_id))
        # One call for each: librdkafka sends a broker's configs to that very broker.
        asked = session.client.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, str(broker_id))], request_timeout=timeout
        )
        (futures[broker_id],) = asked.values()
    minutes: dict[BrokerId, int] = {}
    defaults: set[BrokerId] = set()
    errors: dict[BrokerId, KafkaGroupsError] = {}
    for broker_id, configs in session.results("DescribeConfigs", futures, broker_id=int).items():
        if not isinstance(configs, ConnectionFailedError | RequestTimeoutError):
            patience.answered(broker_id)
        if isinstance(configs, KafkaGroupsError):
            errors[broker_id] = configs
            continue
        entry = configs.get(OFFSETS_RETENTION)
        if entry is None or entry.value is None or not entry.value.isdecimal():
            found = "nothing" if entry is None else repr(entry.value)
            errors[broker_id] = MissingAnswerError(f"broker {broker_id} reports {found} for {OFFSETS_RETENTION}")
            continue
        minutes[broker_id] = int(entry.value)
        if entry.is_default:
            defaults.add(broker_id)
    return OffsetsRetention(by_broker=minutes, defaults=frozenset(defaults), errors=errors)


def _topic_ids(session: Session, topics: Sequence[str], kafka_cluster_id: str | None) -> dict[str, str]:
    from confluent_kafka import TopicCollection

    if kafka_cluster_id is not None:
        _describe_cluster(session, kafka_cluster_id)
    ids: dict[str, str] = {}
    for start in range(0, len(topics), _TOPICS_IN_REQUEST):
        asked = TopicCollection(list(topics[start : start + _TOPICS_IN_REQUEST]))
        futures = session.client.describe_topics(asked, request_timeout=session.request_timeout)
        for topic, found in session.results("Metadata", futures, subject="topic {!r}".format).items():
            if isinstance(found, BrokerError) and found.code in _ABSENT:
                continue
            if isinstance(found, KafkaGroupsError):
                raise found
            text = str(found.topic_id or "").translate(str.maketrans("+/", "-_")).rstrip("=")
            if text not in ("", _NO_TOPIC_ID):
                ids[topic] = text
    return ids
