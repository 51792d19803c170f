"""How a call is cut: the size of its requests."""

from __future__ import annotations

from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.admin.client.calls import Calls


async def test_large_calls_take_larger_requests_unless_told_otherwise() -> None:
    calls = Calls(ClientConfig.from_librdkafka({"bootstrap.servers": "b1"}))
    assert [calls.batch_size(groups) for groups in (1, 19_999, 20_000)] == [220, 220, 400]
    told = Calls(ClientConfig.from_librdkafka({"bootstrap.servers": "b1"}, batch_size=50))
    assert told.batch_size(20_000) == 50
