"""Reset, alter and forget: who is touched, what is clamped or skipped, what is on record."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError
from airflow_kafka_groups.kafka.models import GroupState, ListedOffset, TopicPartition
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.pages import DOCS
from tests.unit.operators import scene

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def run(kind: Any, storage: Path, **arguments: Any) -> dict[str, Any]:
    found = kind(task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, **arguments).execute({})
    assert json.loads(json.dumps(found)) == found
    return dict(found)


def reset(storage: Path, **arguments: Any) -> dict[str, Any]:
    return run(ResetGroupOffsetsOperator, storage, **{"group_ids": ["a"], **arguments})


def records(storage: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((storage / scene.CLUSTER / "changes").glob("*.json"))]


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ({"to": "latest"}, 10),
        ({"shift_by": "-2"}, 3),
        ({"shift_by": -100}, 2),
        ({"timestamp": "2026-01-01T00:00:00+00:00"}, 7),
    ],
)
def test_offsets_are_moved_and_clamped_to_the_log(admin: FakeAdmin, tmp_path: Path, target: Any, offset: int) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    admin.log, admin.by_time = (2, 10), {T0: ListedOffset(7)}
    assert reset(tmp_path, **target)["counts"]["changed"] == 1
    assert admin.groups["a"].positions == {T0: offset}


def test_what_was_there_is_on_record_before_it_is_changed(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    found = reset(tmp_path, to="latest")
    planned, result = records(tmp_path)
    assert planned["groups"][0]["before"] == [
        {"topic": "t", "partitions": [0], "offsets": [5], "leader_epochs": [3], "metadata": None}
    ]
    assert result["counts"] == found["counts"]
    assert Path(found["result_path"]).exists()


@pytest.mark.safety
@pytest.mark.parametrize(
    ("kind", "arguments", "call"),
    [
        (ResetGroupOffsetsOperator, {"to": "latest"}, "alter"),
        (DeleteGroupOffsetsOperator, {"topics": ["t"]}, "delete offsets"),
    ],
)
def test_the_record_outlasts_a_crash_of_the_machine(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, arguments: dict[str, Any], call: str
) -> None:
    """It is on the disk, not only in its cache, before the brokers are asked to change anything."""
    admin.groups = {"a": FakeGroup({T0: 5})}
    synced: list[str] = []
    fsync = os.fsync

    def sync(number: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    monkeypatch.setattr(os, "fsync", sync)
    seen: list[list[str]] = []
    admin.before = lambda name: seen.append(list(synced)) if name == call else None
    run(kind, tmp_path, group_ids=["a"], **arguments)
    assert [sum(name.endswith("-before.json") for name in names) for names in seen] == [1]


def test_a_dry_run_changes_nothing(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    assert reset(tmp_path, to="latest", dry_run="True")["counts"]["would_change"] == 1
    assert admin.groups["a"].positions == {T0: 5}
    assert "alter" not in admin.call_names


def test_a_protected_group_and_a_read_only_connection(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    connection = {"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"protected_groups": ["a"]}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    assert "protects" in reset(tmp_path, to="latest")["kept"]["a"]
    with pytest.raises(GroupsFailedError, match="protects"):
        run(DeleteGroupOffsetsOperator, tmp_path, group_ids=["a"], topics=["t"])
    connection["extra"] = {"read_only": True}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    for kind, arguments in (
        (ResetGroupOffsetsOperator, {"to": "latest"}),
        (DeleteGroupOffsetsOperator, {"topics": ["t"]}),
    ):
        with pytest.raises(ConfigurationError, match="read-only"):
            run(kind, tmp_path, group_ids=["a"], **arguments)
    assert admin.groups["a"].positions == {T0: 5}


def test_offsets_are_set_and_groups_made_only_when_asked_for(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    offsets = {"a": {"t": {"0": 7, "1": 99}}, "new": {"t": {0: 1}}}
    assert run(AlterGroupOffsetsOperator, tmp_path, offsets=offsets)["counts"] == {
        **dict.fromkeys(("would_change", "unchanged", "failed", "unknown"), 0),
        "changed": 1,
        "kept": 1,
    }
    assert admin.groups["a"].positions == {T0: 7, T1: 10}
    assert "new" not in admin.groups
    admin.groups["new"] = FakeGroup({}, state=GroupState.DEAD)
    run(AlterGroupOffsetsOperator, tmp_path, offsets=json.dumps(offsets), create=True)
    assert admin.groups["new"].positions == {T0: 1}


def test_offsets_of_a_topic_are_forgotten_and_on_record(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 5, U0: 3}, members=1, subscribed=frozenset({"u"})), "b": FakeGroup({U0: 3})}
    arguments = {"group_ids": ["a", "b"], "topics": ["t"]}
    dry = run(DeleteGroupOffsetsOperator, tmp_path, **arguments, dry_run=True)
    assert (dry["counts"]["would_change"], dry["counts"]["unchanged"], dry["partitions"]) == (1, 1, 1)
    assert admin.groups["a"].positions == {T0: 5, U0: 3}
    found = run(DeleteGroupOffsetsOperator, tmp_path, **arguments)
    assert admin.groups["a"].positions == {U0: 3}
    record, result = [each for each in records(tmp_path) if not each["dry_run"]]
    assert Path(found["result_path"]).exists()
    assert {group["group_id"]: group["outcome"] for group in result["groups"]} == {"a": "changed", "b": "unchanged"}
    assert record["groups"][0]["before"][0]["offsets"] == [5]


@pytest.mark.safety
def test_what_was_committed_since_the_record_is_not_forgotten(admin: FakeAdmin, tmp_path: Path) -> None:
    """Nothing has it but the broker: a client without membership, as Flink's or Spark's, has just committed it."""
    admin.groups = {"a": FakeGroup({T0: 5, U0: 3}), "b": FakeGroup({T0: 5}), "c": FakeGroup({T0: 5})}

    def commit(call: str) -> None:
        if records(tmp_path):
            admin.commit("b", *T0, 6)
            admin.commit("a", *U0, 4)  # of a topic that stays

    admin.before = commit
    with pytest.raises(GroupsFailedError, match=r"1 of 3 failed: 'b': .*moved since they were recorded") as failed:
        run(DeleteGroupOffsetsOperator, tmp_path, group_ids=["a", "b", "c"], topics=["t"])
    assert list(failed.value.errors) == ["b"]
    assert [admin.groups[id_].positions for id_ in "abc"] == [{U0: 4}, {T0: 6}, {}]


@pytest.mark.safety
def test_offsets_are_forgotten_by_the_broker_that_described_the_group_and_soon(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    """Its successor may know better: a broker that stood still is replaced, and answers by what it knew."""
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 5})}

    def move(call: str) -> None:
        if call == "delete offsets":
            admin.groups["b"].coordinator = 2

    admin.before = move
    with pytest.raises(GroupsFailedError, match=r"'b'.*NOT_COORDINATOR"):
        run(DeleteGroupOffsetsOperator, tmp_path, group_ids=["a", "b"], topics=["t"])
    assert [admin.groups[id_].positions for id_ in "ab"] == [{}, {T0: 5}]
    assert all(within is not None and within <= 15 for within in admin.send_within)


@pytest.mark.parametrize("given", [["orders:0,1"], ["orders:0"]])
def test_partitions_of_a_topic_are_no_topic(tmp_path: Path, given: Any) -> None:
    """As kafka-consumer-groups.sh takes them: nothing would match."""
    for operator, arguments in ((DeleteGroupOffsetsOperator, {}), (ResetGroupOffsetsOperator, {"to": "latest"})):
        with pytest.raises(ConfigurationError, match=r"topics \(got 'orders:0.*write 'orders', which stands for all"):
            run(operator, tmp_path, group_ids=["a"], topics=given, **arguments)


CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "reset": (ResetGroupOffsetsOperator, {"group_ids": ["a"], "to": "latest"}),
    "altered": (AlterGroupOffsetsOperator, {"offsets": {"a": {"t": {0: 7}}}}),
    "deleted": (DeleteGroupOffsetsOperator, {"group_ids": ["a"], "topics": ["t"]}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_files_of_a_change_are_those_of_the_page(admin: FakeAdmin, tmp_path: Path, change: str) -> None:
    """docs/formats.md names them."""
    admin.groups = {"a": FakeGroup({T0: 5})}
    kind, arguments = CHANGES[change]
    run(kind, tmp_path, **arguments)
    files = re.findall(r"^  changes/<run>-(\w+)\.json +(.*)", (DOCS / "formats.md").read_text(), re.MULTILINE)
    named = sorted(f"{name}.json" for name, of_changes in files if change in of_changes)
    written = (tmp_path / scene.CLUSTER / "changes").iterdir()
    assert named == sorted(path.name.rpartition("-")[2] for path in written)
