"""Durations as people write them, such as ``7d``, ``36h`` or ``30 min``: the parser of forms, options and files."""

from __future__ import annotations

import math
import re

EXAMPLES = "7d, 36h or 30 min"
"""What messages show."""
SECONDS = {"weeks": 604_800.0, "days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}
"""The units and their lengths, the longest first."""

LONGEST_SECONDS = 100 * 365.25 * 86_400
"""The longest duration. With much longer ones, times would leave Python's calendar."""
LONGEST = "at most 100 years"
"""What messages say of it."""

_SPELLINGS = ("w|weeks?", "d|days?", "h|hours?", "m|min|minutes?", "s|sec|seconds?")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
PATTERN = "^(?=.)" + "".join(f"(?:({_NUMBER}) ?(?:{spelling})(?: |$|(?=[0-9])))?" for spelling in _SPELLINGS) + "$"
"""A regular expression for JSON schemas. Each unit at most once, the longest first."""
PATTERN_OR_NUMBER = f"{PATTERN}|^{_NUMBER}$"
_DURATION = re.compile(PATTERN)


def parse_duration(text: str) -> float:
    """Return a duration in seconds. Raises ``ValueError`` for any other text, also for a number without a unit.

    More than a hundred years are no duration either.

    :param text: such as ``7d``, ``36h``, ``30 min`` or ``1d 12h``.
    """
    found = _DURATION.match(" ".join(text.split()))
    if found is None:
        raise ValueError(f"{text!r} is no duration: write it as {EXAMPLES}")
    numbers = zip(found.groups(), SECONDS.values(), strict=True)
    # Floats have a little less for 0.7d, which would be shown as "16h 47min 60s".
    return _bounded(text, round(sum(float(number) * seconds for number, seconds in numbers if number is not None), 6))


def read_duration(value: object, unit: str = "seconds") -> float:
    """Return a duration in a unit; a number, or a string with nothing else, is in that unit already.

    :param value: a duration as in ``parse_duration``, or a number.
    :param unit: one of ``SECONDS``.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no duration: write it as {EXAMPLES}, or a number of {unit}")
    try:
        number = float(value)
    except ValueError:
        return parse_duration(str(value)) / SECONDS[unit]
    except OverflowError:  # an integer may have any number of digits
        number = math.inf
    _bounded(value, number * SECONDS[unit])
    return number


def _bounded(value: object, seconds: float) -> float:
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{value!r} is too long: {LONGEST}")
    return seconds


def show_duration(seconds: float) -> str:
    """Return a duration as ``parse_duration`` reads it, in its largest units: ``604800`` is ``7d``.

    :param seconds: at least 0.
    """
    parts, rest = [], seconds
    for unit in ("days", "hours", "minutes"):
        number, rest = divmod(rest, SECONDS[unit])
        parts += [f"{number:.0f}{'min' if unit == 'minutes' else unit[0]}"] if number else []
    return " ".join([*parts, f"{rest:g}s"] if rest or not parts else parts)
