"""Records of partitions, read by a consumer of confluent-kafka that joins no group and commits nothing.

The spans of a partition are read in order of their offsets. So what a seek leaves in librdkafka's queues never comes
from behind the next span: whatever comes is what follows, and what comes twice is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from airflow_kafka_groups.exceptions import DeadlineExceededError, RequestTimeoutError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster_admin.session import client_settings, configuration_error, translated
from airflow_kafka_groups.kafka.models import TopicPartition

T = TypeVar("T")

_GROUP = "airflow-kafka-groups.reads-without-a-group"  # librdkafka wants a name, and nobody joins
_AT_ONCE = 2_000
_POLL_SECONDS = 0.2
_NEAR = 1_000
"""A span that begins so soon behind the last one is reached by reading on: a seek costs a request."""
_logger = logging.getLogger(__name__)


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
        self._waiting: dict[TopicPartition, list[int]] = {}
        for number in sorted(range(len(spans)), key=lambda each: spans[each].start):
            self._waiting.setdefault(spans[number].where, []).append(number)
        self._last: dict[TopicPartition, int] = {}

    def run(self, config: ClientConfig, cancelled: threading.Event) -> list[SpanRecords[T]]:
        from confluent_kafka import TopicPartition as Assigned

        first = ((where, self._spans[numbers[0]].start) for where, numbers in self._waiting.items())
        self._consumer.assign([Assigned(*where, start) for where, start in first])
        heard = time.monotonic()
        while self._waiting:
            messages = self._consumer.consume(_AT_ONCE, _POLL_SECONDS)
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
                for number in self._waiting.pop(where, ()):
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
        left = [number for number in self._waiting[where] if not self._is_done(number, offset, kept)]
        self._waiting[where] = left
        if not left:
            del self._waiting[where]
            self._consumer.incremental_unassign([_assigned(where)])
        elif (start := self._spans[left[0]].start) > offset + _NEAR:
            self._consumer.seek(_assigned(where, start))

    def _is_done(self, number: int, offset: int, kept: T) -> bool:
        """Take a record for a span that has begun, and return whether that was its last one."""
        span, found = self._spans[number], self._found[number].records
        if offset < span.start:
            return False
        found.append(kept)
        return (span.until is not None and offset >= span.until) or (span.most is not None and len(found) >= span.most)


def _assigned(where: TopicPartition, offset: int = 0) -> Any:
    from confluent_kafka import TopicPartition as Assigned

    return Assigned(*where, offset)
