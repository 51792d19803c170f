"""Whether topics may be hidden from this user: only a clear answer is a yes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

CONFIG = ClientConfig(bootstrap_servers=(("b", 9092),))
CLEAR = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


class Told(AdminClient):
    def __init__(self, error: ErrorCode | None) -> None:
        super().__init__(CONFIG)
        self.error = error

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        if self.error is None:
            return MetadataAnswer("c", ())
        if self.error is ErrorCode.none:
            return MetadataAnswer("c", (), partition_counts=dict.fromkeys(topics, 1))
        return MetadataAnswer("c", (), errors=dict.fromkeys(topics, self.error))


@pytest.mark.safety
@pytest.mark.parametrize("error", [None, *ErrorCode])
async def test_only_a_clear_answer_says_that_topics_are_seen(error: ErrorCode | None) -> None:
    """A proxy that leaves the topic out, or any other error, must not make a backup pass for whole."""
    assert await Told(error).sees_all_topics() is (error in CLEAR)
