"""A group that is too big for one batch loses its offsets first: if it stays then, that is said, and never "kept"."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    OutcomeUnknownError,
    PartitionsFailedError,
    PartlyDeletedError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.client.changes import delete_groups
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.outcomes import Outcome, of_deletion

WIDE = "w" * 200
PARTITIONS = [TopicPartition(WIDE, number) for number in range(3_000)]
OFFSETS = GroupOffsets.from_mapping("big", dict.fromkeys(PARTITIONS, OffsetAndMetadata(1)))


def broker(name: str, code: int) -> BrokerError:
    return BrokerError(code, name, "says the test", api="Test")


class ScriptedCalls(Calls):
    """Answer the slices, then the deletion, from a script."""

    def __init__(self, *errors: KafkaGroupsError | None) -> None:
        super().__init__(ClientConfig(bootstrap_servers=(("b", 9092),)))
        self.cluster.home.open()
        self.cluster.fresh_metadata = AsyncMock(return_value=ClusterMetadata())  # type: ignore[method-assign]
        self.cluster.refresh = AsyncMock(return_value=ClusterMetadata())  # type: ignore[method-assign]
        self.errors = list(errors)
        self.asked: list[str] = []

    async def ask_coordinators(self, group_ids: list[str], handler: object, **_: object) -> GroupResults[Any]:
        if not group_ids:
            return GroupResults(())
        self.asked.append("delete" if isinstance(handler, DeleteGroupsHandler) else "slice")
        return GroupResults([GroupResult("big", None, self.errors.pop(0))])


async def delete(*errors: KafkaGroupsError | None) -> tuple[KafkaGroupsError | None, list[str]]:
    calls = ScriptedCalls(*errors)
    results = await delete_groups(calls, ["big"], {"big": OFFSETS}, [GroupType.CLASSIC, GroupType.CONSUMER])
    return results["big"].error, calls.asked


LOST = OutcomeUnknownError("the answer was lost")
SOME = PartitionsFailedError("big", {PARTITIONS[0]: broker("UNKNOWN_TOPIC_OR_PARTITION", 3)})
CAME_BACK = broker("NON_EMPTY_GROUP", 68)


@pytest.mark.safety
@pytest.mark.parametrize(
    "errors", [(None, None, CAME_BACK), (None, None, LOST), (None, SOME), (None, CAME_BACK), (SOME,), (LOST,)]
)
async def test_a_group_that_stays_without_its_offsets_is_never_called_kept(
    errors: tuple[KafkaGroupsError | None, ...],
) -> None:
    error, asked = await delete(*errors)
    assert len(asked) == len(errors), "nothing after the first failure"
    assert isinstance(error, PartlyDeletedError)
    assert str(errors[-1]) in str(error)
    outcome = of_deletion("big", error)
    assert (outcome.outcome, outcome.code) == (Outcome.UNKNOWN, "partly_deleted")
    assert "backup" in outcome.reason


@pytest.mark.parametrize("error", [CAME_BACK, broker("GROUP_AUTHORIZATION_FAILED", 30), UnsupportedVersionError("old")])
async def test_what_is_refused_before_the_first_slice_has_lost_nothing(error: KafkaGroupsError) -> None:
    assert await delete(error) == (error, ["slice"])


async def test_an_emptied_group_that_is_gone_is_gone() -> None:
    gone = broker("GROUP_ID_NOT_FOUND", 69)
    assert await delete(None, None, gone) == (gone, ["slice", "slice", "delete"])
    assert (await delete(None, None, None))[0] is None
