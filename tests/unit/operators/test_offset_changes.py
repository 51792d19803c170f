"""Reset, alter, forget and restore: who is touched, what is clamped or skipped, what is on record."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError
from airflow_kafka_groups.kafka.models import GroupState, ListedOffset, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from tests.fakes.groups import FakeGroup, timeout
from tests.pages import DOCS
from tests.unit.made_once import made_once
from tests.unit.operators import scene
from tests.unit.operators.scene import Site, changes

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def reset(storage: Path, **arguments: Any) -> dict[str, Any]:
    return scene.run(ResetGroupOffsetsOperator, storage, **{"group_ids": ["a"], **arguments})


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ({"to": "latest"}, 10),
        ({"shift_by": "-2"}, 3),
        ({"shift_by": -100}, 2),
        ({"timestamp": "2026-01-01T00:00:00+00:00"}, 7),
    ],
)
def test_offsets_are_moved_and_clamped_to_the_log(site: Site, target: Any, offset: int) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    site.admin.log, site.admin.by_time = (2, 10), {T0: ListedOffset(7)}
    assert reset(site.storage, **target)["counts"]["changed"] == 1
    assert site.admin.groups["a"].positions == {T0: offset}


def test_what_was_there_is_on_record_before_it_is_changed(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    found = reset(site.storage, to="latest")
    planned, result = changes(site.storage)
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
    site: Site, kind: Any, arguments: dict[str, Any], call: str
) -> None:
    """It is on the disk, not only in its cache, before the brokers are asked to change anything."""
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    synced: list[str] = []
    fsync = os.fsync

    def sync(number: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    site.patch.setattr(os, "fsync", sync)
    seen: list[list[str]] = []
    site.admin.before = lambda name: seen.append(list(synced)) if name == call else None
    site.run(kind, group_ids=["a"], **arguments)
    assert [sum(name.endswith("-before.json") for name in names) for names in seen] == [1]


def test_a_dry_run_changes_nothing(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    assert reset(site.storage, to="latest", dry_run="True")["counts"]["would_change"] == 1
    assert site.admin.groups["a"].positions == {T0: 5}
    assert "alter" not in site.admin.call_names


def test_a_protected_group_and_a_read_only_connection(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    connection = {"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"protected_groups": ["a"]}}
    site.patch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    assert "protects" in reset(site.storage, to="latest")["kept"]["a"]
    with pytest.raises(GroupsFailedError, match="protects"):
        site.run(DeleteGroupOffsetsOperator, group_ids=["a"], topics=["t"])
    connection["extra"] = {"read_only": True}
    site.patch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))
    for kind, arguments in (
        (ResetGroupOffsetsOperator, {"to": "latest"}),
        (DeleteGroupOffsetsOperator, {"topics": ["t"]}),
    ):
        with pytest.raises(ConfigurationError, match="read-only"):
            site.run(kind, group_ids=["a"], **arguments)
    assert site.admin.groups["a"].positions == {T0: 5}


def test_offsets_are_set_and_groups_made_only_when_asked_for(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    offsets = {"a": {"t": {"0": 7, "1": 99}}, "new": {"t": {0: 1}}}
    assert site.run(AlterGroupOffsetsOperator, offsets=offsets)["counts"] == {
        **dict.fromkeys(("would_change", "unchanged", "failed", "unknown"), 0),
        "changed": 1,
        "kept": 1,
    }
    assert site.admin.groups["a"].positions == {T0: 7, T1: 10}
    assert "new" not in site.admin.groups
    site.admin.groups["new"] = FakeGroup({}, state=GroupState.DEAD)
    site.run(AlterGroupOffsetsOperator, offsets=json.dumps(offsets), create=True)
    assert site.admin.groups["new"].positions == {T0: 1}


def test_offsets_of_a_topic_are_forgotten_and_on_record(site: Site) -> None:
    site.admin.groups = {
        "a": FakeGroup({T0: 5, U0: 3}, members=1, subscribed=frozenset({"u"})),
        "b": FakeGroup({U0: 3}),
    }
    arguments = {"group_ids": ["a", "b"], "topics": ["t"]}
    dry = site.run(DeleteGroupOffsetsOperator, **arguments, dry_run=True)
    assert (dry["counts"]["would_change"], dry["counts"]["unchanged"], dry["partitions"]) == (1, 1, 1)
    assert site.admin.groups["a"].positions == {T0: 5, U0: 3}
    found = site.run(DeleteGroupOffsetsOperator, **arguments)
    assert site.admin.groups["a"].positions == {U0: 3}
    record, result = [each for each in changes(site.storage) if not each["dry_run"]]
    assert Path(found["result_path"]).exists()
    assert {group["group_id"]: group["outcome"] for group in result["groups"]} == {"a": "changed", "b": "unchanged"}
    assert record["groups"][0]["before"][0]["offsets"] == [5]


@pytest.mark.safety
def test_what_was_committed_since_the_record_is_not_forgotten(site: Site) -> None:
    """Nothing has it but the broker: a client without membership, as Flink's or Spark's, has just committed it."""
    site.admin.groups = {"a": FakeGroup({T0: 5, U0: 3}), "b": FakeGroup({T0: 5}), "c": FakeGroup({T0: 5})}

    def commit(call: str) -> None:
        if changes(site.storage):
            site.admin.commit("b", *T0, 6)
            site.admin.commit("a", *U0, 4)  # of a topic that stays

    site.admin.before = commit
    with pytest.raises(GroupsFailedError, match=r"1 of 3 failed: 'b': .*moved since they were recorded") as failed:
        site.run(DeleteGroupOffsetsOperator, group_ids=["a", "b", "c"], topics=["t"])
    assert list(failed.value.errors) == ["b"]
    assert [site.admin.groups[id_].positions for id_ in "abc"] == [{U0: 4}, {T0: 6}, {}]


@pytest.mark.safety
def test_offsets_are_forgotten_by_the_broker_that_described_the_group_and_soon(site: Site) -> None:
    """Its successor may know better: a broker that stood still is replaced, and answers by what it knew."""
    site.admin.groups = {"b": FakeGroup({T0: 5})}

    def move(call: str) -> None:
        if call == "delete offsets":
            site.admin.groups["b"].coordinator = 2

    site.admin.before = move
    with pytest.raises(GroupsFailedError, match=r"'b'.*NOT_COORDINATOR"):
        site.run(DeleteGroupOffsetsOperator, group_ids=["b"], topics=["t"])
    assert site.admin.groups["b"].positions == {T0: 5}
    assert all(within is not None and within <= 15 for within in site.admin.send_within)


@pytest.mark.parametrize("given", [["orders:0,1"], ["orders:0"]])
def test_partitions_of_a_topic_are_no_topic(tmp_path: Path, given: Any) -> None:
    """As kafka-consumer-groups.sh takes them: nothing would match."""
    for kind, arguments in ((DeleteGroupOffsetsOperator, {}), (ResetGroupOffsetsOperator, {"to": "latest"})):
        with pytest.raises(ConfigurationError, match=r"topics \(got 'orders:0.*write 'orders', which stands for all"):
            scene.run(kind, tmp_path, group_ids=["a"], topics=given, **arguments)


CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "reset": (ResetGroupOffsetsOperator, {"group_ids": ["a"], "to": "latest"}),
    "altered": (AlterGroupOffsetsOperator, {"offsets": {"a": {"t": {0: 7}}}}),
    "deleted": (DeleteGroupOffsetsOperator, {"group_ids": ["a"], "topics": ["t"]}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_files_of_a_change_are_those_of_the_page(site: Site, change: str) -> None:
    """docs/formats.md names them."""
    site.admin.groups = {"a": FakeGroup({T0: 5})}
    kind, arguments = CHANGES[change]
    site.run(kind, **arguments)
    files = re.findall(r"^  changes/<run>-(\w+)\.json +(.*)", (DOCS / "formats.md").read_text(), re.MULTILINE)
    named = sorted(f"{name}.json" for name, of_changes in files if change in of_changes)
    written = (site.folder / "changes").iterdir()
    assert named == sorted(path.name.rpartition("-")[2] for path in written)


# Changes of offsets of groups that cannot be read: nobody kept them, so the task tries again, and fails in the end.


OF_TWO: dict[Any, dict[str, Any]] = {
    RestoreGroupOffsetsOperator: {"overwrite": True},
    ResetGroupOffsetsOperator: {"group_ids": ["a", "b"], "to": "earliest"},
    AlterGroupOffsetsOperator: {"offsets": {group_id: {"t": {"0": 3}} for group_id in "ab"}},
}


@pytest.mark.parametrize("unread", ["describe_errors", "offset_errors"])
@pytest.mark.parametrize("kind", OF_TWO)
def test_a_change_that_a_silent_broker_prevents_is_no_success(kind: Any, unread: str, site: Site) -> None:
    """A restore was a success, with a line in its log, for the groups of two brokers out of three."""
    site.admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 5})}
    backup = site.run(BackupGroupOffsetsOperator, group_ids=["a", "b"])
    for group_id in "ab":
        site.admin.commit(group_id, *T0, 7)
    arguments = {**OF_TWO[kind], **({"plan_id": backup["plan_id"]} if kind is RestoreGroupOffsetsOperator else {})}
    getattr(site.admin, unread)["b"] = timeout()
    dry = site.run(kind, dry_run=True, **arguments)
    assert list(dry["kept"]) == ["b"], "a dry run says so"
    with pytest.raises(GroupsFailedError, match=r"1 of 2 failed: .b.: it(s offsets)? cannot be (read|described)"):
        site.run(kind, dry_run=False, **arguments)
    assert site.admin.groups["a"].positions != {T0: 7}, "the others are changed"


@pytest.mark.parametrize("kind", OF_TWO)
def test_a_change_without_the_partitions_of_a_silent_leader_is_no_success(kind: Any, site: Site) -> None:
    """A consumer began at the end of a partition: its offset was left out of a restore that was a success."""
    both = {T0: 5, U0: 5}
    site.admin.groups = {"a": FakeGroup(both), "b": FakeGroup({U0: 5})}
    backup = site.run(BackupGroupOffsetsOperator, group_ids=["a", "b"])
    for where in both:
        site.admin.commit("a", *where, 7)
    site.admin.commit("b", *U0, 7)
    change: dict[str, Any] = {
        RestoreGroupOffsetsOperator: {**OF_TWO[RestoreGroupOffsetsOperator], "plan_id": backup["plan_id"]},
        ResetGroupOffsetsOperator: OF_TWO[ResetGroupOffsetsOperator],
        AlterGroupOffsetsOperator: {"offsets": {"a": {"t": {0: 3}, "u": {0: 3}}, "b": {"u": {0: 3}}}},
    }[kind]
    site.admin.ends[U0] = timeout()
    dry = site.run(kind, dry_run=True, **change)
    assert (list(dry["skipped"]), list(dry["kept"])) == (["a", "b"], ["b"]), "a dry run says so"
    assert "cannot be read" in dry["kept"]["b"]
    assert "deleted or recreated" not in dry["kept"]["b"]
    with pytest.raises(GroupsFailedError, match=r"2 of 2 failed: .*'a': u\[0\] was left out: the log .* 30 s"):
        site.run(kind, dry_run=False, **change)
    positions = site.admin.groups["a"].positions
    assert (positions[T0] != 7, positions[U0]) == (True, 7), "what could be read is changed"
    del site.admin.ends[U0]
    assert site.run(kind, dry_run=False, **change)["counts"]["changed"] == 2
    assert {site.admin.groups[name].positions[U0] for name in "ab"} == {positions[T0]}, "and the rest by the next try"


def test_a_group_that_was_deleted_meanwhile_is_no_success_and_restored_by_the_next_try(site: Site) -> None:
    """It was kept as one that somebody uses: the task was a success, with the group gone."""
    site.admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 5})}
    backup = site.run(BackupGroupOffsetsOperator, group_ids=["a", "b"])

    def delete(call: str) -> None:
        if call == "describe":
            site.admin.groups.pop("b", None)

    site.admin.before = delete
    task = RestoreGroupOffsetsOperator(task_id="t", plan_id=backup["plan_id"], dry_run=False, **site.stored)
    with pytest.raises(GroupsFailedError, match=r"1 of 2 failed: 'b': offsets of it were deleted meanwhile: run it"):
        task.execute({})
    site.admin.before = lambda call: None
    assert task.execute({})["counts"]["changed"] == 1
    assert site.admin.groups["b"].positions == {T0: 5}


# Restore: who gets offsets back, what is skipped, and that newer offsets outlive it.


@pytest.fixture
def backed_up(site: Site) -> str:
    """Return the id of a plan with a backup of a (t at 5 and 6) and b, as they were before they were deleted."""

    def make() -> str:
        snapshot_id = site.take_snapshot()
        site.judge(snapshot_id, ["a", "b"])
        planned = site.plan(snapshot_id=snapshot_id, max_share=1.0)
        assert site.back_up(planned)["groups"] == 2
        return str(planned["plan_id"])

    site.admin.groups = {"a": FakeGroup({T0: 5, T1: 6}), "b": FakeGroup({U0: 3})}
    plan_id = made_once("to restore", site.storage, make)
    site.admin.groups = {}
    site.admin.forget_calls()
    return plan_id


def restore(storage: Path, plan_id: str, **arguments: Any) -> dict[str, Any]:
    return scene.run(RestoreGroupOffsetsOperator, storage, **{"plan_id": plan_id, **arguments})


def test_deleted_groups_are_restored(site: Site, backed_up: str) -> None:
    assert restore(site.storage, backed_up, dry_run=True)["counts"]["would_change"] == 2
    assert site.admin.groups == {}
    found = restore(site.storage, backed_up)
    assert (found["counts"]["changed"], found["partitions"], found["skipped"]) == (2, 3, {})
    assert {name: group.positions for name, group in site.admin.groups.items()} == {"a": {T0: 5, T1: 6}, "b": {U0: 3}}
    assert restore(site.storage, backed_up)["counts"]["unchanged"] == 2, "twice is once"


@pytest.mark.parametrize("by", ["a restore", "a change (alter)"])
def test_the_idle_time_of_a_group_that_was_restored_begins_anew(site: Site, by: str) -> None:
    """The brokers forgot it, no snapshot shows that, and it looks as it did when it was judged."""
    site.admin.groups = {name: FakeGroup({T0: OffsetAndMetadata(5)}, protocol_type="") for name in ("a", "b")}
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, ["a", "b"])
    planned = site.plan(snapshot_id=snapshot_id, max_share=1.0)
    site.back_up(planned)
    del site.admin.groups["a"]
    if by == "a restore":
        restore(site.storage, planned["plan_id"], group_ids=["a"])
    else:
        site.run(AlterGroupOffsetsOperator, offsets={"a": {"t": {0: 5}}}, create=True)
    site.apply(planned)
    assert sorted(site.admin.groups) == ["a"], "nobody restored b"

    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, ["a"])
    again = site.plan(snapshot_id=snapshot_id, max_share=1.0)
    assert again["counts"]["planned"] == 0
    (kept,) = load_plan(site.layout, again["plan_id"]).kept
    assert kept.reason.startswith(f"{by} of ")


def test_where_nobody_tells_ids_the_logs_alone_decide(site: Site, backed_up: str) -> None:
    site.admin.ids = {}
    assert restore(site.storage, backed_up, dry_run=True)["counts"]["would_change"] == 2
    path = site.folder / "backups" / f"{backed_up}.json"
    manifest = json.loads(path.read_text())
    assert manifest["topic_ids"] == {"t": "id-of-t", "u": "id-of-u"}
    path.write_text(json.dumps({**manifest, "topic_ids": {}}))  # as of brokers before 2.8
    site.admin.ids = {"t": "another", "u": "another"}
    assert restore(site.storage, backed_up)["counts"]["changed"] == 2
