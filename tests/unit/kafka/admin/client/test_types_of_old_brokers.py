"""The types that a deletion names, where brokers report none."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import UnexpectedGroupTypeError
from tests.fakes.cluster import OLD, FakeCluster
from tests.unit.kafka.admin.client.faults import client


@pytest.mark.parametrize(("types", "deleted"), [(["consumer"], False), (["share"], False), (["classic"], True)])
async def test_a_group_whose_type_no_broker_reports_is_deleted_only_as_a_classic_one(
    types: list[str], deleted: bool
) -> None:
    """Brokers that report no type have classic groups."""
    async with FakeCluster({1: OLD, 2: OLD}, groups={"g0"}) as fake, client(fake) as admin:
        result = (await admin.delete_consumer_groups(["g0"], types=types))["g0"]
    assert result.ok == deleted
    assert fake.groups == (set() if deleted else {"g0"})
    assert deleted or isinstance(result.error, UnexpectedGroupTypeError)
    assert deleted or "'g0' is a classic group; add its type" in str(result.error), "'unknown' would change nothing"
