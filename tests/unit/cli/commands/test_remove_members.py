"""Removing members of a group: who is meant is on record before, and nobody is removed who joined since."""

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError, StorageError
from airflow_kafka_groups.kafka.models import GroupType, TopicPartition
from airflow_kafka_groups.operators.groups import RemoveMembersOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error, timeout
from tests.unit.cli.commands.conftest import Cli, connect
from tests.unit.operators import scene
from tests.unit.operators.scene import Site, changes, context

pytestmark = pytest.mark.safety


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({TopicPartition("t", 0): 5}, members={"m0": None, "m1": "pod-1", "m2": "pod-2"})}


def remove(storage: Path, run_id: str = "manual__1", **arguments: Any) -> dict[str, Any]:
    return scene.run(RemoveMembersOperator, storage, context(run_id), **{"group_id": "a", **arguments})


def test_a_dry_run_shows_the_members_and_removes_nobody(admin: FakeAdmin, stored: Cli) -> None:
    code, found, said = stored("remove-members", "a", "--all-members")
    assert (code, found["counts"]["would_change"], "remove" in admin.call_names) == (0, 3, False)
    assert [(row["member_id"], row["group_instance_id"]) for row in found["members"]] == list(
        admin.groups["a"].named.items()
    )
    assert "--yes" in said


@pytest.mark.parametrize(
    ("words", "arguments", "left"),
    [
        (("--instance-id", "pod-1"), {"instance_ids": ["pod-1"]}, ["m0", "m2"]),
        (("--member-id", "m0"), {"member_ids": ["m0"]}, ["m1", "m2"]),
        (("--member-id", "m0", "--instance-id", "pod-2"), {"member_ids": ["m0"], "instance_ids": ["pod-2"]}, ["m1"]),
        (("--all-members",), {"all_members": True}, []),
    ],
)
def test_named_members_are_removed_by_command_and_by_operator(
    site: Site, stored: Cli, words: tuple[str, ...], arguments: Any, left: list[str]
) -> None:
    members = dict(site.admin.groups["a"].named)
    code, found, _ = stored("remove-members", "a", *words, "--reason", "pod is gone", "--yes")
    assert (code, found["counts"]["changed"], list(site.admin.groups["a"].named)) == (0, 3 - len(left), left)
    before, result = changes(site.storage)
    assert (before["what"], before["reason"]) == ("remove members", "pod is gone")
    assert {row["member_id"] for row in before["groups"]} == members.keys() - set(left)
    assert {row["outcome"] for row in result["groups"]} == {"changed"}
    site.admin.groups["a"].named = members
    removed = remove(site.storage, **arguments)
    assert (removed["counts"]["changed"], list(site.admin.groups["a"].named)) == (3 - len(left), left)
    assert Path(removed["result_path"]).exists()


def test_a_static_member_that_joins_again_in_between_stays(site: Site) -> None:
    def rejoin(call: str) -> None:
        if call == "remove":
            del site.admin.groups["a"].named["m1"]
            site.admin.groups["a"].named["m3"] = "pod-1"

    site.admin.before = rejoin
    found = remove(site.storage, instance_ids=["pod-1"])
    assert (found["counts"]["unchanged"], list(site.admin.groups["a"].named)) == (1, ["m0", "m2", "m3"])


def test_members_are_removed_soon_by_the_broker_that_described_them_and_on_a_durable_record(site: Site) -> None:
    """Another broker may not know yet who has joined; and the record is all that a later try has."""
    synced: list[str] = []
    fsync = os.fsync

    def sync(number: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    def move(call: str) -> None:
        if call == "remove":
            site.admin.groups["a"].coordinator = 2
            site.admin.calls.append(("synced", [name for name in synced if name.endswith("-before.json")]))

    site.patch.setattr(os, "fsync", sync)
    site.admin.before = move
    with pytest.raises(GroupsFailedError, match=r"'pod-1': it is a member still: .*NOT_COORDINATOR"):
        remove(site.storage, instance_ids=["pod-1"])
    assert len(site.admin.asked("synced")) == 1
    assert all(within is not None and 0 < within <= 15 for within in site.admin.send_within)


def test_a_task_that_was_killed_removes_nobody_who_joined_since(site: Site) -> None:
    """Its first try may have removed them, or not: the processes of some are back, and are no zombies."""
    site.patch.setattr(site.admin, "remove_members_from_consumer_group", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(site.storage, instance_ids=["pod-1", "pod-2"])
    site.patch.undo()
    site.patch.setattr(
        "airflow_kafka_groups.kafka.maintenance_client.MaintenanceClient", lambda config, settings: site.admin
    )
    connect(site.patch)
    del site.admin.groups["a"].named["m1"]
    site.admin.groups["a"].named["m3"] = "pod-1"
    found = remove(site.storage, instance_ids=["pod-1", "pod-2"])
    assert list(site.admin.groups["a"].named) == ["m0", "m3"]
    assert "has joined since an earlier try" in found["kept"]["pod-1"]
    assert remove(site.storage, "manual__2", instance_ids=["pod-1"])["counts"]["changed"] == 1


async def killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_command_that_was_killed_is_continued_and_one_that_ended_is_not(site: Site, stored: Cli) -> None:
    words = ("remove-members", "a", "--instance-id", "pod-1", "--yes")
    with site.patch.context() as broken:
        broken.setattr(site.admin, "remove_members_from_consumer_group", killed)
        assert stored(*words)[0] == 130
    site.admin.groups["a"].named = {"m3": "pod-1"}
    code, found, _ = stored(*words)
    assert (code, found["counts"]["kept"]) == (3, 1), "nobody was removed, so this one recorded no end"
    assert stored("remove-members", "a", "--member-id", "m3", "--yes")[0] == 0


def test_members_of_the_new_protocol_are_kept_with_the_reason(site: Site) -> None:
    site.admin.groups["a"] = FakeGroup({}, type=GroupType.CONSUMER, members={"m0": None})
    found = remove(site.storage, all_members=True)
    assert "KIP-848" in found["kept"]["m0"]
    assert "remove" not in site.admin.call_names
    site.admin.groups["a"].classic_members = True  # in the middle of its move
    assert remove(site.storage, all_members=True)["counts"]["changed"] == 1


def test_who_is_no_member_is_no_failure(site: Site, stored: Cli) -> None:
    assert remove(site.storage, member_ids=["gone"], instance_ids=["pod-9"])["counts"]["unchanged"] == 2
    assert stored("remove-members", "nothing", "--all-members", "--yes")[0] == 0
    assert changes(site.storage) == []


@pytest.mark.parametrize(("outcome", "why"), [("failed", "GROUP_AUTHORIZATION_FAILED"), ("unknown", "")])
def test_a_member_that_stays_fails_and_one_of_a_group_that_cannot_be_read_back_is_not_known(
    admin: FakeAdmin, stored: Cli, outcome: str, why: str
) -> None:
    async def refuse(group_id: str, members: Any, **_: Any) -> Any:
        return dict.fromkeys(members, broker_error("GROUP_AUTHORIZATION_FAILED"))

    if outcome == "failed":
        admin.remove_members_from_consumer_group = refuse  # type: ignore[method-assign]
    else:
        admin.before = lambda call: admin.describe_errors.update(a=timeout()) if call == "remove" else None
    code, found, _ = stored("remove-members", "a", "--member-id", "m0", "--yes")
    assert (code, found["counts"][outcome], why in found["members"][0]["reason"]) == (1, 1, True)


def test_nobody_is_removed_who_is_not_on_record(site: Site) -> None:
    def full(*_: Any) -> None:
        raise StorageError("No space left on device")

    site.patch.setattr("airflow_kafka_groups.change.restore.change_offsets.write_listing", full)
    with pytest.raises(StorageError):
        remove(site.storage, all_members=True)
    assert site.admin.groups["a"].members == 3


@pytest.mark.parametrize("group", [FakeGroup({}, members=1, protocol_type="connect"), FakeGroup(type=GroupType.SHARE)])
def test_what_is_no_consumer_group_is_refused(site: Site, group: FakeGroup) -> None:
    site.admin.groups["a"] = group
    with pytest.raises(ConfigurationError, match="not of consumers"):
        remove(site.storage, all_members=True)
    assert "remove" not in site.admin.call_names


def test_a_protected_group_and_a_read_only_connection(site: Site, stored: Cli) -> None:
    for extra, why in (({"protected_groups": ["a"]}, "protected"), ({"read_only": True}, "read-only")):
        site.connect(**extra)
        with pytest.raises(ConfigurationError, match=why):
            remove(site.storage, all_members=True)
        assert stored("remove-members", "a", "--all-members", "--yes")[0] == 2
    assert site.admin.groups["a"].members == 3


def test_members_have_to_be_named_or_all_of_them_asked_for(stored: Cli, tmp_path: Path) -> None:
    assert stored("remove-members", "a", "--yes")[0] == 2
    assert stored("remove-members", "a", "--all-members", "--member-id", "m0")[0] == 2
    with pytest.raises(ConfigurationError, match="name members"):
        remove(tmp_path)
