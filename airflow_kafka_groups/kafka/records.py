"""Records read with confluent-kafka's consumer, which decompresses them. It is the only door to that client.

The consumer joins no group and commits nothing. The spans of a partition are read in order of their offsets. So what a
seek leaves in librdkafka's queues never comes from behind the next span, and what comes twice is left out.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    BrokerError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    KafkaGroupsError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

T = TypeVar("T")

_logger = logging.getLogger(__name__)
_LAST_LOCAL_ERROR = -100  # librdkafka's own errors are -200 to -100; the broker's begin at -1


def configuration_error(error: KafkaError) -> ConfigurationError:
    """Return the error of settings that librdkafka refuses; its messages name the setting and hold no secret."""
    return ConfigurationError("connection", None, f"librdkafka refuses it: {error.str()}")


def translated(error: KafkaError, servers: str) -> KafkaGroupsError:
    """Return the package's error for one of librdkafka's; an error of a connection names the bootstrap servers."""
    from confluent_kafka import KafkaError

    code, text = error.code(), error.str()
    if code > _LAST_LOCAL_ERROR:
        name = ErrorCode(code).name.upper() if code in ErrorCode.__members__.values() else str(error.name())
        return BrokerError(code, name, text.removeprefix("Broker: "), api="Fetch")
    reason = f"Fetch: {text}"
    if code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        return AuthenticationFailedError(servers, reason)
    if code in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
        return RequestTimeoutError(f"{servers}: {reason}")
    return ConnectionFailedError(servers, reason)


def client_settings(config: ClientConfig) -> dict[str, Any]:
    """Return librdkafka's settings of a client of one call.

    The token is fetched first: an error of its source is raised as it is, and no callback can fail.
    """
    settings = to_librdkafka(config)
    if (source := settings.get("oauth_cb")) is not None:
        token = source(settings.get("sasl.oauthbearer.config", ""))
        settings["oauth_cb"] = lambda _config: token
    settings["enable.metrics.push"] = "false"  # a client of one call has none, and librdkafka would log its ids
    _trust_what_python_trusts(settings)
    return settings


def _trust_what_python_trusts(settings: dict[str, Any]) -> None:
    """Set the CA certificates of ``SSL_CERT_FILE``: librdkafka does not look at it where the system has others."""
    location = os.environ.get("SSL_CERT_FILE")
    uses_tls = settings["security.protocol"].endswith("SSL")
    if location and uses_tls and not any(name.startswith("ssl.ca.") for name in settings):
        settings["ssl.ca.location"] = location


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
    """The records of a span in order, and whether nothing that can be read follows."""

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

    Raises ``RequestTimeoutError`` if nothing comes for ``request_timeout`` seconds, and the errors of connecting.
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
        raise translated(exc.args[0], str(settings["bootstrap.servers"])) from exc
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
