"""Quiet hours and holidays: times in which nothing is deleted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_kafka_groups.exceptions import QuietTimeError
from airflow_kafka_groups.judge.policy.yaml_lines import Path, Problems

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(_DAYS)
_RANGE = rf"(?:{_DAY})(?:-(?:{_DAY}))?"
_WINDOW = re.compile(rf"(?:({_RANGE}(?:,{_RANGE})*) )?([01]\d|2[0-4]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
_HOLIDAY = re.compile(r"((?:\d{4}-)?\d\d-\d\d)(?:\.\.((?:\d{4}-)?\d\d-\d\d))?")
_MIDNIGHT = 24 * 60
_LONGEST_DAYS = 400


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of some days, such as ``Mon-Fri 08:00-18:00``. One that ends before it begins goes on after midnight.

    :param text: as it is in the file.
    :param days: the days on which it begins, from 0 for Monday.
    :param begin: minutes since midnight, as is ``end``; 1,440 is midnight.
    """

    text: str
    days: frozenset[int]
    begin: int
    end: int

    def covers(self, day: date, minute: int) -> bool:
        """Return whether it covers a minute of a day."""
        if self.begin < self.end:
            return day.weekday() in self.days and self.begin <= minute < self.end
        today, yesterday = day.weekday(), (day - timedelta(days=1)).weekday()
        return (today in self.days and minute >= self.begin) or (yesterday in self.days and minute < self.end)


@dataclass(frozen=True, slots=True)
class Holiday:
    """A day or some days, such as ``2026-12-24``, ``2026-12-24..2027-01-01`` or, each year, ``12-25``.

    :param text: as it is in the file.
    :param first: the first day, and ``last`` the last one: with the year, or without it for each year.
    """

    text: str
    first: str
    last: str

    def covers(self, day: date) -> bool:
        """Return whether it covers a day."""
        shown = f"{day:%m-%d}" if len(self.first) == len("12-25") else day.isoformat()
        if self.first <= self.last:
            return self.first <= shown <= self.last
        return shown >= self.first or shown <= self.last  # from one year to the next


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """The times in which nothing is deleted.

    :param zone: the name of the time zone in which they are meant.
    :param windows: hours of the week.
    :param holidays: days of the year.
    """

    zone: str = "UTC"
    windows: tuple[Window, ...] = ()
    holidays: tuple[Holiday, ...] = ()

    def why_quiet(self, at: datetime) -> str | None:
        """Return the quiet time that a moment is in, in words; ``None`` if it is in none.

        :param at: the moment, with a zone.
        """
        if not self.windows and not self.holidays:
            return None
        local = at.astimezone(ZoneInfo(self.zone))
        day, minute = local.date(), local.hour * 60 + local.minute
        for holiday in self.holidays:
            if holiday.covers(day):
                return f"the holiday {holiday.text} ({self.zone})"
        for window in self.windows:
            if window.covers(day, minute):
                return f"the quiet hours {window.text} ({self.zone})"
        return None

    def require_over(self, at: datetime, expires_at: datetime) -> None:
        """Raise ``QuietTimeError`` if a moment is in a quiet time, with its end where the plan is still valid then.

        :param at: the moment, with a zone.
        """
        if (why := self.why_quiet(at)) is not None:
            end = self.end_of(at)
            until = "with no end within a year" if end is None else f"until {end}"
            message = f"no deletions during {why}, {until}"
            raise QuietTimeError(message, end if end is not None and end < expires_at else None)

    def end_of(self, at: datetime) -> datetime | None:
        """Return the first minute from a moment on that is not quiet, ``None`` if there is none for a year.

        :param at: the moment, with a zone.
        """
        begins = {0, *(minute % _MIDNIGHT for window in self.windows for minute in (window.begin, window.end))}
        moment, last = at, at + timedelta(days=_LONGEST_DAYS)
        while self.why_quiet(moment) is not None:
            if moment > last:
                return None
            # Nothing ends between two of these minutes. In UTC, and at most to the next full hour by the local clock,
            # which may be changed there.
            local = moment.astimezone(ZoneInfo(self.zone))
            minute = local.hour * 60 + local.minute
            ahead = min((other - minute) % _MIDNIGHT or _MIDNIGHT for other in begins)
            step = timedelta(minutes=min(ahead, 60 - local.minute))
            step -= timedelta(seconds=local.second, microseconds=local.microsecond)
            moment += step
        return moment


def read_quiet_times(problems: Problems, zone: str, windows: Sequence[str], holidays: Sequence[str]) -> QuietTimes:
    """Parse the sections of a policy file, and add what cannot be meant to its problems.

    :param zone: the section ``timezone``.
    :param windows: the section ``quiet_hours``.
    :param holidays: the section ``holidays``.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        problems.add(("timezone",), f"(got {zone!r}) is no known time zone: write one such as Europe/Berlin or UTC")
        zone = "UTC"
    found = [_window(problems, ("quiet_hours", place), text) for place, text in enumerate(windows)]
    days = [_holiday(problems, ("holidays", place), text) for place, text in enumerate(holidays)]
    times = QuietTimes(zone, tuple(filter(None, found)), tuple(filter(None, days)))
    if (times.windows or times.holidays) and times.end_of(datetime.fromisoformat("2001-01-01T00:00:00Z")) is None:
        path = ("quiet_hours",) if windows else ("holidays",)
        problems.add(path, "cover every hour for a year: nothing could ever be deleted. Leave some out")
    return times


def _window(problems: Problems, path: Path, text: str) -> Window | None:
    match = _WINDOW.fullmatch(text)
    begin, end = (0, 0) if match is None else (_minutes(match[2], match[3]), _minutes(match[4], match[5]))
    if match is None or begin >= _MIDNIGHT or end > _MIDNIGHT or begin == end:
        problems.add(path, f"(got {text!r}) must be hours such as 'Mon-Fri 08:00-18:00', 'Sat,Sun 00:00-24:00'")
        return None
    days: set[int] = set()
    for part in (match[1] or "Mon-Sun").split(","):
        first, _, last = part.partition("-")
        start, stop = _DAYS.index(first), _DAYS.index(last or first)
        days |= {(start + number) % 7 for number in range((stop - start) % 7 + 1)}
    return Window(text, frozenset(days), begin, end)


def _minutes(hours: str, minutes: str) -> int:
    return int(hours) * 60 + int(minutes)


def _holiday(problems: Problems, path: Path, text: str) -> Holiday | None:
    match = _HOLIDAY.fullmatch(text)
    if match is not None:
        first, last = match[1], match[2] or match[1]
        is_each_year = len(first) == len("12-25")
        if len(first) == len(last) and _is_day(first) and _is_day(last) and (is_each_year or first <= last):
            return Holiday(text, first, last)
    problems.add(path, f"(got {text!r}) must be a day such as '2026-12-24', '12-25', or '2026-12-24..2027-01-01'")
    return None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text if len(text) > len("12-25") else f"2000-{text}")
    except ValueError:
        return False
    return True
