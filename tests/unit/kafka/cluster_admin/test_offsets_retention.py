"""The retention of a cluster: the smallest value of all brokers, and no number where a broker did not tell."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.cluster_admin.client import OFFSETS_RETENTION, ConfigEntry, offsets_retention_of

DENIED = BrokerError(31, "CLUSTER_AUTHORIZATION_FAILED", "no", api="DescribeConfigs", broker_id=2)


def told(value: str | None, *, is_default: bool = False) -> dict[str, ConfigEntry]:
    other = ConfigEntry(value="1", is_default=True)
    return {"other": other, OFFSETS_RETENTION: ConfigEntry(value=value, is_default=is_default)}


def test_the_smallest_value_counts_and_differing_ones_are_reported() -> None:
    found = offsets_retention_of({1: told("10080", is_default=True), 2: told("60")})
    assert (found.minutes, found.differs, found.is_default) == (60, True, False)
    assert dict(found.by_broker) == {1: 10_080, 2: 60}
    assert found.defaults == {1}


def test_a_value_that_every_broker_has_by_default_is_marked_so() -> None:
    found = offsets_retention_of({1: told("10080", is_default=True), 2: told("10080", is_default=True)})
    assert (found.minutes, found.differs, found.is_default) == (10_080, False, True)


@pytest.mark.safety
@pytest.mark.parametrize("answer", [DENIED, {}, told(None), told(""), told("-1"), told("soon")])
def test_a_broker_that_does_not_tell_leaves_no_number(answer: dict[str, ConfigEntry] | KafkaGroupsError) -> None:
    found = offsets_retention_of({1: told("60", is_default=True), 2: answer})
    assert (found.minutes, found.is_default) == (None, False)
    assert list(found.errors) == [2]
    assert "2" in str(found.errors[2])


@pytest.mark.safety
def test_no_broker_is_no_number() -> None:
    assert offsets_retention_of({}).minutes is None
