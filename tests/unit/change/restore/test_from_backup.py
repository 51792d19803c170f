"""Restores: whoever was used since is left alone, and no offset is set that would mean another record."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.file import BackedUpGroup
from airflow_kafka_groups.change.restore.current_logs import CurrentLogs
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest, propose_group
from airflow_kafka_groups.exceptions import BackupError, ConfigurationError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.ledger.proposed_changes import Change
from airflow_kafka_groups.observe.log_ends import Ends
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import timeout
from tests.unit.change.scene import backed_up, layout_in, restored

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SAVED = {T0: OffsetAndMetadata(5, "note", 3), T1: OffsetAndMetadata(6, "", 3)}
ENTRY = Target(group_id="a", group_type="classic", protocol_type="consumer", partitions=2, fingerprint="f")
GROUP = BackedUpGroup(entry=ENTRY, offsets=GroupOffsets.from_mapping("a", dict(SAVED)), bounds=([2, 0], [10, 6]))
ENDS: Ends = {T0: (2, 10), T1: (0, 6)}


def propose(
    before: dict[TopicPartition, int] | None = None,
    ends: Ends = ENDS,
    *,
    overwrite: bool = False,
    remade: dict[str, str] | None = None,
    group: BackedUpGroup = GROUP,
) -> Change:
    commits = {
        where: SAVED.get(where, OffsetAndMetadata(offset))._replace(offset=offset)
        for where, offset in (before or {}).items()
    }
    return propose_group(group, commits, CurrentLogs(ends, remade or {}), overwrite)


def test_a_group_that_has_nothing_gets_all_of_it_back_as_it_was() -> None:
    change = propose()
    assert (change.after, change.skipped, change.kept) == (SAVED, {}, None)


@pytest.mark.safety
def test_a_share_group_behind_the_logs_start_is_restored_where_it_would_have_read_on() -> None:
    share = replace(GROUP, entry=ENTRY._replace(group_type="share"))
    ends: Ends = {T0: (7, 10), T1: (0, 6)}
    change = propose(ends=ends, group=share)
    assert ({where: value.offset for where, value in change.after.items()}, change.skipped) == ({T0: 7, T1: 6}, {})
    assert list(propose(ends=ends).after) == [T1], "a consumer would be told of the records that it lost"
    assert propose(ends={T0: (1, 4), T1: (0, 6)}, group=share).after.keys() == {T1}, "another log"


@pytest.mark.parametrize("before", [{T0: 5}, {T0: 5, T1: 6}])
def test_half_a_restore_may_be_completed(before: dict[TopicPartition, int]) -> None:
    assert propose(before).after == SAVED


@pytest.mark.parametrize("commit", [OffsetAndMetadata(5, "newer", 3), OffsetAndMetadata(5, "note", 4)])
def test_the_same_offset_with_newer_metadata_or_epoch_was_committed_since(commit: OffsetAndMetadata) -> None:
    change = propose_group(GROUP, {T0: commit}, CurrentLogs(ENDS, {}), False)
    assert change.kept is not None
    assert "used since the backup" in change.kept
    assert propose_group(GROUP, {T0: commit}, CurrentLogs(ENDS, {}), True).after == SAVED


@pytest.mark.parametrize("epoch", [2, None])
def test_an_epoch_that_is_not_newer_does_not_count(epoch: int | None) -> None:
    assert propose_group(GROUP, {T0: OffsetAndMetadata(5, "note", epoch)}, CurrentLogs(ENDS, {}), False).after == SAVED


@pytest.mark.parametrize(
    ("before", "moved"), [({T0: 6}, (0, 1)), ({T0: 4}, (1, 0)), ({T0: 5, TopicPartition("u", 0): 1}, (0, 0))]
)
def test_a_group_that_was_used_since_is_kept_unless_it_may_be_overwritten(
    before: dict[TopicPartition, int], moved: tuple[int, int]
) -> None:
    """Where it may, the records that it would skip or read again are known before."""
    change = propose(before)
    assert change.kept is not None
    assert change.after == {}
    assert {where: value.offset for where, value in change.before.items()} == before
    change = propose(before, overwrite=True)
    assert (change.after, change.kept) == (SAVED, None)
    assert (change.skips, change.rereads) == moved


@pytest.mark.parametrize(
    ("end", "restored"),
    [
        ((2, 10), True),
        ((3, 11), True),  # time went on
        ((5, 10), True),  # the offset is the first of the log
        ((6, 10), False),  # its record is gone
        ((2, 9), False),  # shorter than it was: another topic of that name
        ((1, 10), False),  # begins earlier than it did: likewise
        ("unknown topic", False),
    ],
)
def test_an_offset_is_restored_where_it_means_the_same_record(end: tuple[int, int] | str, restored: bool) -> None:
    change = propose(ends={**ENDS, T0: end})
    assert (T0 in change.after) is restored
    assert (T0 in change.skipped) is not restored
    assert change.after[T1] == SAVED[T1]


def test_a_partition_at_the_end_of_its_log_is_restored_and_one_past_it_is_not() -> None:
    unknown = replace(GROUP, bounds=([-1, -1], [-1, -1]))
    assert T1 in propose(ends={**ENDS, T1: (0, 6)}, group=unknown).after
    assert T1 in propose(ends={**ENDS, T1: (0, 5)}, group=unknown).skipped
    assert T1 in propose(ends={T0: (2, 10)}, group=unknown).skipped, "nobody said anything about its log"


def test_a_topic_with_another_id_is_skipped_however_long_its_log_is() -> None:
    change = propose(remade={"t": "another id"})
    assert (change.after, change.skipped) == ({}, {T0: "another id", T1: "another id"})
    assert change.kept is not None


@pytest.mark.parametrize("end", [(0, 29), (1, 30), (0, 31)])
def test_each_topic_has_bounds_of_its_own(end: tuple[int, int]) -> None:
    """The first topic's logs were shorter than the second one's: by its bounds, nothing would have been recreated."""
    where = TopicPartition("u", 0)
    group = BackedUpGroup(
        entry=ENTRY,
        offsets=GroupOffsets.from_mapping("a", {**SAVED, where: OffsetAndMetadata(20)}),
        bounds=([0, 0, 0], [10, 6, 30]),
    )
    assert (where in propose(ends={**ENDS, where: end}, group=group).after) is (end[1] >= 30)


@pytest.fixture
async def restorable(tmp_path: Path) -> tuple[FakeAdmin, Layout, str]:
    admin = FakeAdmin(log=(0, 10))
    admin.ids = {"t": "id-1", "u": "id-2"}
    admin.add("a", ("t", 0, 5))
    admin.add("b", ("u", 0, 6))
    layout = layout_in(tmp_path)
    plan, _ = await backed_up(admin, layout)
    admin.groups.clear()
    return admin, layout, plan.plan_id


async def test_all_groups_of_a_backup_are_proposed_or_those_named(restorable: tuple[FakeAdmin, Layout, str]) -> None:
    admin, layout, plan_id = restorable
    assert [change.group_id for change in await RestoreRequest(plan_id=plan_id).propose(admin, layout)] == ["a", "b"]
    (change,) = await RestoreRequest(plan_id=plan_id, group_ids=["b", "b"]).propose(admin, layout)
    assert {where: value.offset for where, value in change.after.items()} == {TopicPartition("u", 0): 6}
    assert await RestoreRequest(plan_id=plan_id, group_ids=[]).propose(admin, layout) == []
    with pytest.raises(ConfigurationError, match="typo"):
        await RestoreRequest(plan_id=plan_id, group_ids=["a", "typo"]).propose(admin, layout)


async def test_only_the_topic_with_another_id_is_left_out(restorable: tuple[FakeAdmin, Layout, str]) -> None:
    admin, layout, plan_id = restorable
    admin.ids["t"] = "id-3"
    first, second = await RestoreRequest(plan_id=plan_id).propose(admin, layout)
    assert (dict(first.after), len(second.after)) == ({}, 1)
    assert "id-3" in first.skipped[T0]
    del admin.ids["t"]  # not told: the logs decide
    assert all(change.after for change in await RestoreRequest(plan_id=plan_id).propose(admin, layout))


async def test_a_group_that_cannot_be_read_is_kept(restorable: tuple[FakeAdmin, Layout, str]) -> None:
    admin, layout, plan_id = restorable
    admin.offset_errors["a"] = timeout()
    first, second = await RestoreRequest(plan_id=plan_id).propose(admin, layout)
    assert (first.kept is None, second.kept) == (False, None)


async def test_a_backup_of_another_cluster_is_refused(restorable: tuple[FakeAdmin, Layout, str]) -> None:
    admin, layout, plan_id = restorable
    for other in ("another", None):
        admin.cluster = other
        with pytest.raises(BackupError, match="Kafka cluster"):
            await RestoreRequest(plan_id=plan_id).propose(admin, layout)


@pytest.mark.safety
async def test_a_restore_that_stood_still_does_not_take_back_what_a_client_has_committed_meanwhile(
    restorable: tuple[FakeAdmin, Layout, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without membership: brokers would take the older commit, too."""
    admin, layout, plan_id = restorable
    now = [1_000.0]
    monkeypatch.setattr(clock, "_clock", lambda: now[0])

    def stand_still(call: str) -> None:
        if call == "alter":
            admin.add("a", ("t", 0, 9))

    def read(call: str) -> None:
        if call == "describe":
            now[0] += 3_600
            admin.before = stand_still

    admin.before = read
    done = await restored(admin, layout, plan_id, "a")
    assert admin.groups["a"].positions == {T0: 9}
    assert (done.counts["failed"], done.counts["changed"]) == (1, 0)
