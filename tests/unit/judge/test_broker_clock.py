"""What puts off the time at which brokers forget a group, and when a group is due."""

from datetime import timedelta

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.judge.broker_clock import BrokerClock, Remedy, remedy_for
from airflow_kafka_groups.kafka.models import GroupType
from tests.fakes.groups import NOW

WEEK = 10_080


@pytest.mark.parametrize(
    ("kind", "protocol_type", "remedy"),
    [
        (GroupType.CLASSIC, "", Remedy.COMMIT),
        (GroupType.UNKNOWN, "", Remedy.COMMIT),
        (GroupType.CONSUMER, "consumer", Remedy.COMMIT),
        (GroupType.CLASSIC, "consumer", Remedy.MEMBERSHIP),
        (GroupType.UNKNOWN, "consumer", Remedy.MEMBERSHIP),
        (GroupType.CLASSIC, "connect", None),
        (GroupType.UNKNOWN, "sr", None),
        (GroupType.SHARE, "", None),
        (GroupType.SHARE, "share", None),
        (GroupType.STREAMS, "consumer", None),
    ],
)
def test_only_a_classic_group_that_had_members_needs_a_membership(
    kind: GroupType, protocol_type: str, remedy: Remedy | None
) -> None:
    assert remedy_for(kind, protocol_type) is remedy


def test_a_group_is_due_in_the_last_third_of_its_retention() -> None:
    clock = BrokerClock.of(WEEK)
    kept_at = NOW
    assert clock.not_before(kept_at) == NOW + timedelta(days=7)
    edge = NOW + timedelta(days=7) * 2 / 3
    assert not clock.is_due(kept_at, edge - timedelta(seconds=1))
    assert clock.is_due(kept_at, edge)


def test_what_nobody_knows_is_due() -> None:
    clock = BrokerClock.of(WEEK)
    assert clock.not_before(None) is None
    assert clock.is_due(None, NOW)
    assert clock.is_due(NOW + timedelta(days=1), NOW), "a record from the future proves nothing"


def test_the_margin_has_room_for_a_run_that_fails() -> None:
    day = 86_400.0
    assert BrokerClock.of(WEEK, interval_seconds=day).margin == timedelta(days=7) / 3
    assert BrokerClock.of(WEEK, interval_seconds=2 * day).margin == timedelta(days=4)
    assert BrokerClock.of(WEEK, margin_seconds=3 * day, interval_seconds=day).margin == timedelta(days=3)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"interval_seconds": 3.5 * 86_400}, "interval_seconds"),
        ({"interval_seconds": 0.0}, "interval_seconds"),
        ({"margin_seconds": 7.0 * 86_400}, "margin_seconds"),
        ({"margin_seconds": 0.0}, "margin_seconds"),
        ({"margin_seconds": 86_400.0, "interval_seconds": 86_400.0}, "margin_seconds"),
    ],
)
def test_a_schedule_that_comes_too_late_is_refused(changes: dict[str, float], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        BrokerClock.of(WEEK, **changes)
