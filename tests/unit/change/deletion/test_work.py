"""What is done with the groups of a chunk: only who described a group is asked to delete it."""

from __future__ import annotations

from airflow_kafka_groups.change.deletion.chunk_loop import ChunkWork
from airflow_kafka_groups.exceptions import BrokerError
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.plan_rows import CommittedGroup
from airflow_kafka_groups.observe.fingerprint import fingerprint
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, offsets_of
from tests.fakes.lease import at_once

PRINT = fingerprint(offsets_of("a", ("t", 0, 1)))


async def test_a_group_that_moves_to_another_broker_after_its_reading_is_not_deleted_there() -> None:
    """What was read may be what a broker knew that had been replaced: the new coordinator knows what happened since."""
    admin = FakeAdmin()
    for name in ("a", "b"):
        admin.add(name, ("t", 0, 1))
    kind = FakeGroup().protocol_type
    expected = [CommittedGroup(name, "classic", kind, PRINT) for name in admin.groups]
    entries = {
        name: CommittedGroup(group_id=name, group_type="classic", protocol_type="", partitions=1, fingerprint=PRINT)
        for name in admin.groups
    }
    work = ChunkWork(admin, await admin.list_groups(), entries, {}, 15.0, lambda: 0.0)
    reading = await work.read(expected)
    admin.groups["b"].coordinator = 2
    results = await work.delete(reading, 15.0, at_once)
    assert results["a"].ok
    error = results["b"].error
    assert isinstance(error, BrokerError)
    assert error.name == "NOT_COORDINATOR"
    assert set(admin.groups) == {"b"}
    # Kafka 4 answers so, too, when a coordinator is replaced that has just written: the verification decides.
    assert work.outcome("b", error).outcome is Outcome.UNKNOWN
