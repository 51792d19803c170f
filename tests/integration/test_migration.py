"""Migrations between two real clusters, Kafka 4.4 and 3.9: the demo's short form, the command, and a kill."""

from pathlib import Path
from random import Random

import pytest

from tests.demo.migration import Mirrored, mirror, run, write_source
from tests.demo.offsets import committed_offsets
from tests.integration.test_shell_verbs import Shell
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.unit.operators.scene import CLUSTER

KILLED_AFTER = (
    "cluster_id",
    "authorized_operations",
    "list_offsets",
    "describe_consumer_groups",
    "alter_consumer_group_offsets",
)


@pytest.mark.safety
def test_consumers_go_on_reading_with_nothing_skipped(
    kafka44: KafkaCluster, kafka39: KafkaCluster, tmp_path: Path
) -> None:
    found = run(kafka44.bootstrap, kafka39.bootstrap, tmp_path, groups=4)
    assert (found["groups"], found["skipped_records"], found["read_twice_unannounced"]) == (16, 0, 0), found
    assert found["read_twice"] <= found["announced_read_twice"]
    methods = found["methods"]
    assert all(methods[method]["partitions"] for method in methods), methods
    assert not methods["header"].get("read_twice"), "a header is exact"
    assert "the source has lost the records" in str(found["refused"]["payload"]["reasons"])


@pytest.fixture(scope="module")
def scene(kafka44: KafkaCluster, kafka39: KafkaCluster) -> Mirrored:
    made = write_source(kafka44.bootstrap, "killed", 2, 60, Random(3))
    mirror(kafka44.bootstrap, kafka39.bootstrap, "killed", made, 2)
    return made


@pytest.mark.safety
def test_commands_that_are_killed_leave_each_group_at_its_old_or_its_new_position(
    kafka44: KafkaCluster, kafka39: KafkaCluster, scene: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path, kafka39, f"west.{scene.orders}")
    groups = {method: [f"{shell.prefix}.{method}.{number}" for number in range(3)] for method in KILLED_AFTER}
    every = [group_id for of_method in groups.values() for group_id in of_method]
    commit_offsets(kafka44.bootstrap, {each: {(scene.orders, 0): 20, (scene.orders, 1): 30} for each in every})
    commit_offsets(kafka39.bootstrap, {each[0]: {(shell.topic, 0): 1, (shell.topic, 1): 1} for each in groups.values()})
    old = committed_offsets(kafka39.bootstrap, every)
    asked = ["--source-bootstrap-servers", kafka44.bootstrap, "--method", "header", "--yes"]
    asked += ["--topic-pattern", "west.{topic}", "--existing", "replace"]
    commands = {method: ["migrate", *of_method, *asked] for method, of_method in groups.items()}
    shell.all_killed(commands)
    killed = committed_offsets(kafka39.bootstrap, every)
    shell.stay(monkeypatch)
    for words in commands.values():
        assert shell.stored(*words)["counts"]["failed"] == 0
    new = committed_offsets(kafka39.bootstrap, every)
    assert all(len(new[each]) == 2 and new[each] != old[each] for each in every)
    assert all(killed[each] in (old[each], new[each]) for each in every)
    assert any(killed[each] == new[each] for each in every), "the last one was killed after it had committed"
    changes = sorted(path.name for path in (shell.storage / CLUSTER / "changes").iterdir())
    assert any(name.endswith("-plan.json") for name in changes), "what was meant for each group is on record"


def test_the_command_shows_each_partition_and_applies_its_plan(
    kafka44: KafkaCluster, kafka39: KafkaCluster, scene: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path, kafka39, f"west.{scene.orders}")
    shell.stay(monkeypatch)
    group_id = f"{shell.prefix}.planned"
    commit_offsets(kafka44.bootstrap, {group_id: {(scene.orders, 0): 20, (scene.orders, 1): 3}})
    words = ["migrate", group_id, "--source-bootstrap-servers", kafka44.bootstrap, "--method", "payload"]
    dry = shell.stored(*words, "--topic-pattern", "west.{topic}", "--partitions", code=3)
    moved, refused = sorted(dry["partitions"], key=lambda row: row["source_partition"])
    assert (moved["source_offset"], moved["topic"], moved["distance"]) == (20, shell.topic, 0)
    assert "the source has lost the records" in refused["refused"]
    assert committed_offsets(kafka39.bootstrap, [group_id]) == {group_id: {}}
    plan = ["--plan-id", dry["plan_id"], "--digest", dry["plan_digest"]]
    assert shell.stored("migrate", *plan, "--yes", code=3)["counts"]["changed"] == 1
    assert committed_offsets(kafka39.bootstrap, [group_id])[group_id] == {(shell.topic, 0): moved["offset"]}
