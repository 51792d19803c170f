"""The table of cases in docs/howto/migrate.md, row by row, between two real clusters, and as a user of Python asks."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from airflow_kafka_groups.change.migrate import MigrateRequest
from airflow_kafka_groups.change.restore.change_offsets import RecordedChanges
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from tests.demo.migration import BEGUN_MS, HEADER
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, delete_records, delete_topics, produce, quiet

pytestmark = pytest.mark.safety

SYNCS = f"mm2-offset-syncs.{uuid4().hex[:6]}.internal"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A topic of ten records, its mirror, and a group that has read some.

    :param wanted: the offset in the mirror, or a part of the reason why there is none.
    :param twice: how many records are announced to be read twice.
    :param at: what the group has committed in the source.
    :param times: the records' timestamps.
    :param mirrored: the first record that the mirror has, and the end.
    :param partitions: of the mirror; 0 for none.
    :param lost: how many records are gone in the source, and how many in the mirror.
    """

    method: str
    wanted: int | str
    twice: int = 0
    at: int = 5
    times: Sequence[int] = range(10)
    mirrored: tuple[int, int] = (3, 10)
    partitions: int = 1
    lost: tuple[int, int] = (0, 0)
    asked: Mapping[str, Any] = field(default_factory=dict)
    topic: str = field(default_factory=lambda: f"row-{uuid4().hex[:8]}")


SAME_TIMES = (0, 1, 2, 5, 4, 5, 6, 7, 8, 9)
ROWS = {
    "a mirror": Row(method="payload", wanted=2),
    "recreated: the pairs lie beyond the log": Row(
        method="offset-syncs", wanted="beyond the target's log end 7", asked={"mirror_topic": SYNCS}
    ),
    "more partitions": Row(method="header", wanted="the source has 1 partitions, and 'row-", partitions=2),
    "more partitions, mapped": Row(method="header", wanted=2, partitions=2, asked={"mapping": ":0"}),
    "on one side only": Row(method="header", wanted="the target has no topic 'row-", partitions=0),
    "lost in the target": Row(method="header", wanted="it was not mirrored, or is lost", lost=(0, 4)),
    "lost in the target, by payload": Row(method="payload", wanted="is not in the target at", lost=(0, 4)),
    "lost in the source": Row(method="header", wanted=2, lost=(7, 0)),
    "lost in the source, by payload": Row(method="payload", wanted="lost the records from 5 to 7", lost=(7, 0)),
    "lost in the source, by time": Row(method="timestamp", wanted="lost the records from 5 to 7", lost=(7, 0)),
    "times do not grow": Row(method="timestamp", wanted=0, twice=2, times=SAME_TIMES),
    "times do not grow, by payload": Row(method="payload", wanted=2, times=SAME_TIMES),
    "behind": Row(method="header", wanted=2, twice=3, at=8, mirrored=(3, 5)),
    "behind, by payload": Row(method="payload", wanted="the mirror is behind", at=8, mirrored=(3, 5)),
    "behind, by time": Row(method="timestamp", wanted="the mirror is behind", at=8, mirrored=(3, 5)),
}
LATER = {each: Row(method="header", wanted=2) for each in ("the mirror is recreated", "the source is recreated")}


class Clusters:
    """Two clusters with the topics and groups of all rows, and a hook for each."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        rows = [*ROWS.values(), *LATER.values()]
        create_topics(source, {row.topic: 1 for row in rows} | {SYNCS: 1})
        create_topics(target, {row.topic: row.partitions for row in rows if row.partitions})
        here, there = Producer(quiet(source)), Producer(quiet(target))
        for row in rows:
            for number, time in enumerate(row.times):
                record: Any = {"value": f"{number}", "partition": 0, "timestamp": BEGUN_MS + time}
                here.produce(row.topic, **record)
                if row.partitions and row.mirrored[0] <= number < row.mirrored[1]:
                    there.produce(row.topic, **record, headers=[(HEADER, number.to_bytes(8, "big"))])
            if row.asked.get("mirror_topic"):
                key = struct.pack(">h", len(row.topic)) + row.topic.encode() + struct.pack(">i", 0)
                here.produce(SYNCS, struct.pack(">qq", 4, 900), key)
        assert here.flush(30) == there.flush(30) == 0
        delete_records(source, {(row.topic, 0): row.lost[0] for row in rows if row.lost[0]})
        delete_records(target, {(row.topic, 0): row.lost[1] for row in rows if row.lost[1]})
        commit_offsets(source, {row.topic: {(row.topic, 0): row.at} for row in rows})

    def change(self, storage: Path, *, dry_run: bool = False, conn_id: str = "target", **asked: Any) -> Any:
        """Migrate by the hook, and return the plan and what was done."""
        built = KafkaGroupsHook("source").get_conn()
        request = MigrateRequest(source=None if "plan_id" in asked else lambda: built, **asked)
        hook = KafkaGroupsHook(conn_id)
        done = hook.change(request, storage_path=str(storage), cluster=conn_id, dry_run=dry_run)
        assert isinstance(done, RecordedChanges)
        return request.made, done


@pytest.fixture(scope="module")
def made(kafka44: KafkaCluster, kafka39: KafkaCluster) -> Clusters:
    return Clusters(kafka44.bootstrap, kafka39.bootstrap)


@pytest.fixture
def clusters(made: Clusters, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    for name, bootstrap in (("SOURCE", made.source), ("TARGET", made.target)):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", f'{{"conn_type": "kafka_groups", "host": "{bootstrap}"}}')
    return made


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_group_is_set_to_its_position_or_left_out_with_the_reason(
    clusters: Clusters, tmp_path: Path, row: Row
) -> None:
    if row.asked.get("mapping"):
        row = replace(row, asked={"mapping": {f"{row.topic}:0": f"{row.topic}:0"}})
    plan, done = clusters.change(tmp_path, group_ids=[row.topic], method=row.method, **row.asked)
    (change,), (group,) = done.changes, plan.groups.values()
    if isinstance(row.wanted, int):
        assert {where.topic: value.offset for where, value in change.after.items()} == {row.topic: row.wanted}
        assert (done.counts["changed"], plan.summary()["distance"]) == (1, row.twice)
        return
    assert (done.counts["kept"], done.failures()) == (1, {}), "nobody has to repeat what would be refused again"
    (reason,) = group.refused.values()
    assert row.wanted in reason


def test_a_plan_is_not_applied_to_a_mirror_that_was_recreated_since(clusters: Clusters, tmp_path: Path) -> None:
    topic = LATER["the mirror is recreated"].topic
    plan, _ = clusters.change(tmp_path, dry_run=True, group_ids=[topic], method="header")
    delete_topics(clusters.target, [topic])
    create_topics(clusters.target, {topic: 1})
    produce(clusters.target, {(topic, 0): 10})  # the offset is in its log, too
    _, done = clusters.change(tmp_path, plan_id=plan.plan_id, plan_digest=plan.digest)
    (result,) = done.results
    assert (result.outcome, "the topic was recreated" in str(result.skipped)) == ("kept", True), result


def test_offsets_of_a_backup_are_not_those_of_a_topic_that_was_recreated_since(
    clusters: Clusters, tmp_path: Path
) -> None:
    topic = LATER["the source is recreated"].topic
    stored: Any = {"storage_path": str(tmp_path), "cluster": "source", "kafka_groups_conn_id": "source"}
    backup = BackupGroupOffsetsOperator(task_id="b", group_ids=[topic], **stored).execute({})
    of_backup = {"backup_id": backup["plan_id"], "source_cluster": "source", "method": "header"}
    assert clusters.change(tmp_path, dry_run=True, **of_backup)[1].counts["would_change"] == 1
    delete_topics(clusters.source, [topic])
    create_topics(clusters.source, {topic: 1})
    plan, done = clusters.change(tmp_path, **of_backup)
    assert done.counts["kept"] == 1
    assert "the topic was recreated" in str(plan.groups[topic].refused)


def test_one_cluster_is_no_migration(clusters: Clusters, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="both clusters have the id"):
        clusters.change(tmp_path, conn_id="source", group_ids=[ROWS["a mirror"].topic], method="header")
