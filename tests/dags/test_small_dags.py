"""The lag alert, drill, restore and pruning, as they are shipped: on a real Airflow and a real three-broker Kafka."""

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.dags.runs import connect, new_topic, result, shipped_dags, states
from tests.demo.migration import BEGUN_MS
from tests.demo.offsets import committed_offsets
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.waiting import until
from tests.lab.workload.groups import commit_offsets, list_groups, seed_groups
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    return shipped_dags()


@pytest.fixture
def bootstrap(kafka41: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    connect(monkeypatch, kafka41.bootstrap)
    return kafka41.bootstrap


def test_they_do_what_they_say(bootstrap: str, dags: dict[str, Any], tmp_path: Path) -> None:
    topic = new_topic(bootstrap, "small-dags")
    groups = [f"{topic}.{i}" for i in range(5)]
    seed_groups(bootstrap, groups, {(topic, 0): 19, (topic, 1): 20})
    scope = {"include": [f"{topic}.*"]}

    # Nobody lags; then one does.
    alert = dags["lag_alert"]
    run = alert.test(run_conf={**scope, "max_lag": 1})
    assert run.state == "success", states(run)
    assert result(run, "measure")["total_lag"] == 5
    commit_offsets(bootstrap, {groups[0]: {(topic, 0): 10, (topic, 1): 20}})
    run = alert.test(run_conf={**scope, "max_lag": 1})
    assert states(run) == {"measure": "success", "alert": "failed"}
    assert result(run, "measure")["lagging_groups"] == {groups[0]: 10}
    assert asset_events("kafka_groups_lag")[-2:] == [
        {"groups": 5, "total_lag": 5, "total_lost": 0, "lagging": 0, "unknown": 0},
        {"groups": 5, "total_lag": 14, "total_lost": 0, "lagging": 1, "unknown": 0},
    ]

    # The drill restores four groups, one is out of its scope, and leaves nothing behind.
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    before = set(list_groups(bootstrap))
    run = dags["backup_and_restore_drill"].test(run_conf={**scope, **storage, "exclude": [groups[4]]})
    assert run.state == "success", states(run)
    assert result(run, "backup")["groups"] == 4
    found = result(run, "drill")
    assert (found["restored"], found["partitions"], found["failed"], found["left"]) == (4, 8, {}, {})
    left = {
        group_id for group_id in list_groups(bootstrap) if group_id.startswith((topic, "airflow-kafka-groups-drill"))
    }
    assert left == {group_id for group_id in before if group_id.startswith(topic)}

    # Pruning is a dry run unless the run itself says otherwise; the newest backup stays in any case.
    backups = tmp_path / "lab" / "backups"
    (newest,) = backups.glob("*.json")
    old = "20200101T000000Z-0123abcd"
    for file in [*backups.iterdir()]:
        text = file.read_bytes().replace(newest.stem.encode(), old.encode())
        (backups / file.name.replace(newest.stem, old)).write_bytes(text)
    prune = dags["prune_kafka_groups_files"]
    for conf, removed, left_over in (({}, 1, 4), ({"dry_run": False}, 1, 2), ({"dry_run": False}, 0, 2)):
        run = prune.test(run_conf={**storage, "keep_newest": 1, **conf})
        assert run.state == "success", states(run)
        assert result(run, "prune")["removed"]["cleanup"] == removed
        assert len(list(backups.iterdir())) == left_over
    assert newest.exists()


def test_the_restore_brings_back_what_it_is_asked_for(bootstrap: str, dags: dict[str, Any], tmp_path: Path) -> None:
    topic = new_topic(bootstrap, "restore-dag")
    groups = [f"{topic}.{i}" for i in range(3)]
    seed_groups(bootstrap, groups, {(topic, 0): 19, (topic, 1): 20})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    run = dags["backup_and_restore_drill"].test(run_conf={**storage, "include": [f"{topic}.*"]})
    plan_id = result(run, "backup")["plan_id"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_consumer_groups(groups[:2]).values():
        future.result()

    restore = dags["restore_group_offsets"]
    assert states(restore.test(run_conf={**storage, "plan_id": None})) == {"restore": "failed"}, "no plan was named"
    for conf, counts in (
        ({"group_ids": None}, {"would_change": 2, "unchanged": 1}),
        ({"dry_run": False, "group_ids": [groups[1]]}, {"changed": 1}),
        ({"dry_run": False, "group_ids": None}, {"changed": 1, "unchanged": 2}),
        ({"dry_run": False, "group_ids": []}, {"unchanged": 3}),
    ):
        run = restore.test(run_conf={**storage, "plan_id": plan_id, **conf})
        assert run.state == "success", states(run)
        assert {name: count for name, count in result(run, "restore")["counts"].items() if count} == counts
    assert committed(bootstrap, groups[1]) == {(topic, 0): 19, (topic, 1): 20}


def test_sleeping_groups_are_kept_alive(bootstrap: str, dags: dict[str, Any], tmp_path: Path) -> None:
    topic = new_topic(bootstrap, "keep-dag")
    seed_groups(bootstrap, [f"{topic}.a", f"{topic}.b"], {(topic, 0): 19})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    keep = dags["keep_groups_alive"]
    assert states(keep.test(run_conf=storage)) == {"keep_alive": "failed"}, "no group was named: it is not about all"
    for conf, counts in (
        ({"include": [f"{topic}.*"]}, {"would_keep_alive": 2}),
        ({"include": [f"{topic}.*"], "exclude": [f"{topic}.b"], "dry_run": False}, {"kept_alive": 1}),
    ):
        run = keep.test(run_conf={**storage, **conf})
        assert run.state == "success", states(run)
        assert {name: n for name, n in result(run, "keep_alive")["counts"].items() if n} == counts
    assert committed(bootstrap, f"{topic}.a") == {(topic, 0): 19}


def test_a_topic_that_a_live_group_has_stopped_reading_is_pruned(
    bootstrap: str, dags: dict[str, Any], tmp_path: Path
) -> None:
    topic = f"prune-dag-{uuid4().hex[:8]}"
    old, group = f"{topic}-old", f"{topic}-app"
    create_topics(bootstrap, {topic: 2, old: 2})
    produce(bootstrap, {(topic, 0): 20, (topic, 1): 10})
    seed_groups(bootstrap, [group, f"{topic}-other"], {(topic, 0): 20, (topic, 1): 10, (old, 0): 0, (old, 1): 0})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    snapshot, prune = dags["snapshot_group_offsets"], dags["prune_abandoned_topics"]
    asked = {**storage, "include": [group], "topic_idle_seconds": 1, "require_approval": False}
    with LiveConsumer(bootstrap, group, [topic], commit_every=0.1):
        assert snapshot.test(run_conf=storage).state == "success"
        idle_enough = time.monotonic() + 1.5  # the next snapshot has to be later by what makes a topic idle
        produce(bootstrap, {(topic, 0): 5, (topic, 1): 5})
        moved = {(topic, 0): 25, (topic, 1): 15}
        until(lambda: time.monotonic() > idle_enough and moved.items() <= committed(bootstrap, group).items())
        assert snapshot.test(run_conf=storage).state == "success"
        run = prune.test(run_conf=asked)
        assert (run.state, result(run, "prune")["counts"]["would_delete"]) == ("success", 1), states(run)
        assert (old, 0) in committed(bootstrap, group), "a dry run is the default"
        run = prune.test(run_conf={**asked, "dry_run": False})
        assert states(run) == dict.fromkeys(("plan", "approve", "prune"), "success")
        assert committed(bootstrap, group) == moved
    (backup,) = (tmp_path / "lab" / "backups").glob("*.json")
    assert json.loads(backup.read_text())["partial"] is True


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    return committed_offsets(bootstrap, [group])[group]


def asset_events(name: str) -> list[dict[str, Any]]:
    """Return what the events of an asset carry, as the DAGs that they start would see it."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        wanted = (
            select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == name)
        )
        return [event.extra for event in session.scalars(wanted.order_by(AssetEvent.id))]


def test_groups_are_copied_and_migrated(
    kafka41: KafkaCluster, kafka39: KafkaCluster, dags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run of a migration returns its plan, which the next run applies as it is."""
    connect(monkeypatch, kafka39.bootstrap)
    connect(monkeypatch, kafka41.bootstrap, "old")
    topic = f"moved-{uuid4().hex[:8]}"
    old, new = f"{topic}.old", f"{topic}.new"
    for cluster, lacking in ((kafka41, 0), (kafka39, 5)):
        create_topics(cluster.bootstrap, {topic: 1})
        produce_at(cluster.bootstrap, topic, range(lacking, 20))
    seed_groups(kafka41.bootstrap, [old], {(topic, 0): 9})
    storage = {"storage_path": str(tmp_path), "cluster": "lab"}
    migrate = dags["migrate_group_offsets"]
    asked = {"source_conn_id": "old", "group_ids": [old], "method": "payload"}
    run = migrate.test(run_conf={**storage, **asked})
    plan = result(run, "migrate")
    assert (plan["dry_run"], plan["counts"]["would_change"], plan["refused"]) == (True, 1, 0)
    assert committed_offsets(kafka39.bootstrap, [old]) == {old: {}}
    named = {"plan_id": plan["plan_id"], "plan_digest": plan["plan_digest"]}
    done = result(migrate.test(run_conf={**storage, **named, "dry_run": False}), "migrate")
    assert done["counts"]["changed"] == 1
    copied = dags["copy_group_offsets"].test(run_conf={**storage, "groups": {old: new}, "dry_run": False})
    assert result(copied, "copy")["counts"]["changed"] == 1
    assert committed_offsets(kafka39.bootstrap, [old, new]) == {each: {(topic, 0): 4} for each in (old, new)}


def produce_at(bootstrap: str, topic: str, numbers: range) -> None:
    """Write records with the times and values that they have in each cluster."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, f"{number}", partition=0, timestamp=BEGUN_MS + number)
    assert producer.flush(30) == 0
