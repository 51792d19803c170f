from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_groups.change.plan.notify import OwnerNotice
from airflow_kafka_groups.judge.policy.notice import Notice, shown_period, why_not_noticed
from tests.fakes.groups import NOW

DAY = timedelta(days=1)
GIVEN = Notice(fingerprint="f", marked_at=NOW, notified_at=NOW + DAY, contact="c", told_seconds=4.0)
ARGUMENTS: dict[str, Any] = {"seconds": 86_400.0, "fingerprint": "f", "at": NOW + 2 * DAY, "contact": "c"}


def why(notice: Notice | None = GIVEN, **changes: Any) -> str | None:
    return why_not_noticed(notice, **{**ARGUMENTS, **changes})


def test_a_notice_that_was_given_for_long_enough_lets_the_group_go() -> None:
    assert why() is None
    assert why(alive_at=NOW - DAY) is None


@pytest.mark.parametrize(
    ("notice", "changes", "reason"),
    [
        (None, {}, "has not been notified"),
        (Notice(fingerprint="f", marked_at=NOW), {}, "has not been notified yet"),
        (GIVEN, {"at": NOW + 2 * DAY - timedelta(seconds=1)}, "is not over"),
        (GIVEN, {"seconds": 86_401.0}, "is not over"),
        (GIVEN, {"fingerprint": "g"}, "has lived since"),
        (GIVEN, {"alive_at": NOW}, "has lived since"),
        (replace(GIVEN, contact=None), {}, "somewhere else"),
        (replace(GIVEN, contact=None), {"contact": None}, "somewhere else"),
    ],
)
def test_everything_else_keeps_it(notice: Notice | None, changes: dict[str, Any], reason: str) -> None:
    assert reason in str(why(notice, **changes))


def test_a_rule_without_a_notice_needs_none() -> None:
    assert why(None, seconds=0.0) is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (86_500, "1 day"),
        (172_800, "2 days"),
        (86_400, "1 day"),
        (129_600, "1.5 days"),
        (43_200, "12 h"),
        (1_800, "30 min"),
        (4, "4 s"),
    ],
)
def test_a_period_is_shown_in_the_unit_that_fits(seconds: float, shown: str) -> None:
    assert shown_period(seconds) == shown
    assert f"notice period of {shown} is not over" in str(why(seconds=float(seconds), at=NOW + DAY))


@given(st.integers(60, 400 * 86_400))
@example(100 * 86_400 + 15 * 3_600)  # a message said 101 days
@example(47 * 3_600)
@pytest.mark.safety
def test_no_message_names_a_longer_period_than_the_one_that_holds(seconds: int) -> None:
    """The owner is told "at the earliest"."""
    number, unit = shown_period(seconds).split()
    lengths = {"day": 86_400, "days": 86_400, "h": 3_600, "min": 60}
    told = float(number) * lengths[unit]
    assert seconds * 0.98 < told <= seconds + 1e-6
    notice = OwnerNotice(
        cluster="c", plan_id="p", owner="o", contact="a", groups=("g",), notice_seconds=seconds, report="r"
    )
    assert float(notice.to_context()["days"]) * 86_400 <= seconds + 1e-6
