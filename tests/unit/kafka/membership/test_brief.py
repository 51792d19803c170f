"""A member that joins and leaves at once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MembershipError
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.protocol.api_versions import JOIN_GROUP
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.unit.kafka.membership import replies
from tests.unit.kafka.membership.group import ScriptedGroup


@pytest.fixture
async def admin(group: ScriptedGroup) -> AsyncIterator[MaintenanceClient]:
    async with MaintenanceClient(group.config) as client:
        yield client


async def test_it_joins_alone_and_leaves(group: ScriptedGroup, admin: MaintenanceClient) -> None:
    await admin.join_and_leave("g", ["t"])
    assert group.left == ["m1"]


async def test_where_another_member_is_it_leads_nothing_and_leaves(
    group: ScriptedGroup, admin: MaintenanceClient
) -> None:
    group.others = {"a consumer that is back": b""}
    with pytest.raises(MembershipError, match="another member"):
        await admin.join_and_leave("g", ["t"])
    assert group.left == ["m1"]


async def test_where_another_member_leads_it_was_not_alone(group: ScriptedGroup, admin: MaintenanceClient) -> None:
    def follow(broker_id: int, version: int, request: Any) -> Any:
        if not request.member_id:
            return replies.join(version, "m1", error=ErrorCode.member_id_required)
        return replies.join(version, "m1", leader="a consumer that is back", generation=7)

    group.cluster.control(JOIN_GROUP, follow)
    group.override = b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\0"  # it is given t[0]
    with pytest.raises(MembershipError, match="another member"):
        await admin.join_and_leave("g", ["t"])
    assert group.left == ["m1"]
