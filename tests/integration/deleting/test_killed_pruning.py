"""A pruning whose process is killed by SIGKILL, at one place after the other, and begins again."""

import asyncio
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import GroupState, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome
from airflow_kafka_groups.storage.layout import Layout
from tests.campaign.judging import CLUSTER
from tests.campaign.real.story import Kill
from tests.campaign.real.worker import Job, work
from tests.integration.conftest import config_of, connection_client
from tests.integration.deleting.test_prune_topics import Scene, until
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

pytestmark = pytest.mark.safety

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.campaign.real.worker"])
KILLS = (
    Kill("offsets", 0),
    Kill("created", 0),
    Kill("created", 1),
    Kill("created", 2),
    Kill("delete offsets", 0),
    Kill("delete offsets", 1, 0.5),
    Kill("delete offsets", 0, 3.0),
    Kill("created", 2),
    Kill("created", 3, 1.0),
    Kill("delete offsets", 1),
)
TOPICS = 14
SAVED = OffsetAndMetadata(3, metadata="kept")


@pytest.mark.promise(5)
async def test_a_process_that_is_killed_again_and_again_prunes_no_topic_twice(
    kafka44: KafkaCluster, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    async with connection_client(config_of(kafka44)) as admin:
        it = Scene(kafka44, admin, Layout(tmp_path / "storage", CLUSTER), "classic")
        old = [f"{it.group}-old-{number:02d}" for number in range(TOPICS)]
        await asyncio.to_thread(create_topics, kafka44.bootstrap, {it.live: 2, **dict.fromkeys(old, 1)})
        await asyncio.to_thread(produce, kafka44.bootstrap, {(topic, 0): 4 for topic in old})

        async def there() -> set[str]:
            read = await admin.list_consumer_group_offsets(it.group)
            found = {where.topic: value for where, value in read.items() if value is not None and where.topic in old}
            assert {(value.offset, value.metadata) for value in found.values()} <= {(3, "kept")}
            return set(found)

        async def is_empty() -> bool:
            group = (await admin.describe_consumer_groups([it.group]))[it.group].unwrap()
            return group.state in (GroupState.EMPTY, GroupState.DEAD)

        async def put_back(topics: set[str]) -> None:
            await until(is_empty, "the group does not become Empty")
            saved = {TopicPartition(topic, 0): SAVED for topic in topics}
            (await admin.alter_consumer_group_offsets({it.group: saved}))[it.group].unwrap()

        async def begin() -> LiveConsumer:
            consumer = it.consumer(it.live)
            await asyncio.to_thread(consumer.start)
            await it.stable()
            return consumer

        await put_back(set(old))
        consumer = await begin()
        try:
            plan = await it.plan()
            assert len(plan.group_ids) == TOPICS, plan.kept
            job: dict[str, Any] = {"action": "prune", "bootstrap": kafka44.bootstrap, "prefix": "", "trace": str(trace)}
            job |= {"storage": str(tmp_path / "storage"), "plan": (plan.plan_id, plan.digest)}
            restored = set[str]()
            for number, kill in enumerate(KILLS):
                process = _FORKS.Process(target=work, args=(Job(number=number, kill=kill, **job),), daemon=True)
                process.start()
                await asyncio.to_thread(process.join, 60)
                print(number, kill, process.exitcode, len(await there()))
                assert process.exitcode == -9, trace.read_text()
                intended = set(read_history(it.layout, await admin.cluster_id()).deletions())
                missing = set(old) - await there()
                assert {f"{it.group} [{topic}]" for topic in missing} <= intended, "deleted without a record"
                if number == 6:
                    restored = missing
                    assert restored
                    await asyncio.to_thread(consumer.stop)
                    await put_back(restored)
                    consumer = await begin()
            ended = await it.prune(plan)
            left = await there()
            assert restored <= left, "what somebody restored was pruned once more"
            for topic in old:
                fate = ended[f"{it.group} [{topic}]"]
                there_still = ("kept:deleted_before", "kept:alive_before")
                assert fate in (there_still if topic in left else ("deleted:safe", "gone:gone")), topic
            assert await it.prune(plan) == {
                name: "gone:gone" if fate == "deleted:safe" else fate for name, fate in ended.items()
            }
            lines = [json.loads(line) for line in trace.read_text().splitlines()]
            sent = [topic for line in lines if line["what"] == "delete offsets" for topic in line["topics"]]
            assert len(sent) == len(set(sent)), "a request was sent twice"
            assert await it.committed(it.live), "a topic that is read lost its offsets"
        finally:
            await asyncio.to_thread(consumer.stop)
        # What is gone is in the backup, whichever of the processes wrote it.
        assert left != set(old)
        await until(is_empty, "the group does not become Empty")
        assert (await it.restore(plan)).outcome is ChangeOutcome.CHANGED
        assert await there() == set(old)
