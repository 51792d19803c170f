"""A chunk: each group is decided by its own answers and by a clock from before the questions."""

import pytest

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader
from airflow_kafka_groups.change.deletion.delete_requests import delete_safe, outcome_of
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, NotSentError, OutcomeUnknownError
from airflow_kafka_groups.kafka.models import ShareGroupOffsets
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import fingerprint
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error, offsets_of, timeout
from tests.fakes.lease import at_once

PRINT = fingerprint(offsets_of("a", ("t", 0, 1)))
CHUNK = [
    Target(group_id=name, group_type="classic", protocol_type=FakeGroup().protocol_type, fingerprint=PRINT)
    for name in ("a", "b")
]
ENTRIES = {
    name: Target(group_id=name, group_type="classic", protocol_type="", partitions=1, fingerprint=PRINT)
    for name in ("a", "b")
}


async def reader(admin: FakeAdmin, excluded: dict[str, GroupOutcome] | None = None) -> ChunkReader:
    for name in ("a", "b"):
        admin.add(name, ("t", 0, 1))
    clock = [100.0]

    def later(call: str) -> None:
        clock[0] += 2.0

    listings = await admin.list_groups()
    admin.before = later
    return ChunkReader(admin, listings, ENTRIES, excluded or {}, 15.0, lambda: clock[0])


async def test_what_is_safe_is_told_from_what_is_held() -> None:
    admin = FakeAdmin()
    reading_of = await reader(admin)
    admin.groups["b"].members = 1
    reading = await reading_of.read(CHUNK)
    assert (list(reading.safe), [group.group_id for group in reading.expected]) == (["a"], ["a"])
    assert [(item.group_id, item.code) for item in reading.held] == [("b", "has_members")]
    assert fingerprint(reading.safe["a"]) == PRINT


async def test_offsets_are_read_after_the_description_whose_broker_will_be_asked_to_delete() -> None:
    """Read before it, they could be those of a coordinator that was replaced in between, without its knowledge."""
    admin = FakeAdmin()
    reading_of = await reader(admin)
    admin.groups["b"].coordinator = 2
    admin.forget_calls()
    reading = await reading_of.read(CHUNK)
    assert admin.call_names == ["describe", "stable offsets"]
    assert reading.coordinators == {"a": 1, "b": 2}


async def test_the_clock_runs_from_before_the_first_question() -> None:
    reading = await (await reader(FakeAdmin())).read(CHUNK)
    assert (reading.send_by, reading.read_at) == (115.0, 104.0)


async def test_a_group_that_is_excluded_is_held_and_its_life_is_the_better_reason() -> None:
    admin = FakeAdmin()
    before = {name: kept(name, Reason.DELETED_BEFORE, "deleted before") for name in ("a", "b")}
    reading_of = await reader(admin, before)
    admin.groups["b"].members = 1
    reading = await reading_of.read(CHUNK)
    assert [item.code for item in reading.held] == ["deleted_before", "has_members"]


async def test_a_reading_that_fails_is_an_error() -> None:
    admin = FakeAdmin()
    reading_of = await reader(admin)

    def fail(call: str) -> None:
        raise timeout()

    admin.before = fail
    with pytest.raises(KafkaGroupsError):
        await reading_of.read(CHUNK)


async def test_a_group_that_moves_to_another_broker_after_its_reading_is_not_deleted_there() -> None:
    """What was read may be what a broker knew that had been replaced: the new coordinator knows what happened since."""
    admin = FakeAdmin()
    reading = await (await reader(admin)).read(CHUNK)
    admin.groups["b"].coordinator = 2
    results = await delete_safe(admin, reading, 15.0, at_once)
    assert results["a"].ok
    error = results["b"].error
    assert isinstance(error, BrokerError)
    assert error.name == "NOT_COORDINATOR"
    assert set(admin.groups) == {"b"}
    # Kafka 4 answers so, too, when a coordinator is replaced that has just written: the verification decides.
    assert outcome_of("b", reading.safe["b"], error).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (broker_error("NON_EMPTY_GROUP"), Outcome.UNKNOWN),  # a member joined after its positions were deleted
        (broker_error("COORDINATOR_LOAD_IN_PROGRESS"), Outcome.UNKNOWN),
        (broker_error("INVALID_REQUEST"), Outcome.UNKNOWN),
        (NotSentError("DeleteGroups could not leave in time"), Outcome.UNKNOWN),  # a try before may have left
        (OutcomeUnknownError("the answer was lost"), Outcome.UNKNOWN),
        (broker_error("GROUP_ID_NOT_FOUND"), Outcome.GONE),
    ],
)
def test_a_share_group_may_have_lost_its_start_offsets_whatever_error_its_deletion_has(
    error: KafkaGroupsError, expected: Outcome
) -> None:
    starts = ShareGroupOffsets("s", offsets_of("s", ("t", 0, 5)).topics)
    found = outcome_of("s", starts, error)
    assert (found.outcome, "restore" in found.reason) == (expected, expected is Outcome.UNKNOWN)
