"""Resets, explicit offsets and copies: where each partition would go, clamped to its log, and who is left out."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, RecordedChanges, change_offsets
from airflow_kafka_groups.change.restore.reset import CopyRequest, ResetRequest, SetRequest
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import GroupOffsets, ListedOffset, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change
from airflow_kafka_groups.observe.log_ends import log_ends
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error, committed, timeout

LAYOUT = Layout(Path("/nothing-is-read"), "prod")
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def cluster(**groups: FakeGroup) -> FakeAdmin:
    return FakeAdmin(groups, log=(2, 10))


async def reset(admin: FakeAdmin, topics: list[str] | None = None, **target: Any) -> Change:
    (change,) = await ResetRequest(group_ids=["a"], topics=topics, **target).propose(admin, LAYOUT)
    assert "alter" not in admin.call_names, "a proposal writes nothing"
    return change


def positions(change: Change) -> dict[TopicPartition, int]:
    return {where: value.offset for where, value in change.after.items()}


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ({"to": "earliest"}, 2),
        ({"to": "latest"}, 10),
        ({"shift_by": 3}, 8),
        ({"shift_by": 0}, 5),
        ({"shift_by": -4}, 2),
        ({"shift_by": 6}, 10),
    ],
)
async def test_a_target_is_clamped_to_the_log(target: dict[str, Any], offset: int) -> None:
    admin = cluster(a=FakeGroup({T0: 5}))
    change = await reset(admin, **target)
    assert positions(change) == {T0: offset}
    assert change.before == admin.groups["a"].offsets


@pytest.mark.parametrize(
    ("answer", "offset"),
    [(ListedOffset(7), 7), (ListedOffset(0), 2), (ListedOffset(-1), 10), (ListedOffset(99), 10)],
    ids=["in the log", "before it", "no record so late", "after it"],
)
async def test_a_time_is_the_first_record_then_or_the_end(answer: ListedOffset, offset: int) -> None:
    admin = cluster(a=FakeGroup({T0: 5}))
    admin.by_time[T0] = answer
    assert positions(await reset(admin, timestamp_ms=1_000)) == {T0: offset}
    assert admin.times == [1_000]


async def test_a_partition_whose_offset_of_that_time_cannot_be_read_is_skipped() -> None:
    admin = cluster(a=FakeGroup({T0: 5, T1: 5}))
    admin.by_time = {T0: broker_error("NOT_LEADER_OR_FOLLOWER"), T1: ListedOffset(7)}
    change = await reset(admin, timestamp_ms=0)
    assert positions(change) == {T1: 7}
    assert "NOT_LEADER_OR_FOLLOWER" in change.skipped[T0]


async def test_no_time_is_asked_for_where_none_is_meant() -> None:
    admin = cluster(a=FakeGroup({T0: 5}))
    await reset(admin, to="earliest")
    await reset(admin, shift_by=1)
    assert admin.times == []


async def test_only_the_topics_named_are_moved_and_all_commits_are_on_record() -> None:
    admin = cluster(a=FakeGroup({T0: 5, U0: 6}))
    change = await reset(admin, topics=["u"], to="latest")
    assert positions(change) == {U0: 10}
    assert set(change.before) == {T0, U0}
    assert (await reset(admin, topics=["nothing"], to="latest")).kept is not None


async def test_a_log_that_cannot_be_read_is_skipped_and_a_group_without_any_other_kept() -> None:
    admin = cluster(a=FakeGroup({T0: 5, T1: 5}))
    admin.ends[T0] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    change = await reset(admin, to="latest")
    assert (positions(change), list(change.skipped), change.kept) == ({T1: 10}, [T0], None)
    admin.ends[T1] = broker_error("UNKNOWN_TOPIC_OR_PARTITION")
    change = await reset(admin, to="latest")
    assert (change.after, set(change.skipped)) == ({}, {T0, T1})
    assert change.kept is not None


async def test_a_group_without_commits_or_that_cannot_be_read_is_kept() -> None:
    admin = cluster(a=FakeGroup({}))
    assert "no committed offsets" in str((await reset(admin, to="latest")).kept)
    admin.offset_errors["a"] = timeout()
    assert "cannot be read" in str((await reset(admin, to="latest")).kept)


async def test_a_commit_that_stays_where_it_is_keeps_its_metadata() -> None:
    admin = cluster(a=FakeGroup({T0: OffsetAndMetadata(10, "note", 4), T1: OffsetAndMetadata(9, "note", 4)}))
    change = await reset(admin, to="latest")
    assert change.after == {T0: OffsetAndMetadata(10, "note", 4), T1: OffsetAndMetadata(10)}


async def test_given_offsets_are_clamped_too_and_need_no_commit_before() -> None:
    admin = cluster(a=FakeGroup({T0: 5}))
    first, second = await SetRequest(offsets={"a": {T0: 1, T1: 4}, "new": {U0: 99}}).propose(admin, LAYOUT)
    assert (first.group_id, positions(first)) == ("a", {T0: 2, T1: 4})
    assert (second.group_id, positions(second), dict(second.before)) == ("new", {U0: 10}, {})


async def test_a_partition_that_was_named_and_has_no_commit_counts_from_the_begin() -> None:
    assert GroupOffsets.from_mapping("a", {T0: None})[T0] is None
    (change,) = await SetRequest(offsets={"a": {T0: 3}}).propose(cluster(), LAYOUT)
    assert positions(change) == {T0: 3}


@pytest.mark.parametrize(
    "target",
    [{}, {"to": "latest", "shift_by": 1}, {"to": "earliest", "timestamp_ms": 0}, {"shift_by": 0, "timestamp_ms": 0}],
)
def test_exactly_one_target_is_given(target: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="exactly one"):
        ResetRequest(group_ids=["a"], **target)


def test_a_target_by_name_is_one_of_two() -> None:
    with pytest.raises(ConfigurationError, match="'middle'"):
        ResetRequest(group_ids=["a"], to="middle")


@pytest.mark.parametrize("timestamp_ms", [-1, -2, -3], ids=["the end", "the start", "the newest record"])
def test_a_time_before_1970_is_no_end_of_a_log(timestamp_ms: int) -> None:
    with pytest.raises(ConfigurationError, match=r"timestamp_ms.*since 1970"):
        ResetRequest(group_ids=["a"], timestamp_ms=timestamp_ms)


async def copy(tmp_path: Path, admin: FakeAdmin, *, dry_run: bool = False, **asked: Any) -> RecordedChanges:
    request = CopyRequest(**{"groups": {"a": "b"}, **asked})
    return await change_offsets(admin, Layout(tmp_path, "prod"), request, ChangeTerms(dry_run=dry_run))


def outcome(done: RecordedChanges) -> tuple[str, str]:
    (result,) = done.results
    return result.outcome.value, result.reason


async def test_a_new_group_gets_what_the_source_has_with_its_metadata(tmp_path: Path) -> None:
    exact = OffsetAndMetadata(5, leader_epoch=3, metadata="by hand")
    admin = FakeAdmin({"a": FakeGroup({T0: exact, U0: 7})}, log=(2, 10))
    done = await copy(tmp_path, admin)
    assert outcome(done)[0] == "changed"
    assert admin.groups["b"].offsets == {T0: exact, U0: committed(7)}
    assert admin.groups["a"].offsets[T0] == exact, "the source stays as it is"


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5})}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin, dry_run=True))[0] == "would_change"
    assert "b" not in admin.groups


async def test_only_the_topics_that_are_named_are_copied(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5, U0: 7})}, log=(2, 10))
    await copy(tmp_path, admin, topics=["u"])
    assert admin.groups["b"].offsets == {U0: committed(7)}


@pytest.mark.parametrize(("existing", "t0", "t1"), [("keep", 3, 9), ("replace", 5, 6), ("lower", 3, 6)])
async def test_a_target_with_commits_keeps_them_gets_others_or_the_lower_ones(
    tmp_path: Path, existing: str, t0: int, t1: int
) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5, T1: 6, U0: 7}), "b": FakeGroup({T0: 3, T1: 9})}, log=(2, 10))
    await copy(tmp_path, admin, existing=existing)
    assert {where: each.offset for where, each in admin.groups["b"].offsets.items()} == {T0: t0, T1: t1, U0: 7}


async def test_a_target_that_has_all_of_it_is_kept_with_the_reason(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 3})}, log=(2, 10))
    done = await copy(tmp_path, admin)
    assert outcome(done) == ("kept", "nothing is left to copy: the group has committed 3 there, and the source 5")


async def test_a_target_with_members_is_kept_and_a_source_with_members_is_copied(tmp_path: Path) -> None:
    live = FakeGroup({T0: 5}, members=1)
    admin = FakeAdmin({"a": live, "b": FakeGroup({T0: 3}, members=1)}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin, existing="replace"))[0] == "kept"
    admin = FakeAdmin({"a": live}, log=(2, 10))
    assert outcome(await copy(tmp_path, admin))[0] == "changed"


async def test_a_source_that_cannot_be_read_fails_and_one_without_offsets_is_named(tmp_path: Path) -> None:
    admin = FakeAdmin({"a": FakeGroup({T0: 5})}, log=(2, 10))
    admin.offset_errors["a"] = timeout()
    done = await copy(tmp_path, admin)
    assert "the offsets of the source cannot be read" in str(done.failures()["b"])
    done = await copy(tmp_path, FakeAdmin({"a": FakeGroup({})}, log=(2, 10)))
    assert outcome(done) == ("kept", "'a' has no committed offsets to copy")


@pytest.mark.parametrize("groups", [{"a": "a"}, {"a": "b", "b": "c"}, {"a": "c", "b": "c"}, {}])
def test_a_group_is_a_source_or_the_target_of_one(groups: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="group"):
        CopyRequest(groups=groups)


async def test_the_ends_of_a_log_are_two_numbers_or_a_reason() -> None:
    admin = FakeAdmin(log=(0, 10))
    gone, empty, strange = (TopicPartition("x", index) for index in range(3))
    admin.ends = {gone: broker_error("UNKNOWN_TOPIC_OR_PARTITION"), empty: (3, 3), strange: ListedOffset(-1)}
    found = await log_ends(admin, [T0, gone, empty, strange, T0])
    assert (found[T0], found[empty]) == ((0, 10), (3, 3))
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(found[gone])
    assert isinstance(found[strange], str)
    admin.calls.clear()
    assert await log_ends(admin, []) == {}
    assert admin.calls == []
