"""The fence, as a table: which readings let a group go. Everything else keeps it."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.recheck import decide
from airflow_kafka_groups.exceptions import KafkaGroupsError, MissingAnswerError, PartitionOffsetsError
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import (
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    ShareGroupOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.ledger.outcomes import Outcome, Reason
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import fingerprint
from airflow_kafka_groups.observe.readings import GroupReading
from tests.fakes.groups import FakeGroup, broker_error, describe, offsets_of, timeout

OFFSETS = offsets_of("g", ("t", 0, 5), ("t", 1, 6))
PRINT = fingerprint(OFFSETS)
EXPECTED = Target(group_id="g", group_type="classic", protocol_type="consumer", fingerprint=PRINT)
BACKUP = Target(group_id="g", group_type="classic", protocol_type="consumer", partitions=2, fingerprint=PRINT)
LISTING = GroupListing(
    group_id="g", protocol_type="consumer", state=GroupState.EMPTY, type=GroupType.CLASSIC, coordinator=1
)
SAFE = GroupReading(
    listing=LISTING, description=GroupResult("g", describe("g", FakeGroup())), offsets=GroupResult("g", OFFSETS)
)

ALL_ERRORS: list[KafkaGroupsError] = [
    *(broker_error(code.name.upper()) for code in ErrorCode if code is not ErrorCode.none),
    timeout(),
    MissingAnswerError("left out"),
    PartitionOffsetsError("g", {TopicPartition("t", 1): broker_error("UNSTABLE_OFFSET_COMMIT")}, OFFSETS),
    KafkaGroupsError(""),
]


def error_name(problem: KafkaGroupsError) -> str:
    return getattr(problem, "name", type(problem).__name__)


def described(**facts: Any) -> GroupResult[Any]:
    return GroupResult("g", describe("g", FakeGroup(**facts)))


def test_a_group_that_is_what_it_was_may_go() -> None:
    assert decide(EXPECTED, SAFE, BACKUP).outcome is Outcome.WOULD_DELETE


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("kind", GroupType)
@pytest.mark.parametrize("protocol", ["consumer", "", "connect", "share", "streams", "sr"])
@pytest.mark.parametrize("members", [0, 1])
def test_only_an_empty_consumer_group_may_go(state: GroupState, kind: GroupType, protocol: str, members: int) -> None:
    expected = EXPECTED._replace(group_type=kind.value, protocol_type=protocol, group_epoch=1)
    listing = LISTING._replace(state=state, type=kind, protocol_type=protocol)
    found = described(state=state, type=kind, protocol_type=protocol, members=members)
    offsets = GroupResult("g", ShareGroupOffsets("g", OFFSETS.topics) if kind is GroupType.SHARE else OFFSETS)
    reading = replace(SAFE, listing=listing, description=found, offsets=offsets)
    decision = decide(expected, reading, BACKUP)
    of_consumers = kind in (GroupType.CLASSIC, GroupType.CONSUMER) and protocol in ("consumer", "")
    was_named = kind in (GroupType.SHARE, GroupType.STREAMS) and protocol == kind.value  # as is expected of it
    may_go = state is GroupState.EMPTY and (of_consumers or was_named) and members == 0
    assert (decision.outcome is Outcome.WOULD_DELETE) == may_go
    if was_named:
        for then in ("unknown", "consumer", "classic"):
            assert decide(expected._replace(group_type=then), reading, BACKUP).outcome is not Outcome.WOULD_DELETE
        for epoch in (None, 2):
            assert decide(expected._replace(group_epoch=epoch), reading, BACKUP).outcome is not Outcome.WOULD_DELETE
    if state is GroupState.DEAD and kind not in (GroupType.SHARE, GroupType.STREAMS):
        assert decision.outcome is Outcome.GONE


@pytest.mark.parametrize("problem", ALL_ERRORS, ids=error_name)
def test_no_error_of_the_description_lets_a_listed_group_go(problem: KafkaGroupsError) -> None:
    decision = decide(EXPECTED, replace(SAFE, description=GroupResult("g", error=problem)), BACKUP)
    assert (decision.outcome, decision.code) == (Outcome.KEPT, Reason.NOT_DESCRIBED)
    unlisted = replace(SAFE, listing=None, description=GroupResult("g", error=problem))
    gone = getattr(problem, "name", "") == "GROUP_ID_NOT_FOUND"
    assert decide(EXPECTED, unlisted, BACKUP).outcome is (Outcome.GONE if gone else Outcome.KEPT)


@pytest.mark.parametrize("problem", ALL_ERRORS, ids=error_name)
@pytest.mark.parametrize("backup", [BACKUP, None])
def test_no_error_of_the_offsets_reads_as_no_offsets(problem: KafkaGroupsError, backup: Target | None) -> None:
    nothing = EXPECTED._replace(fingerprint=fingerprint(GroupOffsets("g")))
    for expected, needs_backup in ((EXPECTED, True), (nothing, False)):
        reading = replace(SAFE, offsets=GroupResult("g", error=problem))
        decision = decide(expected, reading, backup, needs_backup=needs_backup)
        assert (decision.outcome, decision.code) == (Outcome.KEPT, Reason.UNREADABLE)


CHANGES: list[tuple[str, dict[str, Any], Target | None, Reason]] = [
    ("nobody lists it", {"listing": None}, BACKUP, Reason.NOT_LISTED),
    ("no description", {"description": None}, BACKUP, Reason.NOT_DESCRIBED),
    ("a description without a value", {"description": GroupResult("g")}, BACKUP, Reason.NOT_DESCRIBED),
    (
        "a description of another group",
        {"description": GroupResult("g", describe("h", FakeGroup()))},
        BACKUP,
        Reason.NOT_DESCRIBED,
    ),
    ("no offsets result", {"offsets": None}, BACKUP, Reason.UNREADABLE),
    ("offsets without a value", {"offsets": GroupResult("g")}, BACKUP, Reason.UNREADABLE),
    (
        "offsets of another group",
        {"offsets": GroupResult("g", offsets_of("h", ("t", 0, 5), ("t", 1, 6)))},
        BACKUP,
        Reason.UNREADABLE,
    ),
    ("an offset moved", {"offsets": GroupResult("g", offsets_of("g", ("t", 0, 5), ("t", 1, 7)))}, BACKUP, Reason.MOVED),
    (
        "an offset moved back",
        {"offsets": GroupResult("g", offsets_of("g", ("t", 0, 4), ("t", 1, 6)))},
        BACKUP,
        Reason.MOVED,
    ),
    (
        "a partition more",
        {"offsets": GroupResult("g", offsets_of("g", ("t", 0, 5), ("t", 1, 6), ("t", 2, 0)))},
        BACKUP,
        Reason.MOVED,
    ),
    ("a partition less", {"offsets": GroupResult("g", offsets_of("g", ("t", 0, 5)))}, BACKUP, Reason.MOVED),
    ("another topic", {"offsets": GroupResult("g", offsets_of("g", ("u", 0, 5), ("t", 1, 6)))}, BACKUP, Reason.MOVED),
    (
        "another note",
        {"offsets": GroupResult("g", offsets_of("g", ("t", 0, 5), ("t", 1, 6), metadata="x"))},
        BACKUP,
        Reason.MOVED,
    ),
    ("all offsets vanished", {"offsets": GroupResult("g", GroupOffsets("g"))}, BACKUP, Reason.MOVED),
    ("no backup", {}, None, Reason.NOT_IN_BACKUP),
    ("the backup of another group", {}, BACKUP._replace(group_id="h"), Reason.NOT_IN_BACKUP),
    ("a backup of other offsets", {}, BACKUP._replace(fingerprint="0" * 64), Reason.BACKUP_DIFFERS),
    ("it became a consumer group", {"description": described(type=GroupType.CONSUMER)}, BACKUP, Reason.CHANGED_KIND),
    ("listed as another type", {"listing": LISTING._replace(type=GroupType.CONSUMER)}, BACKUP, Reason.CHANGED_KIND),
    ("listed as a share group", {"listing": LISTING._replace(type=GroupType.SHARE)}, BACKUP, Reason.CHANGED_KIND),
    ("listed as a streams group", {"listing": LISTING._replace(type=GroupType.STREAMS)}, BACKUP, Reason.CHANGED_KIND),
    ("used by simple commits since", {"listing": LISTING._replace(protocol_type="")}, BACKUP, Reason.CHANGED_KIND),
    ("recreated since it was listed", {"description": described(protocol_type="")}, BACKUP, Reason.CHANGED_KIND),
    (
        "listed with another protocol",
        {"listing": LISTING._replace(protocol_type="connect")},
        BACKUP,
        Reason.WRONG_PROTOCOL,
    ),
]


@pytest.mark.parametrize(
    ("change", "backup", "code"), [item[1:] for item in CHANGES], ids=[item[0] for item in CHANGES]
)
@pytest.mark.promise(1)
def test_whatever_differs_keeps_the_group(change: dict[str, Any], backup: Target | None, code: Reason) -> None:
    decision = decide(EXPECTED, replace(SAFE, **change), backup)
    assert (decision.outcome, decision.code) == (Outcome.KEPT, code)
    assert decision.reason


def test_a_dead_share_group_is_kept_since_its_listing_says_what_it_is() -> None:
    listing = LISTING._replace(type=GroupType.SHARE, protocol_type="share")
    decision = decide(EXPECTED, replace(SAFE, listing=listing, description=described(state=GroupState.DEAD)), BACKUP)
    assert decision.code == Reason.NOT_DESCRIBED


@pytest.mark.parametrize(
    ("kind", "restorable", "offsets", "expected"),
    [
        ("share", True, ShareGroupOffsets("g", OFFSETS.topics), Reason.SAFE),
        ("share", False, ShareGroupOffsets("g", OFFSETS.topics), Reason.WRONG_TYPE),
        ("share", True, OFFSETS, Reason.UNREADABLE),
        ("streams", True, OFFSETS, Reason.SAFE),
        ("streams", False, OFFSETS, Reason.WRONG_TYPE),
        ("streams", True, ShareGroupOffsets("g", OFFSETS.topics), Reason.UNREADABLE),
    ],
)
def test_a_group_that_nobody_could_restore_is_kept(
    kind: str, restorable: bool, offsets: GroupOffsets, expected: Reason
) -> None:
    facts: dict[str, Any] = {"type": GroupType(kind), "protocol_type": kind}
    target = EXPECTED._replace(group_type=kind, protocol_type=kind, group_epoch=1)
    found = described(**facts, restorable=restorable)
    reading = GroupReading(listing=LISTING._replace(**facts), description=found, offsets=GroupResult("g", offsets))
    backup = BACKUP._replace(group_type=kind, protocol_type=kind)
    assert decide(target, reading, backup).code == expected


def test_a_broker_too_old_to_list_types_does_not_stop_it() -> None:
    listing = LISTING._replace(type=GroupType.UNKNOWN, state=GroupState.UNKNOWN)
    expected = EXPECTED._replace(group_type="unknown")
    assert decide(expected, replace(SAFE, listing=listing), BACKUP).outcome is Outcome.WOULD_DELETE


def test_a_group_without_offsets_is_kept() -> None:
    nothing = replace(SAFE, offsets=GroupResult("g", GroupOffsets("g")))
    expected = EXPECTED._replace(fingerprint=fingerprint(GroupOffsets("g")))
    assert decide(expected, nothing, None, needs_backup=False).code == Reason.NO_OFFSETS


def test_a_partition_without_a_commit_is_not_an_offset() -> None:
    value = GroupOffsets.from_mapping("g", {TopicPartition("t", 0): None})
    expected = EXPECTED._replace(fingerprint=fingerprint(value))
    assert decide(expected, replace(SAFE, offsets=GroupResult("g", value)), BACKUP).code == Reason.NO_OFFSETS


def test_a_backup_that_is_not_needed_still_has_to_fit() -> None:
    assert decide(EXPECTED, SAFE, None, needs_backup=False).outcome is Outcome.WOULD_DELETE
    other = BACKUP._replace(fingerprint="0" * 64)
    assert decide(EXPECTED, SAFE, other, needs_backup=False).outcome is Outcome.KEPT


def test_the_leader_epoch_counts() -> None:
    moved = {key: OffsetAndMetadata(value.offset, "", 4) for key, value in OFFSETS.items() if value is not None}
    reading = replace(SAFE, offsets=GroupResult("g", GroupOffsets.from_mapping("g", dict(moved))))
    assert decide(EXPECTED, reading, BACKUP).code == Reason.MOVED
