"""``ClusterAdmin``: what is not about groups, by confluent-kafka. It is the only door to that client.

In: a ``ClientConfig``. Out: the brokers' offsets retention, topic ids and records; what needs batching is in ``admin``.
librdkafka's errors become this package's here.

librdkafka has threads of its own and reports logs, errors and token requests only to who polls it, so a call runs in a
thread that polls until its futures are done. Four things differ from a bare client:

1. A refused login ends the call. librdkafka would try the same password three times a second until the timeout.
2. The token is fetched first, so that an error of its source is raised as it is, and no callback can fail.
3. A cancelled call stops polling; nothing waits for the brokers any more.
4. CA certificates that Python finds by ``SSL_CERT_FILE`` are used here too.

Records are read by a consumer that joins no group and commits nothing. The spans of a partition are read in order of
their offsets. So what a seek leaves in librdkafka's queues never comes from behind the next span: whatever comes is
what follows, and what comes twice is left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    MissingAnswerError,
    RemoteProtocolError,
    RequestTimeoutError,
    UnsupportedByClientError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.client import Patience
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.models import BrokerId, TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

OFFSETS_RETENTION = "offsets.retention.minutes"
_logger = logging.getLogger(__name__)


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


_LAST_LOCAL_ERROR = -100  # librdkafka's own errors are -200 to -100; the broker's begin at -1


def configuration_error(error: KafkaError) -> ConfigurationError:
    """Return the error of settings that librdkafka refuses; its messages name the setting and hold no secret."""
    text = error.str()
    if "No provider for SASL mechanism" in text:
        return UnsupportedByClientError(
            "sasl.mechanism",
            None,
            "the installed confluent-kafka was built without Kerberos (GSSAPI): install libsasl2's headers and run "
            "'pip install --no-binary confluent-kafka confluent-kafka'",
        )
    return ConfigurationError("connection", None, f"librdkafka refuses it: {text}")


def refuses_login(error: KafkaError) -> bool:
    """Return whether the login or the TLS handshake failed: trying again could lock the user out."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)


def translated(
    error: KafkaError, *, api: str, servers: str, broker_id: int | None = None, subject: str = "", context: str = ""
) -> KafkaGroupsError:
    """Return the package's error for one of librdkafka's.

    :param api: the API that was called, such as ``DescribeConfigs``.
    :param servers: the bootstrap servers, for errors of a connection.
    :param broker_id: the broker that was asked, if it is known.
    :param subject: the topic or resource.
    :param context: what else is known of the cause, such as the last connection error.
    """
    from confluent_kafka import KafkaError

    code, text = error.code(), error.str()
    if code > _LAST_LOCAL_ERROR:
        return BrokerError(
            code, _name(code, error), text.removeprefix("Broker: "), api=api, broker_id=broker_id, subject=subject
        )
    where = servers if broker_id is None else f"broker {broker_id} of {servers}"
    reason = f"{api}: {text}" + (f" ({context})" if context else "")
    if refuses_login(error):
        return AuthenticationFailedError(where, reason)
    if code in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
        return RequestTimeoutError(f"{where}: {reason}")
    if code == KafkaError._UNSUPPORTED_FEATURE:
        return UnsupportedVersionError(f"{where}: {reason}")
    if code in (KafkaError._BAD_MSG, KafkaError._UNDERFLOW):
        return RemoteProtocolError(f"{where}: {reason}")
    if code == KafkaError._INVALID_ARG:
        return ConfigurationError(subject or api, None, text)
    return ConnectionFailedError(where, reason)


def _name(code: int, error: KafkaError) -> str:
    return ErrorCode(code).name.upper() if code in ErrorCode.__members__.values() else str(error.name())


_POLL_SECONDS = 0.05


class Session:
    """A client of one call and what it has reported so far.

    :param cancelled: set when nobody waits for the call any more.

    Raises ``ConfigurationError`` for settings that librdkafka refuses, and the error of the token source.
    """

    def __init__(self, config: ClientConfig, cancelled: threading.Event) -> None:
        self._deadline = time.monotonic() + config.api_timeout
        self._cancelled = cancelled
        self._request_timeout = config.request_timeout
        self._reported: KafkaError | None = None
        settings = client_settings(config)
        self.servers = str(settings["bootstrap.servers"])
        self.client = self._connect(settings)

    @property
    def request_timeout(self) -> float:
        """The seconds that the next request may take."""
        return max(min(self._request_timeout, self._deadline - time.monotonic()), 0.001)

    def results(
        self,
        api: str,
        futures: Mapping[K, Future[Any]],
        *,
        broker_id: Callable[[K], int | None] = lambda _: None,
        subject: Callable[[K], str] = lambda _: "",
    ) -> dict[K, Any | KafkaGroupsError]:
        """Wait for futures and return what each holds: its result, or its error translated.

        :param broker_id: returns the broker that a key was asked of, for its error. Default: it is not known.
        :param subject: returns what a key is about, for its error. Default: nothing.

        Raises ``AuthenticationFailedError`` when the login fails, and ``DeadlineExceededError`` when the call takes
        longer than ``api_timeout``.
        """
        from confluent_kafka import KafkaException

        self._wait(api, futures.values())
        found: dict[K, Any | KafkaGroupsError] = {}
        for key, future in futures.items():
            try:
                found[key] = future.result(0)
            except KafkaException as exc:
                where = {"servers": self.servers, "subject": subject(key), "context": self._context()}
                found[key] = translated(exc.args[0], api=api, broker_id=broker_id(key), **where)
                found[key].__cause__ = exc
        return found

    def _connect(self, settings: dict[str, Any]) -> AdminClient:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings["error_cb"] = self._remember
        try:
            return AdminClient(settings, logger=_logger)
        except KafkaException as exc:
            raise configuration_error(exc.args[0]) from exc

    def _remember(self, error: KafkaError) -> None:
        if self._reported is None or not refuses_login(self._reported):
            self._reported = error

    def _wait(self, api: str, futures: Any) -> None:
        while not all(future.done() for future in futures):
            self.client.poll(_POLL_SECONDS)
            if self._reported is not None and refuses_login(self._reported):
                raise translated(self._reported, api=api, servers=self.servers)
            if self._cancelled.is_set() or time.monotonic() > self._deadline:
                raise DeadlineExceededError(f"{api}: no answer from {self.servers} in time{self._context()}")

    def _context(self) -> str:
        return "" if self._reported is None else f"last connection error: {self._reported.str()}"


def client_settings(config: ClientConfig) -> dict[str, Any]:
    """Return librdkafka's settings of a client of one call. Raises the error of the token source."""
    settings = to_librdkafka(config)
    if (source := settings.get("oauth_cb")) is not None:
        token = source(settings.get("sasl.oauthbearer.config", ""))
        settings["oauth_cb"] = lambda _config: token
    settings["enable.metrics.push"] = "false"  # a client of one call has none, and librdkafka would log its ids
    _trust_what_python_trusts(settings)
    return settings


def _trust_what_python_trusts(settings: dict[str, Any]) -> None:
    """Set the CA certificates of ``SSL_CERT_FILE``, which librdkafka does not look at where the system has others.

    Without this, a private CA that is configured so would be trusted by the core and not here.
    """
    location = os.environ.get("SSL_CERT_FILE")
    uses_tls = settings["security.protocol"].endswith("SSL")
    if location and uses_tls and not any(name.startswith("ssl.ca.") for name in settings):
        settings["ssl.ca.location"] = location


async def in_session(config: ClientConfig, function: Callable[[Session], T]) -> T:
    """Run a function with a session in a worker thread, off the event loop."""
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(lambda: function(Session(config, cancelled)))
    finally:
        cancelled.set()


_GROUP = "airflow-kafka-groups.reads-without-a-group"  # librdkafka wants a name, and nobody joins
_AT_ONCE = 2_000
_CONSUME_SECONDS = 0.2
_NEAR = 1_000
"""A span that begins so soon behind the last one is reached by reading on: a seek costs a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a partition to read: up to the first record at or after ``until``, ``most`` records, or the log's end.

    :param until: an offset. Default: none.
    :param most: how many records. Default: any number.
    """

    where: TopicPartition
    start: int
    until: int | None = None
    most: int | None = None


@dataclass(slots=True)
class SpanRecords(Generic[T]):
    """The records of a span in order.

    :param is_end: whether nothing that can be read follows.
    """

    records: list[T] = field(default_factory=list)
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record: its offset, its time in milliseconds, key, value, and headers."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def read_spans(
    config: ClientConfig, spans: Sequence[Span], keep: Callable[[LogRecord], T], cancelled: threading.Event
) -> list[SpanRecords[T]]:
    """Read spans, and return what ``keep`` makes of the records of each. Aborted records are left out.

    Raises ``RequestTimeoutError`` if nothing comes for ``request_timeout`` seconds, and the errors of ``ClusterAdmin``.
    """
    from confluent_kafka import Consumer, KafkaException

    settings = client_settings(config) | {
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "queued.min.messages": _AT_ONCE,
    }
    try:
        consumer = Consumer(settings, logger=_logger)
    except KafkaException as exc:
        raise configuration_error(exc.args[0]) from exc
    try:
        return _Reading(consumer, spans, keep).run(config, cancelled)
    except KafkaException as exc:
        raise translated(exc.args[0], api="Fetch", servers=str(settings["bootstrap.servers"])) from exc
    finally:
        consumer.close()


class _Reading(Generic[T]):
    def __init__(self, consumer: Any, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> None:
        self._consumer, self._spans, self._keep = consumer, spans, keep
        self._found = [SpanRecords[T]() for _ in spans]
        self._waiting: dict[TopicPartition, deque[int]] = {}
        self._begun: dict[TopicPartition, list[int]] = {}
        for number in sorted(range(len(spans)), key=lambda each: spans[each].start):
            self._waiting.setdefault(spans[number].where, deque()).append(number)
            self._begun[spans[number].where] = []
        self._last: dict[TopicPartition, int] = {}

    def run(self, config: ClientConfig, cancelled: threading.Event) -> list[SpanRecords[T]]:
        first = {where: self._spans[numbers[0]].start for where, numbers in self._waiting.items()}
        self._consumer.assign([_assigned(where, start) for where, start in first.items()])
        heard = time.monotonic()
        while self._waiting:
            messages = self._consumer.consume(_AT_ONCE, _CONSUME_SECONDS)
            now = time.monotonic()
            heard = now if messages else heard
            if cancelled.is_set():
                raise DeadlineExceededError("Fetch: nobody waits for the records any more")
            if now - heard > config.request_timeout:
                where = next(iter(self._waiting))
                raise RequestTimeoutError(f"Fetch: no record of {where.topic}[{where.partition}] came in time")
            for message in messages:
                self._take(message)
        return self._found

    def _take(self, message: Any) -> None:
        from confluent_kafka import KafkaError, KafkaException

        where = TopicPartition(message.topic(), message.partition())
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                for number in (*self._begun.pop(where, ()), *self._waiting.pop(where, ())):
                    self._found[number].is_end = True
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # of the group that nobody joins
                raise KafkaException(error)
            return
        offset = message.offset()
        if where not in self._waiting or offset <= self._last.get(where, -1):
            return
        self._last[where] = offset
        record = LogRecord(offset, message.timestamp()[1], message.key(), message.value(), message.headers() or ())
        kept = self._keep(record)
        begun, waiting = self._begun[where], self._waiting[where]
        while waiting and self._spans[waiting[0]].start <= offset:
            begun.append(waiting.popleft())
        # Thousands may wait: a record is offered only to those that have begun.
        begun = self._begun[where] = [number for number in begun if not self._is_done(number, offset, kept)]
        if begun:
            return
        if not waiting:
            del self._waiting[where]
            self._consumer.incremental_unassign([_assigned(where)])
        elif (start := self._spans[waiting[0]].start) > offset + _NEAR:
            self._consumer.seek(_assigned(where, start))

    def _is_done(self, number: int, offset: int, kept: T) -> bool:
        """Take a record for a span that has begun, and return whether that was its last one."""
        span, found = self._spans[number], self._found[number].records
        found.append(kept)
        return (span.until is not None and offset >= span.until) or (span.most is not None and len(found) >= span.most)


def _assigned(where: TopicPartition, offset: int = 0) -> Any:
    from confluent_kafka import TopicPartition as Assigned

    return Assigned(*where, offset)
