"""Groups that the first API does not find: asked for as the other types, unless there is none of any type."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.admin.client.faults import client

NOT_FOUND = ErrorCode.group_id_not_found
MODERN_DESCRIBES = (CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE)


def say(fake: FakeCluster, message: str | None) -> None:
    """Let no API find a group, and DescribeGroups say this about it."""
    fake.control(
        DESCRIBE_GROUPS,
        lambda _, version, request: answers.describe_groups(
            version, dict.fromkeys(request.groups, NOT_FOUND), "Dead", message
        ),
    )
    for api in MODERN_DESCRIBES:

        def answer(_: int, version: int, request: Any, api: Any = api) -> Any:
            return answers.modern_group_describe(api, version, dict.fromkeys(request.group_ids, NOT_FOUND))

        fake.control(api, answer)


async def test_a_group_that_the_broker_says_is_of_no_type_is_asked_for_once() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        say(fake, "Group {} not found.")
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.DEAD, GroupType.UNKNOWN)
        assert [len(fake.requests(api)) for api in MODERN_DESCRIBES] == [0, 0, 0]


@pytest.mark.safety
@pytest.mark.parametrize(
    "message", [None, "", "Group {} is not a classic group.", "Classic group {} not found.", "Group other not found."]
)
async def test_a_group_is_absent_only_when_the_apis_of_all_types_say_so(message: str | None) -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        say(fake, message)
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.DEAD, GroupType.UNKNOWN)
        assert [len(fake.requests(api)) for api in MODERN_DESCRIBES] == [1, 1, 1]
        fake.control(
            STREAMS_GROUP_DESCRIBE,
            lambda _, version, request: answers.modern_group_describe(
                STREAMS_GROUP_DESCRIBE, version, dict.fromkeys(request.group_ids, ErrorCode.none)
            ),
        )
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.STABLE, GroupType.STREAMS)
