"""Offsets that Spark's tasks translate by payload, between two real clusters: as one process translates them."""

import asyncio
import json
import os
import re
import sys
import uuid
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import KafkaGroupsError, MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.mirrors.batches import OnSpark
from airflow_kafka_groups.observe.mirrors.offset_translator import OffsetTranslator, Place
from airflow_kafka_groups.observe.mirrors.translation import Method, Position, Translated
from airflow_kafka_groups.operators.offset_changes import MigrateGroupOffsetsOperator
from airflow_kafka_groups.spark.jobs import translate_offsets
from airflow_kafka_groups.storage.layout import ignore_progress
from tests.demo.migration import BEGUN_MS, client_of, mirror, write_source
from tests.demo.offsets import committed_offsets
from tests.lab.cluster import KafkaCluster
from tests.lab.spark.archive import quick_options
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.safety]

PARTITIONS, RECORDS = 2, 200


class Scene:
    """Mirrored topics: one is compacted, and of one, four records are equal. All have timestamps that repeat.

    Places are all offsets.
    """

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        name = uuid.uuid4().hex[:6]
        self.made = write_source(source, name, PARTITIONS, RECORDS, Random(5))
        mirror(source, target, name, self.made, PARTITIONS)
        topics = (self.made.orders, self.made.ledger)
        parts = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        self.places = {(where, offset) for where in parts for offset in range(0, self.made.ends[where] + 3)}
        self.counterparts = {where: where._replace(topic=f"west.{where.topic}") for where in parts}
        twins = TopicPartition(f"twins-{name}", 0)
        for bootstrap, topic in ((source, twins.topic), (target, f"west.{twins.topic}")):
            create_topics(bootstrap, {topic: 1})
            producer = Producer(quiet(bootstrap) | {"enable.idempotence": True})
            for number in range(40):
                producer.produce(topic, f"{number // 4}", partition=0, timestamp=BEGUN_MS + number // 4)
            assert producer.flush(60) == 0
        self.places |= {(twins, offset) for offset in range(41)}
        self.counterparts[twins] = twins._replace(topic=f"west.{twins.topic}")
        absent = TopicPartition(f"absent-{name}", 0)
        self.places.add((absent, 1))
        self.counterparts[absent] = absent

    async def in_one_process(self, position: Position) -> dict[Place, Any]:
        async with client_of(self.source) as source, client_of(self.target) as target:
            translator = OffsetTranslator(
                source=source, target=target, counterparts=self.counterparts, progress=ignore_progress
            )
            return await translator.translate(self.places, Method.PAYLOAD, position)

    def in_tasks(self, spark: SparkSession, folder: Path, position: Position, cut: int = 0) -> dict[Place, Any]:
        """Translate by the job; ``cut``: without so many of the places, as if their rows were lost."""
        for cluster, bootstrap in (("source", self.source), ("target", self.target)):
            (folder / f"{cluster}.json").write_text(json.dumps({"bootstrap.servers": bootstrap}))
        where = OnSpark(places=folder / "places.json", output=folder / "out.json", submit=lambda: None)
        words = ["--places", str(where.places), "--output", str(where.output), "--position", position]
        for cluster in ("source", "target"):
            words += [f"--{cluster}-settings", str(folder / f"{cluster}.json")]

        def submit() -> None:
            if cut:
                path = folder / "places.json"
                content = json.loads(path.read_text())
                path.write_text(json.dumps({**content, "places": content["places"][cut:]}))
            done = translate_offsets.run(spark, translate_offsets.parse_arguments(words))
            assert (done["places"], done["tasks"] > 1) == (len(self.places) - cut, True)

        found = OnSpark(places=where.places, output=where.output, submit=submit).translate(
            self.places, self.counterparts
        )
        assert {path.name for path in folder.iterdir()} == {"source.json", "target.json"}, "nothing is left behind"
        return found


@pytest.fixture(scope="module")
def scene(kafka44: KafkaCluster, kafka39: KafkaCluster) -> Scene:
    return Scene(kafka44.bootstrap, kafka39.bootstrap)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks for each partition: what one of them knows of its neighbours is what it reads."""
    monkeypatch.setattr(translate_offsets, "_OF_A_TASK", 60)


@pytest.mark.parametrize("position", Position)
def test_tasks_find_what_one_process_finds(
    spark: SparkSession, scene: Scene, tmp_path: Path, position: Position
) -> None:
    found, expected = scene.in_tasks(spark, tmp_path, position), asyncio.run(scene.in_one_process(position))
    assert found == expected
    assert {where for where, why in found.items() if isinstance(why, Unread)} == {
        where for where, why in expected.items() if isinstance(why, Unread)
    }
    kinds = Counter(type(each) for each in found.values())
    assert min(kinds[Translated], kinds[str]) > RECORDS / 4, kinds


def test_rows_that_are_lost_are_no_plan(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(MaintenanceError, match="has other offsets than were wanted: try again"):
        scene.in_tasks(spark, tmp_path, Position.AT_OR_BEFORE, cut=7)


def test_the_operator_has_spark_compare_and_applies_its_plan(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for conn_id, bootstrap in (("OLD", scene.source), ("NEW", scene.target)):
        connection = {"conn_type": "kafka_groups", "host": bootstrap}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    for name, value in {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    groups = [f"{scene.made.orders}.{number}" for number in range(2)]
    at = {(where.topic, where.partition): 40 for where in scene.counterparts if where.topic in scene.made.orders}
    commit_offsets(scene.source, dict.fromkeys(groups, at))
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": "new", "kafka_groups_conn_id": "new"}
    asked: dict[str, Any] = {
        "source_conn_id": "old",
        "group_ids": groups,
        "topic_pattern": "west.{topic}",
        "method": "payload",
    }
    conf = {"spark.driver.extraJavaOptions": quick_options(), "spark.ui.enabled": "false"}
    by_spark: dict[str, Any] = {**asked, "on_spark": True, "spark": {"conf": conf}}
    plan = MigrateGroupOffsetsOperator(task_id="m", dry_run=True, **stored, **by_spark).execute({})
    assert re.search(r'"job": "translate_offsets", "places": 2,', capfd.readouterr().out), "a job has done it"
    alone = MigrateGroupOffsetsOperator(task_id="m", dry_run=True, **stored, **asked).execute({})
    assert {name: plan[name] for name in ("counts", "distance", "refused")} == {
        name: alone[name] for name in ("counts", "distance", "refused")
    }
    named = {"plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"]}
    MigrateGroupOffsetsOperator(task_id="m", **stored, **named).execute({})
    assert all(len(each) == PARTITIONS for each in committed_offsets(scene.target, groups).values())
    left = {path.name.rpartition("-")[2] for path in (tmp_path / "new" / "changes").iterdir()}
    assert left == {"plan.json", "before.json", "result.json"}, "nothing else is left"


def test_a_task_that_reaches_no_broker_says_where(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    unreachable = Scene.__new__(Scene)
    unreachable.__dict__ |= scene.__dict__ | {"target": "127.0.0.1:1"}
    with pytest.raises((KafkaGroupsError, Exception), match=r"the executor on .* cannot read the records"):
        unreachable.in_tasks(spark, tmp_path, Position.EXACT)
