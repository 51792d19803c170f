"""Waiting and watching on a real Kafka: lag in seconds, and the trigger that starts DAGs when groups begin to lag."""

import asyncio
import importlib
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.dags.runs import connect, parsed
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.topics import create_topics, produce

EXAMPLE = Path(__file__).parent / "examples" / "kafka_groups_assets.py"
PATIENCE = 60


def test_lag_in_seconds_is_told_without_reading_a_record(
    kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer

    from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor

    connect(monkeypatch, kafka41.bootstrap, "my_cluster")
    topic = group = f"watching-times-{uuid4().hex[:8]}"
    create_topics(kafka41.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": kafka41.bootstrap, "log_level": 2})
    hour_ago = int((time.time() - 3600) * 1000)
    for _ in range(5):
        producer.produce(topic, b"old", partition=0, timestamp=hour_ago)
    for _ in range(5):
        producer.produce(topic, b"new", partition=0)
    assert producer.flush(30) == 0

    def within(seconds: float) -> bool:
        sensor = ListGroupOffsetsSensor(
            task_id="t", kafka_groups_conn_id="my_cluster", group_ids=[group], max_lag_seconds=seconds
        )
        return sensor.poke({})

    seed_groups(kafka41.bootstrap, [group], {(topic, 0): 4})  # the next record is an hour old
    assert [within(1800), within(7200)] == [False, True]
    commit_offsets(kafka41.bootstrap, {group: {(topic, 0): 5}})  # the next one is of just now
    assert [within(1800), within(0)] == [True, False]
    commit_offsets(kafka41.bootstrap, {group: {(topic, 0): 10}})
    assert within(0)


@pytest.mark.airflow
async def test_an_asset_sees_groups_begin_to_lag(kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trigger as the triggerer makes it: from what the parsed DAG's asset has serialised."""
    asset = parsed(EXAMPLE)["groups_lag"].timetable.asset_condition
    path, arguments = asset.watchers[0].trigger.serialize()
    module, _, name = path.rpartition(".")
    trigger = getattr(importlib.import_module(module), name)(**{**arguments, "poll_interval": 1})

    connect(monkeypatch, kafka41.bootstrap, "my_cluster")
    bootstrap, topic = kafka41.bootstrap, f"watching-lag-{uuid4().hex[:8]}"
    behind, other, unwatched = f"watched.{topic}", f"watched.other.{topic}", f"un{topic}"
    create_topics(bootstrap, {topic: 1})
    produce(bootstrap, {(topic, 0): 1500})
    await asyncio.to_thread(seed_groups, bootstrap, [behind, other, unwatched], {(topic, 0): 1500})

    stream = trigger.run()
    event: asyncio.Task[Any] = asyncio.ensure_future(anext(stream))
    deadline = time.monotonic() + PATIENCE
    while not event.done() and time.monotonic() < deadline:  # the first poll may come before or after any of these
        await asyncio.to_thread(seed_groups, bootstrap, [behind, unwatched], {(topic, 0): 1500})
        await asyncio.wait([event], timeout=3)
        await asyncio.to_thread(seed_groups, bootstrap, [behind, unwatched], {(topic, 0): 3})
        await asyncio.wait([event], timeout=3)
    assert event.done(), "no event came"
    payload = (await event).payload
    assert (payload["event"], payload["groups"]) == ("lagging", [behind])
    assert payload["reasons"] == {behind: "lag 1497"}
    assert payload["kafka_groups_conn_id"] == "my_cluster"
    await stream.aclose()
