from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.judge.policy.quiet_times import QuietTimes, read_quiet_times
from airflow_kafka_groups.judge.policy.yaml_lines import Document, Problems
from tests.unit.judge.policy.files import policy_of

RULES = "rules: [{name: a, action: delete}]\n"


def quiet(*windows: str, holidays: tuple[str, ...] = (), zone: str = "UTC") -> QuietTimes:
    problems = Problems(Document("p", {}))
    times = read_quiet_times(problems, zone, windows, holidays)
    problems.raise_if_any()
    return times


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "moment", "is_quiet"),
    [
        ("08:00-18:00", "2026-11-23T08:00", True),
        ("08:00-18:00", "2026-11-23T17:59:59", True),
        ("08:00-18:00", "2026-11-23T18:00", False),
        ("08:00-18:00", "2026-11-23T07:59:59", False),
        ("Mon-Fri 08:00-18:00", "2026-11-21T12:00", False),
        ("Mon-Fri 08:00-18:00", "2026-11-20T12:00", True),
        ("Sat,Sun 00:00-24:00", "2026-11-22T23:59", True),
        ("Sat,Sun 00:00-24:00", "2026-11-23T00:00", False),
        ("Fri-Mon 00:00-24:00", "2026-11-22T12:00", True),
        ("Fri-Mon 00:00-24:00", "2026-11-24T12:00", False),
        ("Mon,Wed-Thu 10:00-11:00", "2026-11-24T10:30", False),
        ("Mon,Wed-Thu 10:00-11:00", "2026-11-26T10:30", True),
        ("22:00-06:00", "2026-11-23T23:00", True),
        ("22:00-06:00", "2026-11-23T05:59", True),
        ("22:00-06:00", "2026-11-23T06:00", False),
        ("Fri 22:00-06:00", "2026-11-21T05:00", True),
        ("Fri 22:00-06:00", "2026-11-20T05:00", False),
        ("Sun 22:00-06:00", "2026-11-23T05:00", True),
    ],
)
def test_hours_of_the_week(window: str, moment: str, is_quiet: bool) -> None:
    why = quiet(window).why_quiet(at(moment))
    assert why == (f"the quiet hours {window} (UTC)" if is_quiet else None)


@pytest.mark.parametrize(
    ("holiday", "day", "is_quiet"),
    [
        ("2026-12-24", "2026-12-24", True),
        ("2026-12-24", "2027-12-24", False),
        ("12-25", "2031-12-25", True),
        ("12-25", "2031-12-26", False),
        ("2026-12-24..2027-01-02", "2026-12-31", True),
        ("2026-12-24..2027-01-02", "2027-01-03", False),
        ("12-24..01-02", "2030-01-01", True),
        ("12-24..01-02", "2030-01-03", False),
        ("02-29", "2028-02-29", True),
    ],
)
def test_days_of_the_year(holiday: str, day: str, is_quiet: bool) -> None:
    assert (quiet(holidays=(holiday,)).why_quiet(at(f"{day}T12:00")) is not None) == is_quiet


def test_times_are_meant_in_their_zone() -> None:
    times = quiet("08:00-18:00", holidays=("2026-12-25",), zone="Europe/Berlin")
    assert times.why_quiet(at("2026-07-01T06:30")) is not None, "08:30 in summer"
    assert times.why_quiet(at("2026-12-01T07:30")) is not None, "08:30 in winter"
    assert times.why_quiet(at("2026-12-01T06:30")) is None
    assert times.why_quiet(at("2026-12-24T23:30")) is not None, "it has begun there"


def test_quiet_times_end() -> None:
    times = quiet("Mon-Fri 08:00-18:00", "18:00-18:30", holidays=("2026-11-24",))
    assert times.end_of(at("2026-11-23T09:13:27.5")) == at("2026-11-23T18:30")
    assert times.end_of(at("2026-11-24T09:13")) == at("2026-11-25T00:00"), "the holiday"
    assert times.end_of(at("2026-11-23T07:00")) == at("2026-11-23T07:00")
    berlin = quiet("00:00-04:00", zone="Europe/Berlin")
    assert berlin.end_of(at("2026-03-29T00:30")) == at("2026-03-29T02:00"), "the hour that is left out"
    assert berlin.end_of(at("2026-10-24T23:30")) == at("2026-10-25T03:00"), "the hour that comes twice"
    until_3 = quiet("00:00-03:00", zone="Europe/Berlin")
    assert until_3.end_of(at("2026-03-29T00:30")) == at("2026-03-29T01:00"), "at 2 it is 3"


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_the_end_is_the_first_moment_that_is_not_quiet(moment: datetime, zone: str) -> None:
    times = quiet("Mon-Fri 08:30-18:00", "Fri 22:00-06:00", holidays=("12-24..12-26",), zone=zone)
    begin = moment.replace(tzinfo=UTC)
    end = times.end_of(begin)
    assert end is not None
    assert times.why_quiet(end) is None
    if end > begin:
        assert times.why_quiet(end - timedelta(seconds=1)) is not None
        assert times.why_quiet(begin) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("quiet_hours: 8-18", "must be hours such as 'Mon-Fri 08:00-18:00'"),
        ("quiet_hours: ['25:00-26:00']", "must be hours"),
        ("quiet_hours: ['24:00-06:00']", "must be hours"),
        ("quiet_hours: ['08:00-24:30']", "must be hours"),
        ("quiet_hours: ['08:00-08:00']", "must be hours"),
        ("quiet_hours: ['Mo-Fr 08:00-18:00']", "quiet_hours[0] (got 'Mo-Fr 08:00-18:00')"),
        ("quiet_hours: ['Mon-Fri-Tue 08:00-18:00']", "must be hours"),
        ("quiet_hours: ['00:00-24:00']", "nothing could ever be deleted"),
        ("holidays: ['2026-02-29']", "must be a day such as '2026-12-24'"),
        ("holidays: ['2026-02-29..2026-03-05']", "must be a day"),
        ("holidays: ['2026-03-05..2026-04-31']", "must be a day"),
        ("holidays: ['2026-12-24..12-26']", "must be a day"),
        ("holidays: ['2027-01-02..2026-12-24']", "must be a day"),
        ("holidays: ['01-01..12-31']", "nothing could ever be deleted"),
        ("holidays: [2026-12-24]", "a day in quotes, such as"),
        ("timezone: Europe/Berln", "is no known time zone"),
        ("timezone: ../etc/passwd", "is no known time zone"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as error:
        policy_of(tmp_path, f"version: 1\n{text}\n{RULES}")
    assert "policy.yaml, line 2: " in str(error.value)
    assert why in str(error.value)


def test_a_policy_has_its_quiet_times(tmp_path: Path) -> None:
    text = "version: 1\ntimezone: Europe/Berlin\nquiet_hours: Mon-Fri 08:00-18:00\nholidays: ['12-25']\n"
    times = policy_of(tmp_path, text + RULES).quiet
    assert (times.zone, [window.text for window in times.windows]) == ("Europe/Berlin", ["Mon-Fri 08:00-18:00"])
    assert policy_of(tmp_path, f"version: 1\n{RULES}").quiet == QuietTimes()
