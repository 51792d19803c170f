"""A topic that may be described and not read: what is left of it counts as lag, without an error."""

from __future__ import annotations

from datetime import timedelta

from airflow_kafka_groups.kafka.admin.handlers.list_offsets import FetchTailsHandler
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchAnswer, FetchedTail
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

READ, SECRET, MOVED = (TopicPartition(topic, 0) for topic in ("read", "secret", "moved"))


def test_a_partition_that_cannot_be_read_is_asked_once() -> None:
    tails = [
        FetchedTail(READ, ErrorCode.none, 17, 10),
        FetchedTail(SECRET, ErrorCode.topic_authorization_failed, 0, 0),
        FetchedTail(MOVED, ErrorCode.not_leader_or_follower, 0, 0),
    ]
    handler = FetchTailsHandler({READ: 10, SECRET: 1, MOVED: 2})
    found = handler.parse(1, [READ, SECRET, MOVED], 12, FetchAnswer(timedelta(), tails))
    assert found.completed == {READ: tails[0]}
    assert "secret[0]" in str(found.failed[SECRET])
    assert set(found.failed) == {SECRET, MOVED}
    assert not found.retry
    assert not found.unmapped
