"""Each verb by its operator in a real DAG: its process is killed in the middle, and the task is cleared."""

import json
import multiprocessing
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook
from tests.dags.killed_verb import VERBS, run_verb
from tests.dags.runs import connect, new_topic
from tests.integration.conftest import each_of
from tests.integration.test_shell_verbs import LONG, static_member
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.records import records

pytestmark = [pytest.mark.airflow, pytest.mark.safety, pytest.mark.timeout(300)]
kafka = each_of("kafka44", "kafka28", scope="session")
INSTANCE = "pod-1"
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.dags.warm_airflow"])


class Scene:
    """Two groups on a topic of their own with twenty records in each of two partitions."""

    def __init__(self, cluster: KafkaCluster, storage: Path) -> None:
        self.cluster, self.storage = cluster, storage
        self.topic = new_topic(cluster.bootstrap, "killed-verbs")
        self.a, self.b, self.target = (f"{self.topic}.{name}" for name in ("a", "b", "target"))
        (storage / "no-dags").mkdir()
        self.hook = KafkaGroupsHook("lab")

    def seed(self) -> None:
        of_a, of_b = ({(self.topic, 0): 5, (self.topic, 1): 7}, {(self.topic, 0): 3, (self.topic, 1): 3})
        commit_offsets(self.cluster.bootstrap, {self.a: of_a, self.b: of_b})

    def offsets(self, group_id: str) -> list[int]:
        read = self.hook.list_consumer_group_offsets([group_id])[group_id].unwrap()
        return [found.offset for _, found in sorted(read.items()) if found is not None]

    def members(self) -> list[str]:
        return [member.member_id for member in self.hook.describe_consumer_groups([self.a])[self.a].unwrap().members]

    def run(self, verb: str, arguments: Mapping[str, Any], kill: str | None = None) -> Any:
        """Run the DAG in a process of its own; return the task's state and its result."""
        scope = {"kafka_groups_conn_id": "lab", "storage_path": str(self.storage), "cluster": "lab"}
        environment = {name: value for name, value in os.environ.items() if name.startswith(("AIRFLOW", "KAFKA"))}
        environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(self.storage / "no-dags")  # it would parse all of them
        here, there = _FORKS.Pipe()
        process = _FORKS.Process(target=run_verb, args=(verb, {**arguments, **scope}, kill, environment, there))
        process.start()
        there.close()
        process.join()
        assert process.exitcode == (0 if kill is None else -signal.SIGKILL)
        if kill is not None:
            return None
        run_id, state, found = here.recv()
        assert run_id == "manual__2026-01-01T00:00:00+00:00", "the killed one's"
        return state, found

    def recorded(self, kind: str) -> list[Any]:
        return [json.loads(path.read_text()) for path in sorted((self.storage / "lab/changes").glob(f"*-{kind}.json"))]


@pytest.fixture
def scene(kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    from airflow.utils.db import initdb

    initdb()
    connect(monkeypatch, kafka.bootstrap, "lab")
    return Scene(kafka, tmp_path)


@pytest.mark.promise(5)
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"remove-members"}))
def test_a_task_that_is_killed_and_cleared_changes_everything_once(scene: Scene, verb: str) -> None:
    scene.seed()
    a, b, target, topic = scene.a, scene.b, scene.target, scene.topic
    of_verbs: dict[str, dict[str, Any]] = {
        "reset": {"group_ids": [a, b], "shift_by": 2},
        "set": {"offsets": {a: {topic: {"0": 9, "1": 11}}}},
        "copy": {"groups": {a: target}},
        "delete": {"group_ids": [a, b], "observe_seconds": 1},
        "delete-offsets": {"group_ids": [a, b], "topics": [topic]},
    }
    arguments = of_verbs[verb]
    scene.run(verb, arguments, "after")
    state, found = scene.run(verb, arguments)
    assert state == "success"
    offsets = {group_id: scene.offsets(group_id) for group_id in (a, b, target)}
    assert (
        offsets
        == {
            "reset": {a: [7, 9], b: [5, 5], target: []},
            "set": {a: [9, 11], b: [3, 3], target: []},
            "copy": {a: [5, 7], b: [3, 3], target: [5, 7]},
            "delete": {a: [], b: [], target: []},
            "delete-offsets": {a: [], b: [], target: []},
        }[verb]
    )
    groups = {"reset": 2, "set": 1, "copy": 1, "delete": 2, "delete-offsets": 2}[verb]
    if verb == "delete":
        assert not {a, b} & set(scene.hook.list_groups())
        *_, last = records(scene.storage)
        ends = {item["group_id"]: item["outcome"] for item in last["outcomes"]}
        assert ends == {a: "gone", b: "gone"}, "by the intent of the killed try, and deleted once"
    else:
        assert found["counts"]["unchanged"] == groups, found
        assert len(scene.recorded("before")) <= 2, "what there was is on record, and what came to its end has a result"
        assert len(scene.recorded("result")) == 1


def test_a_deletion_that_is_killed_before_its_request_left_keeps_the_groups(scene: Scene) -> None:
    """The journal has the intent, and nobody knows whether the request left: for a day, every doubt keeps them."""
    scene.seed()
    arguments = {"group_ids": [scene.a], "observe_seconds": 1}
    scene.run("delete", arguments, "before")
    assert scene.run("delete", arguments) == ("failed", None)
    assert scene.offsets(scene.a) == [5, 7]
    first, second = (record["outcomes"][0] for record in records(scene.storage))
    assert (first["outcome"], second["outcome"]) == ("unknown", "kept")
    assert "possibly deleted it" in second["reason"]


@pytest.mark.parametrize("kill", ["before", "after"])
def test_a_removal_that_is_killed_and_cleared_removes_the_membership_that_was_meant(scene: Scene, kill: str) -> None:
    consumer: Any = SimpleNamespace(cluster=scene.cluster, topic=scene.topic)
    arguments = {"group_id": scene.a, "instance_ids": [INSTANCE], "reason": "its pod was moved"}
    with static_member(consumer, scene.a, INSTANCE, **LONG):
        pass
    (gone,) = scene.members()
    scene.run("remove-members", arguments, kill)
    assert scene.members() == ([gone] if kill == "before" else [])
    if kill == "before":
        state, found = scene.run("remove-members", arguments)
        assert (state, found["counts"]["changed"], scene.members()) == ("success", 1, [])
    with static_member(consumer, scene.a, INSTANCE, **LONG):  # its next process is another membership
        (there,) = scene.members()
        state, found = scene.run("remove-members", arguments)
        assert (state, found["counts"]["kept"], scene.members()) == ("success", 1, [there]), found
