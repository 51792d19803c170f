"""Deleting offsets that are on record: in chunks, each read right before; what moved, or is still there, is said."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, change_offsets
from airflow_kafka_groups.change.restore.forget import DeleteOffsetsRequest
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupType, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits, commits_in
from airflow_kafka_groups.storage.layout import Layout, Progress, ignore_progress
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, timeout

pytestmark = pytest.mark.safety

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


async def recorded(admin: FakeAdmin) -> dict[str, Commits]:
    read = await admin.list_consumer_group_offsets(list(admin.groups))
    found = {id_: {w: v for w, v in commits_in(each.unwrap()).items() if w.topic == "t"} for id_, each in read.items()}
    admin.forget_calls()
    return dict(found)


async def forget(admin: FakeAdmin, known: dict[str, Commits], progress: Progress = ignore_progress) -> dict[str, str]:
    """Delete what is known, and return why that failed."""
    request = DeleteOffsetsRequest(group_ids=list(known), topics=["t"])
    changes = [Change(group_id=group_id, before=before) for group_id, before in known.items()]
    results = await request.apply(admin, changes, ChangeTerms(dry_run=False, progress=progress))
    return {result.group_id: result.reason for result in results if result.outcome != "changed"}


def cluster(count: int = 1) -> FakeAdmin:
    groups = {f"g{number:02}": FakeGroup({T0: 5, T1: 6, U0: 7}) for number in range(count)}
    return FakeAdmin(groups, log=(0, 100))


async def test_groups_are_read_right_before_their_offsets_are_deleted_some_at_once() -> None:
    admin, told = cluster(45), list[tuple[int, int]]()
    assert await forget(admin, await recorded(admin), lambda _, *done: told.append(done)) == {}
    assert all(group.positions == {U0: 7} for group in admin.groups.values())
    assert told == [(number, 45) for number in range(1, 46)]


async def test_what_is_gone_already_is_no_error_and_a_new_partition_is() -> None:
    admin = cluster(3)
    known = await recorded(admin)
    del admin.groups["g00"].offsets[T1]
    admin.groups["g01"].offsets = {}
    admin.commit("g02", "t", 9, 1)
    failed = await forget(admin, known)
    assert list(failed) == ["g02"]
    assert "moved" in failed["g02"]
    assert admin.asked("delete offsets") == ["g00"]


async def test_a_group_that_cannot_be_read_again_keeps_its_offsets() -> None:
    admin = cluster(2)
    known = await recorded(admin)
    admin.describe_errors["g00"] = timeout()
    admin.silent = {"g01"}
    failed = await forget(admin, known)
    assert failed == {"g00": str(admin.describe_errors["g00"]), "g01": "its coordinator returned no result"}
    assert admin.asked("delete offsets") == []


@pytest.mark.parametrize("dry_run", [True, False])
async def test_the_start_offsets_of_a_share_group_are_not_deleted_by_topic(tmp_path: Path, dry_run: bool) -> None:
    share = FakeGroup({T0: 5}, type=GroupType.SHARE, protocol_type="share")
    admin = FakeAdmin({"s": share}, log=(0, 100))
    request = DeleteOffsetsRequest(group_ids=["s"], topics=["t"])
    done = await change_offsets(admin, Layout(tmp_path, "c"), request, ChangeTerms(dry_run=dry_run))
    assert "it is a share group" in str(done.failures()["s"])
    assert (share.positions, admin.asked("delete offsets")) == ({T0: 5}, [])


async def test_what_cannot_be_read_back_is_said() -> None:
    admin = cluster()
    known = await recorded(admin)

    def fail(call: str) -> None:
        if call == "delete offsets":
            admin.offset_errors["g00"] = timeout()

    admin.before = fail
    assert "could not be read back" in (await forget(admin, known))["g00"]


async def test_what_was_assigned_to_a_member_stays_though_no_member_subscribes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an assignor of one's own may do it: brokers ask only about subscriptions."""
    admin = FakeAdmin({"a": FakeGroup({T0: 5, U0: 7}, members=1, subscribed=frozenset("u"))}, log=(0, 100))
    known, describe = await recorded(admin), admin.describe_consumer_groups

    async def with_assignment(group_ids: Any, **_: Any) -> Any:
        (found,) = (await describe(group_ids)).values()
        group = found.unwrap()
        members = tuple(replace(member, assignment=(T0,)) for member in group.members)
        return GroupResults([GroupResult("a", group._replace(members=members))])

    monkeypatch.setattr(admin, "describe_consumer_groups", with_assignment)
    failed = await forget(admin, known)
    assert "a member reads t" in failed["a"]
    assert admin.groups["a"].positions == {T0: 5, U0: 7}


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_dry_run_fails_for_what_a_member_reads_as_the_deletion_does(tmp_path: Path, dry_run: bool) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5}, members=1), "b": FakeGroup({T0: 5})}, log=(0, 100))
    request = DeleteOffsetsRequest(group_ids=["a", "b"], topics=["t"])
    done = await change_offsets(admin, Layout(tmp_path, "c"), request, ChangeTerms(dry_run=dry_run))
    assert list(done.failures()) == ["a"]
    assert "a member reads t" in str(done.failures()["a"])
    assert done.counts["would_change" if dry_run else "changed"] == 1
    assert admin.asked("delete offsets") == ([] if dry_run else ["b"])
