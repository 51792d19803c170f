"""Lag on topics with transactions: markers and aborted records have offsets, and no consumer reads them."""

import asyncio
from uuid import uuid4

from confluent_kafka import Producer

from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.triggers.conditions import Condition, EndReached, LagAtMost
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics

kafka = each_of("kafka28", "kafka44")


def transactions(bootstrap: str, topic: str) -> Producer:
    """Write 10 records and a marker, 5 aborted ones and their marker."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic}, logger=None)
    producer.init_transactions(60)
    for records, end in ((10, producer.commit_transaction), (5, producer.abort_transaction)):
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"x")
        producer.flush()
        end(30)
    return producer


async def test_a_group_that_has_read_all_that_can_be_read_has_no_lag(kafka: KafkaCluster) -> None:
    group = topic = f"transactions-{uuid4().hex[:8]}"
    here = TopicPartition(topic, 0)
    await asyncio.to_thread(create_topics, kafka.bootstrap, {topic: 1})
    producer = await asyncio.to_thread(transactions, kafka.bootstrap, topic)
    to_end = EndReached(group_ids=(group,))
    waits: list[Condition] = [to_end, LagAtMost(group_ids=(group,), total=0), LagAtMost(group_ids=(group,), seconds=1)]
    async with AdminClient(config_of(kafka)) as admin:

        async def lag() -> int | None:
            return (await admin.list_consumer_group_lag([group]))[group].unwrap().messages

        async def after(offset: int) -> tuple[int | None, list[bool]]:
            await admin.alter_consumer_group_offsets({group: {here: OffsetAndMetadata(offset)}})
            return await lag(), [(await wait.check(admin)).reached for wait in waits]

        await asyncio.sleep(1.1)
        assert await after(9) == (1, [False] * 3), "one record is left"
        assert to_end.targets == {group: {here: 17}}
        assert await after(10) == (0, [True] * 3), "a marker, five aborted records, and a marker are left"
        assert await after(12) == (0, [True] * 3)
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.flush()
        assert await lag() == 6, "nobody knows yet what becomes of an open transaction"
        await asyncio.to_thread(producer.commit_transaction, 30)
        assert await lag() == 6, "up to the new record"
