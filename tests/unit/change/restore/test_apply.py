"""Changes of committed offsets: who is left alone, what is read back, what the record says; many groups in chunks."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from airflow_kafka_groups.change.restore import commit_changes
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.exceptions import (
    KafkaGroupsError,
    MaintenanceError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupState, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, commits_in, counts_of
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import DOUBTS, EPOCH, FakeGroup, broker_error, timeout

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BEFORE = {T0: OffsetAndMetadata(5, "", EPOCH)}
AFTER = {T0: OffsetAndMetadata(7)}


def cluster(**groups: FakeGroup) -> FakeAdmin:
    return FakeAdmin(groups, log=(0, 10))


def many(names: Iterable[str]) -> FakeAdmin:
    return cluster(**{name: FakeGroup({T0: 5}) for name in names})


def changes_of(names: Iterable[str]) -> list[Change]:
    return [Change(group_id=name, before=BEFORE, after=AFTER) for name in names]


CHANGE = Change(group_id="a", before=BEFORE, after=AFTER)


async def outcome(admin: FakeAdmin, change: Change = CHANGE, **how: Any) -> ChangeOutcome:
    (result,) = await apply_changes(admin, [change], **{"dry_run": False, **how})
    assert result.group_id == change.group_id
    return result.outcome


async def test_a_group_that_is_as_it_was_is_changed_and_read_back() -> None:
    admin = many("a")
    assert await outcome(admin) is ChangeOutcome.CHANGED
    assert admin.groups["a"].offsets == AFTER
    assert admin.call_names == ["describe", "stable offsets", "alter", "stable offsets"]


async def test_a_dry_run_looks_at_everything_and_writes_nothing() -> None:
    admin = many("a")
    assert await outcome(admin, dry_run=True) is ChangeOutcome.WOULD_CHANGE
    assert admin.call_names == ["describe", "stable offsets"]


async def test_what_is_there_already_is_not_written_again() -> None:
    admin = many("a")
    assert await outcome(admin, Change(group_id="a", before=BEFORE, after=BEFORE)) is ChangeOutcome.UNCHANGED
    assert "alter" not in admin.call_names


async def test_a_rewrite_commits_what_is_there_already() -> None:
    admin = many("a")
    change = Change(group_id="a", before=BEFORE, after=BEFORE)
    assert await outcome(admin, change, rewrite=True) is ChangeOutcome.CHANGED
    assert (admin.asked("alter"), admin.groups["a"].offsets) == (["a"], BEFORE)


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("offset", [None, 9])
async def test_a_group_that_moves_meanwhile_is_not_written(rewrite: bool, offset: int | None) -> None:
    """The broker that was read may have been replaced without its knowledge, and the group used since."""
    admin = many("a")
    before = dict(admin.groups["a"].offsets)

    def move(call: str) -> None:
        if call == "alter":
            admin.groups["a"].coordinator += 1
            if offset is not None:
                admin.groups["a"].offsets = {T0: OffsetAndMetadata(offset)}

    admin.before = move
    change = Change(group_id="a", before=BEFORE, after=BEFORE if rewrite else AFTER)
    assert await outcome(admin, change, rewrite=rewrite) is ChangeOutcome.FAILED
    assert admin.groups["a"].offsets == (before if offset is None else {T0: OffsetAndMetadata(offset)})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (broker_error("UNKNOWN_TOPIC_OR_PARTITION"), ChangeOutcome.FAILED),
        (OutcomeUnknownError("the answer was lost"), ChangeOutcome.UNKNOWN),
    ],
)
async def test_a_rewrite_that_no_broker_confirms_is_not_taken_for_one(
    error: KafkaGroupsError, expected: ChangeOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = many("a")  # what is read back is equal all the same

    async def refuse(offsets: Mapping[str, Any], **_: Any) -> GroupResults[None]:
        return GroupResults([GroupResult(group_id, error=error) for group_id in offsets])

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", refuse)
    change = Change(group_id="a", before=BEFORE, after=BEFORE)
    (result,) = await apply_changes(admin, [change], dry_run=False, rewrite=True)
    assert (result.outcome, result.partitions) == (expected, 0), "keep-alive counts what was committed again"


@pytest.mark.parametrize(
    "group",
    [
        FakeGroup({T0: 5}, members=1),
        FakeGroup({T0: 5}, members=1, state=GroupState.EMPTY),
        *(FakeGroup({T0: 5}, state=state) for state in GroupState if state not in (GroupState.EMPTY, GroupState.DEAD)),
        FakeGroup({T0: 5}, type=GroupType.SHARE),
        FakeGroup({T0: 5}, type=GroupType.STREAMS),
        FakeGroup({T0: 5}, protocol_type="connect"),
        FakeGroup({T0: 6}),
        FakeGroup({T0: 5, T1: 0}),
        FakeGroup({}),
    ],
    ids=lambda group: f"{group.type} {group.state} {group.protocol_type} {group.members} {sorted(group.positions)}",
)
async def test_a_group_in_use_of_another_kind_or_that_moved_is_kept(group: FakeGroup) -> None:
    admin = cluster(a=group)
    assert await outcome(admin) is ChangeOutcome.KEPT
    assert "alter" not in admin.call_names


STARTS = {T0: OffsetAndMetadata(5)}


@pytest.mark.safety
@pytest.mark.parametrize(
    ("group", "offsets_of", "restorable", "expected"),
    [
        (FakeGroup({T0: 5}, type=GroupType.SHARE, protocol_type="share"), "share", True, ChangeOutcome.CHANGED),
        (FakeGroup({T0: 5}, type=GroupType.SHARE, protocol_type="share"), "share", False, ChangeOutcome.KEPT),
        (FakeGroup({T0: 5}, type=GroupType.SHARE, protocol_type="share"), "classic", True, ChangeOutcome.KEPT),
        (FakeGroup({T0: 5}, type=GroupType.SHARE, protocol_type="share"), "streams", True, ChangeOutcome.KEPT),
        (FakeGroup({T0: 5}), "share", True, ChangeOutcome.KEPT),
        (FakeGroup({T0: 5}), "streams", True, ChangeOutcome.CHANGED),  # brought back already, and not used since
        (FakeGroup({T0: 5}, type=GroupType.STREAMS, protocol_type="streams"), "streams", False, ChangeOutcome.CHANGED),
        (FakeGroup({T0: 5}, type=GroupType.STREAMS, protocol_type="streams"), "classic", True, ChangeOutcome.KEPT),
    ],
)
async def test_offsets_go_to_groups_of_their_type(
    group: FakeGroup, offsets_of: str, restorable: bool, expected: ChangeOutcome
) -> None:
    admin, group.restorable = cluster(a=group), restorable
    before = STARTS if group.type is GroupType.SHARE else BEFORE
    change = Change(group_id="a", before=before, after={T0: OffsetAndMetadata(2)}, group_type=offsets_of)
    assert await outcome(admin, change) is expected
    if expected is ChangeOutcome.KEPT:
        assert "alter" not in admin.call_names


@pytest.mark.parametrize("kind", [GroupType.CLASSIC, GroupType.CONSUMER])
@pytest.mark.parametrize("protocol_type", ["", "consumer"])
async def test_groups_of_consumers_are_changed_whatever_their_protocol(kind: GroupType, protocol_type: str) -> None:
    admin = cluster(a=FakeGroup({T0: 5}, type=kind, protocol_type=protocol_type))
    assert await outcome(admin) is ChangeOutcome.CHANGED


@pytest.mark.parametrize(
    ("gone", "known_by"),
    [({}, "its state"), ({"describe_errors": {"a": broker_error("GROUP_ID_NOT_FOUND")}}, "the error")],
    ids=["state", "error"],
)
async def test_a_group_that_does_not_exist_is_created_only_where_that_is_meant(
    gone: Mapping[str, Any], known_by: str
) -> None:
    admin = cluster()
    for name, value in gone.items():
        setattr(admin, name, value)
    change = Change(group_id="a", after=AFTER)
    assert await outcome(admin, change) is ChangeOutcome.KEPT, known_by
    assert admin.groups == {}
    assert await outcome(admin, change, may_be_absent=True) is ChangeOutcome.CHANGED
    assert admin.groups["a"].offsets == AFTER


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS)
async def test_doubt_keeps_a_group_also_where_it_may_be_absent(doubt: Mapping[str, Any]) -> None:
    admin = many("a")
    for name, value in doubt.items():
        setattr(admin, name, value)
    for may_be_absent in (False, True):
        assert await outcome(admin, may_be_absent=may_be_absent) is ChangeOutcome.KEPT
    assert "alter" not in admin.call_names


async def test_a_refused_commit_has_failed_and_one_that_cannot_be_read_back_is_unknown() -> None:
    admin = many("a")

    def a_consumer_starts(call: str) -> None:
        if call == "alter":
            admin.groups["a"].members = 1

    admin.before = a_consumer_starts
    (result,) = await apply_changes(admin, [CHANGE], dry_run=False)
    assert result.outcome is ChangeOutcome.FAILED
    assert "UNKNOWN_MEMBER_ID" in result.reason
    assert result.partitions == 0, "the number of offsets that were committed"
    assert admin.groups["a"].positions == {T0: 5}

    admin.groups["a"].members = 0

    def the_coordinator_goes(call: str) -> None:
        if call == "alter":
            admin.offset_errors["a"] = timeout()

    admin.before = the_coordinator_goes
    (result,) = await apply_changes(admin, [CHANGE], dry_run=False)
    assert (result.outcome, result.partitions) == (ChangeOutcome.UNKNOWN, 0)


async def test_what_was_there_before_a_refused_commit_is_not_counted_as_committed() -> None:
    """As where a restore sets one of many partitions back: the others are what they have to be anyhow."""
    admin = cluster(a=FakeGroup({T0: 5, T1: 8}))
    before = dict(admin.groups["a"].offsets)
    admin.before = lambda call: setattr(admin.groups["a"], "members", int(call == "alter"))
    change = Change(group_id="a", before=before, after={**AFTER, T1: before[T1]})
    (result,) = await apply_changes(admin, [change], dry_run=False)
    assert (result.outcome, result.partitions) == (ChangeOutcome.FAILED, 0)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("written", "meddled"),
    [
        (OffsetAndMetadata(7), OffsetAndMetadata(6)),
        (OffsetAndMetadata(7), OffsetAndMetadata(7, "note")),
        (OffsetAndMetadata(7, "note"), OffsetAndMetadata(7)),
        (OffsetAndMetadata(7, "note"), OffsetAndMetadata(7, "other")),
        (OffsetAndMetadata(7), None),
    ],
)
async def test_what_does_not_read_back_as_it_was_written_has_failed(
    written: OffsetAndMetadata, meddled: OffsetAndMetadata | None, columns: bool
) -> None:
    """A restore commits a backup's columns, and compares them as such."""
    admin = many("a")
    after: Any = {T0: written, T1: OffsetAndMetadata(3)}
    after = GroupOffsets.from_mapping("a", after) if columns else after
    change = Change(group_id="a", before=BEFORE, after=after)
    assert await outcome(admin, change) is ChangeOutcome.CHANGED
    assert admin.groups["a"].offsets == dict(after)

    def somebody_commits_meanwhile(call: str) -> None:
        if admin.call_names[-1:] == ["alter"]:
            offsets = admin.groups["a"].offsets
            del offsets[T0]
            offsets.update({} if meddled is None else {T0: meddled})

    admin.groups["a"] = FakeGroup({T0: 5})
    admin.before = somebody_commits_meanwhile
    (result,) = await apply_changes(admin, [change], dry_run=False)
    assert (result.outcome, result.partitions) == (ChangeOutcome.FAILED, 1), "one of the two is as it was written"


def test_the_record_of_a_change_is_enough_to_take_it_back() -> None:
    change = Change(group_id="a", before=BEFORE, after=AFTER, skipped={T1: "no log"})
    assert change.to_json() == {
        "group_id": "a",
        "before": [{"topic": "t", "partitions": [0], "offsets": [5], "leader_epochs": [EPOCH], "metadata": None}],
        "after": [{"topic": "t", "partitions": [0], "offsets": [7], "leader_epochs": [-1], "metadata": None}],
        "skipped": {"t[1]": "no log"},
        "kept": None,
    }
    assert commits_in(GroupOffsets.from_mapping("a", {T0: OffsetAndMetadata(1), T1: None})) == {
        T0: OffsetAndMetadata(1)
    }


async def test_each_change_has_one_result_in_order_and_progress_is_told() -> None:
    names = [f"g{number}" for number in range(401)]
    admin = many(names)
    changes = changes_of(names)
    changes[1] = Change(group_id="g1", kept="the proposal says so")
    told: list[tuple[str, int, int]] = []
    results = await apply_changes(
        admin, changes, dry_run=False, chunk_groups=200, progress=lambda *args: told.append(args)
    )
    assert [result.group_id for result in results] == names
    assert counts_of(results) == dict.fromkeys(ChangeOutcome, 0) | {"changed": 400, "kept": 1}
    assert results[1].reason == "the proposal says so"
    assert told == [("commit", 200, 401), ("commit", 400, 401), ("commit", 401, 401)]
    assert "g1" not in admin.asked("describe"), "what is kept anyway is not asked about"
    assert admin.groups["g1"].positions == {T0: 5}


async def test_a_chunk_has_many_groups_of_few_partitions_of_the_offsets_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers write and replicate commits of one partition together; neighbours have different leaders."""
    names = [f"group-{number:04d}" for number in range(2_000)]
    admin = many(names)
    admin.hosts = {1: "b1", 2: "b2"}
    chunks: list[set[int]] = []
    write = admin.alter_consumer_group_offsets

    async def note(offsets: Any, **how: Any) -> Any:
        chunks.append(set(offsets_partitions(list(offsets), 50)))
        return await write(offsets, **how)

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", note)
    changes = changes_of(names)
    results = await apply_changes(admin, changes, dry_run=False, chunk_groups=100)
    assert [result.group_id for result in results] == names
    assert {result.outcome for result in results} == {ChangeOutcome.CHANGED}
    assert sorted(admin.asked("alter")) == names
    assert len(chunks) == 20
    assert all(len(chunk) <= 3 * 6 for chunk in chunks), "as given, each would have groups of nearly all partitions"
    assert all({of % 2 for of in chunk} == {0, 1} for chunk in chunks)


async def test_the_next_chunk_is_judged_while_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_changes, "_CHUNKS_AT_ONCE", 2)
    names = ["a", "b", "c"]
    admin = many(names)
    write, waiting = admin.alter_consumer_group_offsets, asyncio.Event()

    async def slow(offsets: Any, **_: Any) -> Any:
        if "a" in offsets:
            await waiting.wait()
        return await write(offsets)

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", slow)
    changes = changes_of(names)
    applying = asyncio.create_task(apply_changes(admin, changes, dry_run=False, chunk_groups=1))
    for _ in range(100):
        await asyncio.sleep(0)
    assert [admin.groups[name].positions[T0] for name in names] == [5, 7, 7]
    waiting.set()
    assert [result.group_id for result in await applying] == names
    assert all(group.offsets == AFTER for group in admin.groups.values())


async def test_a_group_that_is_absent_is_no_reason_to_ask_any_broker_about_the_others() -> None:
    """As brokers of Kafka 4 say it: by an error, which names no coordinator."""
    admin = cluster(a=FakeGroup({T0: 5}))
    admin.describe_errors = {"gone": broker_error("GROUP_ID_NOT_FOUND")}
    used = {T0: OffsetAndMetadata(9)}

    def another_broker_takes_over(call: str) -> None:
        if call == "alter" and admin.groups["a"].coordinator == 1:
            admin.groups["a"].coordinator, admin.groups["a"].offsets = 2, dict(used)

    admin.before = another_broker_takes_over
    changes = [Change(group_id="a", before=BEFORE, after=AFTER), Change(group_id="gone", after=AFTER)]
    results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    assert [result.outcome for result in results] == [ChangeOutcome.FAILED, ChangeOutcome.CHANGED]
    assert (admin.groups["a"].offsets, admin.groups["gone"].offsets) == (used, AFTER)


async def test_nothing_is_begun_after_a_chunk_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_changes, "_CHUNKS_AT_ONCE", 2)
    names = ["a", "b", "c", "d"]
    admin = many(names)

    async def broken(offsets: Any, **_: Any) -> Any:
        raise MaintenanceError("no")

    monkeypatch.setattr(admin, "alter_consumer_group_offsets", broken)
    with pytest.raises(MaintenanceError, match="no"):
        await apply_changes(admin, changes_of(names), dry_run=False, chunk_groups=1)
    assert len(admin.asked("describe")) == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}
