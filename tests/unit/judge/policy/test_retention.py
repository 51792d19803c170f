"""Kafka forgets an empty group's offsets after 7 days by default: nothing that has to wait as long can be stale."""

import pytest

from airflow_kafka_groups.judge.policy.retention import against_retention, fitting_idle_seconds, remedy
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction

DAY = 86_400.0
HOUR = 3_600.0
WEEK = 7 * 1_440


def made(idle: float, notice: float = 0.0, action: RuleAction = RuleAction.DELETE) -> Rule:
    return Rule(name="r", action=action, min_idle_seconds=idle * DAY, min_observations=2, notice_seconds=notice * DAY)


@pytest.mark.parametrize(
    ("rule", "retention_days", "errors", "warnings"),
    [
        (made(3), 7, 0, 0),
        (made(7), 7, 0, 1),
        (made(3, notice=4), 7, 0, 1),
        (made(3, notice=3.9), 7, 0, 0),
        (made(3, notice=7), 7, 1, 0),
        (made(3, notice=7), None, 0, 1),
        (made(30, notice=9, action=RuleAction.KEEP), 7, 0, 0),
        (made(30, action=RuleAction.KEEP), None, 0, 0),
    ],
)
def test_what_the_brokers_retention_means(rule: Rule, retention_days: int | None, errors: int, warnings: int) -> None:
    """Kafka forgets an empty group's offsets after 7 days by default: nothing that has to wait as long can be stale."""
    found = against_retention([rule], None if retention_days is None else retention_days * 1_440)
    assert tuple(map(len, found)) == (errors, warnings)


@pytest.mark.parametrize(
    ("minutes", "notice", "idle"),
    [
        (WEEK, 0.0, 5 * DAY),
        (WEEK, 12 * HOUR, 4 * DAY),
        (14 * 1_440, 0.0, 10 * DAY),
        (1_440, 0.0, 18 * HOUR),
        (WEEK, 4 * DAY, 30 * HOUR),
        (80, 0.0, HOUR),
        (79, 0.0, None),
        (WEEK, 6 * DAY, None),
    ],
)
def test_a_fitting_idle_time_leaves_a_quarter_of_the_retention(minutes: int, notice: float, idle: float | None) -> None:
    assert fitting_idle_seconds(minutes, notice) == idle


def test_the_remedy_names_values_that_fit_each_other() -> None:
    assert remedy(7 * DAY, WEEK) == (
        "raise offsets.retention.minutes to 13440, or lower the idle time to 5d; a consumer that comes once a week "
        "looks stale by that"
    )
    assert remedy(30 * DAY, 14 * 1_440) == "raise offsets.retention.minutes to 57600, or lower the idle time to 10d"
    assert remedy(7 * DAY, WEEK, 6 * DAY) == "raise offsets.retention.minutes to 24960"
    assert against_retention([made(7)], 13_440) == ([], [])
    assert against_retention([made(5)], WEEK) == ([], [])


def test_a_message_names_the_place_and_the_remedy() -> None:
    errors, _ = against_retention([made(1, notice=7)], WEEK, {"r": "policy.yaml, line 4: rule 'r'"})
    assert errors == [
        "policy.yaml, line 4: rule 'r': a notice of 7d is too long, since brokers forget the offsets of an empty group "
        "after 7d (offsets.retention.minutes): set notice to less than that, or raise offsets.retention.minutes to "
        "15360"
    ]
    _, (unknown,) = against_retention([made(7)], None)
    assert "Allow DescribeConfigs on the cluster, or set offsets_retention_minutes" in unknown
