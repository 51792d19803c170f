"""Keep files: patterns of groups to keep, one a line, in a file that owners may edit.

Whatever a line may mean, it keeps: one keeps too much at worst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_kafka_groups.exceptions import ConfigurationError, PolicyError
from airflow_kafka_groups.judge.policy.yaml_lines import Problems
from airflow_kafka_groups.observe.patterns import check_patterns, spellings_of


def keep_lines(problems: Problems, name: str, content: bytes) -> Iterator[str]:
    """Yield the patterns of a keep file: one a line, with comments after ``#`` at the start of a line or a space.

    An id may contain what looks like a comment, a line's end of Unicode's (U+0085, U+2028), blanks around it, or
    commas, and people write several patterns into a line. Such a line counts in all readings.
    """
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as exc:
        raise PolicyError(f"{name} is not UTF-8: {exc}; save it as UTF-8") from exc
    for number, line in enumerate(lines, 1):
        whole = line.removesuffix("\r")
        parts = whole.splitlines()
        for part in parts:
            valid, why = _keep_patterns(part)
            if why and not valid:
                problems.found.append((number, f"{name}, line {number}: {why[0]}"))
            yield from valid
        if len(parts) > 1:
            yield from _keep_patterns(whole)[0]


def _keep_patterns(line: str) -> tuple[list[str], list[str]]:
    """Return the patterns that a line of a keep file may mean, and why other readings of it are none."""
    complete = line.strip()
    pattern = "" if complete.startswith("#") else complete.partition(" #")[0].strip()
    readings = [pattern] if pattern else []
    if pattern != complete and complete[:2] not in ("#", "# "):
        readings.append(complete)
    for between in (",", r",\s*(?=re:)"):  # a regular expression may have commas itself
        readings += filter(None, map(str.strip, re.split(between, pattern)))
    readings = list(dict.fromkeys(readings))
    valid, why = list[str](), list[str]()
    for reading in readings:
        try:
            valid += check_patterns("pattern", [reading])
        except ConfigurationError as exc:
            why.append(str(exc))
    if valid and line != complete:
        valid += spellings_of(line)[1:]
    return valid, why
