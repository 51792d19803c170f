"""Translate offsets by payload, in one process and by the Spark job: a topic, and its mirror in another cluster."""

import asyncio
import json
import time
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.mirrors.batches import OnSpark
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Translated
from airflow_kafka_groups.spark.bundle import APPLICATION
from airflow_kafka_groups.storage.layout import ignore_progress
from tests.bench_spark.staleness import submit
from tests.demo.migration import client_of
from tests.lab.workload.topics import create_topics, quiet

PARTITIONS, LACKING = 20, 100
"""The mirror lacks the first records of each partition."""


class Mirrored:
    """A topic with so many records in each partition, two of each millisecond, and places spread over it."""

    def __init__(self, source: str, target: str, records: int, places: int) -> None:
        self._source, self._target = source, target
        topic = f"mirrored-{uuid4().hex[:6]}"
        begun_ms = int(time.time() * 1000) - records
        for bootstrap, first in ((source, 0), (target, LACKING)):
            create_topics(bootstrap, {topic: PARTITIONS})
            settings = {"queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}  # in order
            producer = Producer(quiet(bootstrap, linger_ms=20) | settings)
            for number in range(first, records):
                for partition in range(PARTITIONS):
                    value = f"record {number} of partition {partition}".ljust(100)
                    producer.produce(topic, value, partition=partition, timestamp=begun_ms + number // 2)
                producer.poll(0)
            assert producer.flush(120) == 0
        self._at = {TopicPartition(topic, number): TopicPartition(topic, number) for number in range(PARTITIONS)}
        chance = Random(1)
        every = range(LACKING + 1_000, records)
        count = places // PARTITIONS
        self._places = {(where, offset) for where in self._at for offset in chance.sample(every, count)}

    def in_one_process(self) -> float:
        """Return the seconds of one process."""
        began = time.monotonic()
        self._check(asyncio.run(self._translate()))
        return time.monotonic() - began

    async def _translate(self) -> dict[Any, Any]:
        async with client_of(self._source) as source, client_of(self._target) as target:
            translator = OffsetTranslator(source=source, target=target, counterparts=self._at, progress=ignore_progress)
            return await translator.translate(self._places, Method.PAYLOAD, Position.AT_OR_BEFORE)

    def by_spark(self, folder: Path) -> float:
        """Return the seconds of the job, from submit to end, and of its files."""
        words = ["translate_offsets", "--places", str(folder / "places.json"), "--output", str(folder / "out.json")]
        for cluster, bootstrap in (("source", self._source), ("target", self._target)):
            settings = folder / f"{cluster}.json"
            settings.write_text(json.dumps({"bootstrap.servers": bootstrap}))
            words += [f"--{cluster}-settings", str(settings)]
        job = OnSpark(
            places=folder / "places.json", output=folder / "out.json", submit=lambda: submit(APPLICATION, words)
        )
        began = time.monotonic()
        self._check(job.translate(self._places, self._at))
        return time.monotonic() - began

    def _check(self, found: dict[Any, Any]) -> None:
        assert found == {(where, at): Translated(at - LACKING, 0) for where, at in self._places}
