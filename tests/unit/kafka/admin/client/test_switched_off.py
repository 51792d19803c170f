"""A protocol that was switched off: its groups are there still, and no API describes them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import Control, FakeCluster
from tests.unit.kafka.admin.client.faults import client

NOT_FOUND, OFF = ErrorCode.group_id_not_found, ErrorCode.unsupported_version


def _refusing(api: Api, code: ErrorCode) -> Control:
    def answer(broker_id: int, version: int, request: Any) -> Any:
        return answers.modern_group_describe(api, version, dict.fromkeys(request.group_ids, code))

    return answer


def switch_off(fake: FakeCluster, listed: tuple[str, ...]) -> None:
    """Let brokers answer as Kafka 4.1 does with ``group.coordinator.rebalance.protocols=classic``."""
    fake.control(
        DESCRIBE_GROUPS,
        lambda _, version, request: answers.describe_groups(version, dict.fromkeys(request.groups, NOT_FOUND), "Dead"),
    )
    for api in (CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE):
        fake.control(api, _refusing(api, OFF if api is CONSUMER_GROUP_DESCRIBE else NOT_FOUND))
    fake.control(
        LIST_GROUPS, lambda _, version, request: answers.list_groups(version, ErrorCode.none, listed, kind="consumer")
    )


@pytest.mark.safety
async def test_a_group_of_a_protocol_that_was_switched_off_is_not_called_dead() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        switch_off(fake, ("there",))
        found = await admin.describe_consumer_groups(["there", "gone"])
        assert isinstance(found["there"].error, UnsupportedVersionError)
        assert "ConsumerGroupDescribe switched off" in str(found["there"].error)
        assert found["gone"].unwrap().state is GroupState.DEAD


async def test_where_every_group_is_described_nothing_is_listed() -> None:
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        assert (await admin.describe_consumer_groups(["g"]))["g"].unwrap().state is GroupState.EMPTY
        assert fake.requests(LIST_GROUPS) == []


@pytest.mark.safety
async def test_where_a_broker_does_not_list_its_groups_none_of_them_is_called_dead() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        switch_off(fake, ())
        fake.control(LIST_GROUPS, lambda _, version, __: answers.list_groups(version, ErrorCode.unknown_server_error))
        (found,) = (await admin.describe_consumer_groups(["there"])).values()
        assert "UNKNOWN_SERVER_ERROR" in str(found.error)
