"""Backups, and the rehearsal of a restore: on scratch groups of its own, which are gone afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BackupError,
    ConfigurationError,
    ConnectionFailedError,
    IncompleteListingError,
    KafkaGroupsError,
    MaintenanceError,
)
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.offset_changes import RestoreGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, broker_error, timeout
from tests.unit.operators import scene
from tests.unit.operators.scene import Site

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
OLD0, OLD1, NEW = TopicPartition("old", 0), TopicPartition("old", 1), TopicPartition("new", 0)


def back_up(storage: Path, **arguments: Any) -> dict[str, Any]:
    return scene.run(BackupGroupOffsetsOperator, storage, **arguments)


def rehearse(storage: Path, plan_id: str, **arguments: Any) -> dict[str, Any]:
    return scene.run(RestoreDrillOperator, storage, plan_id=plan_id, **arguments)


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {
        "a": FakeGroup({T0: 5, T1: 7}),
        "b": FakeGroup({T0: 9}, state=GroupState.STABLE, members=1),
        "none": FakeGroup({}),
        "share": FakeGroup({}, type=GroupType.SHARE),
    }


def test_groups_are_backed_up_without_a_plan_in_use_or_not(site: Site) -> None:
    backup = back_up(site.storage)
    assert (backup["groups"], backup["rows"], backup["plan_digest"]) == (2, 3, "no plan")
    assert "no committed offset" in backup["reasons"]["none"]
    assert "no committed offset" in backup["reasons"]["share"]
    assert back_up(site.storage, group_ids='["a", "typo"]')["reasons"] == {"typo": "it does not exist"}
    assert back_up(site.storage, include=["b"])["groups"] == 1
    site.admin.errors["a"] = broker_error("NOT_COORDINATOR")
    assert "could not be read" in back_up(site.storage)["reasons"]["a"]


@pytest.mark.parametrize("sees_all", [True, False])
def test_topics_that_are_hidden_from_the_user_are_said_to_be_missing_in_a_backup(
    site: Site, caplog: pytest.LogCaptureFixture, sees_all: bool
) -> None:
    site.admin.sees_topics = sees_all
    assert back_up(site.storage)["groups"] == 2
    assert ("This backup may lack" in caplog.text) is not sees_all


def test_a_backup_is_not_lost_where_nobody_can_say_in_the_end_whether_topics_are_hidden(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """All groups were read, and the broker that was asked last lost them."""

    async def lost() -> bool:
        raise ConnectionFailedError("b1:9092", "refused")

    site.patch.setattr(site.admin, "sees_all_topics", lost)
    assert back_up(site.storage)["groups"] == 2
    assert "This backup may lack" in caplog.text
    assert "is not known: b1:9092" in caplog.text


def test_such_a_backup_restores_and_deletes_nothing(site: Site) -> None:
    plan_id = back_up(site.storage)["plan_id"]
    for digest in ("0" * 64, "no plan"):
        with pytest.raises((MaintenanceError, ConfigurationError)):
            site.delete(plan_id=plan_id, plan_digest=digest)
    del site.admin.groups["a"]
    restored = site.run(RestoreGroupOffsetsOperator, plan_id=plan_id, group_ids=["a"])
    assert restored["counts"]["changed"] == 1
    assert site.admin.groups["a"].positions == {T0: 5, T1: 7}


def test_a_drill_leaves_the_cluster_as_it_was(site: Site) -> None:
    backup = back_up(site.storage)
    before = {group_id: dict(group.offsets) for group_id, group in site.admin.groups.items()}
    found = rehearse(site.storage, backup["plan_id"])
    assert (found["restored"], found["partitions"]) == (2, 3)
    assert found["skipped"] == found["failed"] == found["left"] == {}
    assert {group_id: dict(group.offsets) for group_id, group in site.admin.groups.items()} == before
    names = [name.rsplit(".", 2) for name in sorted(site.admin.deleted)]
    assert [name[::2] for name in names] == [[f"airflow-kafka-groups-drill.{backup['plan_id']}", n] for n in "01"]
    assert all(len(name[1]) == 8 for name in names), "two drills have no name in common"
    assert rehearse(site.storage, backup["plan_id"], max_groups="1", scratch_prefix="x.")["partitions"] == 2


def test_partitions_that_cannot_be_restored_are_named(site: Site) -> None:
    backup = back_up(site.storage, group_ids=["a"])
    site.admin.ends[T1] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    found = rehearse(site.storage, backup["plan_id"])
    assert (found["restored"], found["partitions"], list(found["skipped"])) == (1, 1, ["a: t[1]"])


def test_partitions_whose_leader_does_not_answer_show_nothing_of_a_restore(site: Site) -> None:
    """The drill was a success that had left them out, as if their topics were gone."""
    backup = back_up(site.storage)
    site.admin.ends[T1] = timeout()
    with pytest.raises(MaintenanceError, match=r"{'a': 't\[1\] was left out: the log start .* 30 s'}; .* left: {}"):
        rehearse(site.storage, backup["plan_id"])
    assert sorted(site.admin.groups) == ["a", "b", "none", "share"], "no scratch group is left"


def test_what_does_not_come_back_as_it_was_fails_the_drill(site: Site) -> None:
    backup = back_up(site.storage, group_ids=["a"])
    alter = site.admin.alter_consumer_group_offsets

    async def alter_and_meddle(offsets: Any, **_: Any) -> Any:
        done = await alter(offsets)
        for group_id in offsets:
            site.admin.commit(group_id, *T0, 3)
        return done

    site.patch.setattr(site.admin, "alter_consumer_group_offsets", alter_and_meddle)
    with pytest.raises(MaintenanceError, match=r"'a': '1 partition\(s\) differ"):
        rehearse(site.storage, backup["plan_id"])
    assert site.admin.deleted == [], "it holds what the drill did not put there"


@pytest.mark.parametrize("lost_at", ["stable offsets", "delete"], ids=["reading back", "deleting"])
def test_scratch_groups_are_named_where_no_broker_can_be_reached_any_more(
    site: Site, lost_at: str, caplog: pytest.LogCaptureFixture
) -> None:
    backup = back_up(site.storage, group_ids=["a"])
    site.admin.forget_calls()

    def lose(call: str) -> None:
        if "alter" in site.admin.call_names and (call == lost_at or site.admin.call_names[-1] == "lost"):
            site.admin.calls.append(("lost", []))
            raise ConnectionFailedError("b1:9092", "refused")

    site.admin.before = lose
    with pytest.raises(KafkaGroupsError) as caught:
        rehearse(site.storage, backup["plan_id"])
    (scratch,) = site.admin.groups.keys() - {"a", "b", "none", "share"}
    assert scratch in caplog.text + str(caught.value)


def test_a_drill_needs_a_backup_of_this_cluster_and_may_write(site: Site) -> None:
    empty = back_up(site.storage, include=["nobody"])
    with pytest.raises(BackupError, match="no group"):
        rehearse(site.storage, empty["plan_id"])
    backup = back_up(site.storage)
    site.admin.cluster = "another"
    with pytest.raises(BackupError, match="another"):
        rehearse(site.storage, backup["plan_id"])
    site.admin.cluster = CLUSTER_ID
    site.connect(read_only=True)
    with pytest.raises(ConfigurationError, match="read-only"):
        rehearse(site.storage, backup["plan_id"])
    assert site.admin.deleted == []


def test_a_backup_needs_every_broker_and_one_way_to_choose(site: Site) -> None:
    site.admin.missing_brokers = {2: timeout()}
    with pytest.raises(IncompleteListingError):
        back_up(site.storage)
    for wrong in ({"plan_id": "p"}, {"plan_digest": "d"}, {"plan_id": "p", "plan_digest": "d", "group_ids": ["a"]}):
        with pytest.raises(ConfigurationError, match="plan_"):
            BackupGroupOffsetsOperator(task_id="b", storage_path="/x", **wrong)


def test_a_group_of_which_nothing_can_be_restored_is_no_failure(site: Site) -> None:
    """One group behind its topic's retention failed the drill of each week; one offset less, and it passed."""
    site.admin.groups = {"behind": FakeGroup({OLD0: 5, OLD1: 5}), "fine": FakeGroup({NEW: 7})}
    site.admin.ends = {OLD0: (100, 200), OLD1: (100, 200)}
    backup = back_up(site.storage)
    found = rehearse(site.storage, backup["plan_id"])
    assert (found["restored"], found["partitions"], found["failed"]) == (1, 1, {})
    assert list(found["skipped"]) == ["behind: old[0]", "behind: old[1]"]
    assert len(site.admin.deleted) == 1, "its own scratch group"


def test_a_drill_that_restores_nothing_proves_nothing(site: Site) -> None:
    site.admin.groups = {"behind": FakeGroup({OLD0: 5})}
    site.admin.ends = {OLD0: (100, 200)}
    backup = back_up(site.storage)
    with pytest.raises(MaintenanceError, match="cannot be restored"):
        rehearse(site.storage, backup["plan_id"])


@pytest.fixture
def planned(site: Site) -> dict[str, Any]:
    return site.planned_once(["a", "b"])


def test_a_backup_of_a_plan_is_written_and_summed_up_in_plain_json(planned: dict[str, Any], tmp_path: Path) -> None:
    backup = scene.back_up(tmp_path, planned)
    assert (backup["groups"], backup["rows"], backup["not_backed_up"], backup["reasons"]) == (2, 2, 0, {})
    assert Path(backup["path"]).is_file()
    assert json.loads(json.dumps(backup)) == backup


@pytest.mark.parametrize("wrong", [{"digest": ""}, {"digest": "None"}, {"plan_id": ""}, {"plan_id": "../x"}])
def test_bad_input_is_a_clear_error(planned: dict[str, Any], tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="plan_"):
        scene.back_up(tmp_path, {**planned, **wrong})
